"""Named numbers by step, as tables and TensorBoard have them: which name is which, and what times mean."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator

from nanodyno.records.importers.events import LogEvent, LoggedEval, LoggedStep, Note

NAMES = {
    "train_loss": "loss train/loss train_loss loss/train training_loss train/train_loss trl "
    "train_loss_step train/loss_step loss_step",
    "val_loss": "val/loss val_loss loss/val eval/loss eval_loss valid_loss validation_loss valid/loss "
    "loss/valid validation/loss loss/validation tel val_loss_epoch val/loss_epoch valid_loss_epoch",
    "learning_rate": "lr learning_rate train/lr train/learning_rate",
    "grad_norm": "grad_norm train/grad_norm norm gradient_norm",
    "mfu": "mfu train/mfu",
    "seconds": "seconds step_seconds iteration_seconds dt step_time iter_time time_per_iter",
    "milliseconds": "ms step_ms iter_ms dt_ms step_time_ms time_ms",
    "elapsed": "elapsed elapsed_seconds wall_time _runtime _timestamp runtime timestamp train_time "
    "relative_time_(process) relative_time_(wall)",
    "iteration": "iter iteration iterations global_step train/global_step trainer/global_step",
    "step": "step _step steps",
}
COUNTERS = ("iteration", "step")
"""The first is the better: W&B's own Step counts what was sent to it."""
EPOCH_MEANS = ("train_loss_epoch", "train/loss_epoch", "loss_epoch")
"""Lightning's means over an epoch: the train loss of a table that has no other."""
LIGHTNING_RATE = re.compile(r"lr-\w+(?:/pg1)?")
"""Of its learning rate monitor, the first group of parameters."""
KNOWN = {name: meaning for meaning, names in NAMES.items() for name in names.split()}
HELD_BACK = 8
"""Rows looked at before it is decided whether `seconds` are those of an iteration or of all so far."""
UNIX_TIMES = 1e9
FROM_THE_CLOCK = "times are differences of the log's clock: evaluations and saves in between are in them"


def meaning(name: str) -> str | None:
    """Which of the numbers above a column or tag is; W&B writes `run - metric`, with __MIN and __MAX."""
    plain = re.sub(r"\s+", "_", name.strip().strip('"').lower())
    if plain.endswith(("__min", "__max")):
        return None
    if LIGHTNING_RATE.fullmatch(plain):
        return "learning_rate"
    return KNOWN.get(plain) or KNOWN.get(plain.rpartition("_-_")[2])


class StepRow:
    """The numbers of one step; of several for the same thing the first counts."""

    __slots__ = ("evaluated_after", "numbers", "step", "tokens")

    def __init__(self, step: int) -> None:
        self.step = step
        self.evaluated_after = step
        """Updates made before its evaluation."""
        self.tokens: int | None = None
        """Of this iteration."""
        self.numbers: dict[str, float] = {}

    def add(self, name: str, value: float) -> None:
        what = meaning(name)
        if what is not None:
            self.numbers.setdefault(what, value)


class Columns:
    """Makes events of rows in their order."""

    def __init__(self, elapsed: bool = False) -> None:
        self._held: list[StepRow] | None = None if elapsed else []
        self._elapsed = elapsed
        self._last: tuple[int, float] | None = None
        self._reported = False

    def take(self, row: StepRow | None) -> Iterator[LogEvent]:
        if row is None:
            return
        if self._held is None:
            yield from self._events(row)
            return
        self._held.append(row)
        if len(self._held) >= HELD_BACK:
            yield from self.finish()

    def finish(self) -> Iterator[LogEvent]:
        """What was held back; after it, rows go straight through."""
        held, self._held = self._held, None
        self._elapsed = self._elapsed or _only_rises(row.numbers.get("seconds") for row in held or ())
        for row in held or ():
            yield from self._events(row)

    def _events(self, row: StepRow) -> Iterator[LogEvent]:
        numbers = row.numbers
        clock = numbers.get("elapsed", 0.0)
        wall_time = clock if UNIX_TIMES <= clock < math.inf else None  # others count from the start
        if "val_loss" in numbers:
            yield LoggedEval(row.evaluated_after, numbers["val_loss"], None, wall_time)
        if numbers.keys() & {"train_loss", "seconds", "milliseconds", "mfu"}:
            seconds, from_the_clock = self._seconds(row)
            if from_the_clock and not self._reported:
                self._reported = True
                yield Note(FROM_THE_CLOCK)
            share = numbers.get("mfu")
            yield LoggedStep(
                row.step,
                numbers.get("train_loss"),
                seconds,
                share / 100 if share is not None and 0 <= share < math.inf else None,
                numbers.get("learning_rate"),
                numbers.get("grad_norm"),
                row.tokens,
                wall_time,
            )

    def _seconds(self, row: StepRow) -> tuple[float | None, bool]:
        """Of one iteration, and whether that is a difference of two readings of a clock."""
        numbers = row.numbers
        if "milliseconds" in numbers:
            return numbers["milliseconds"] / 1000, False
        if "seconds" in numbers and not self._elapsed:
            return numbers["seconds"], False
        now = numbers.get("elapsed", numbers.get("seconds"))
        if now is None:
            return None, False
        before, self._last = self._last, (row.step, now)
        if before is None or row.step <= before[0] or not now > before[1]:
            return None, False
        return (now - before[1]) / (row.step - before[0]), True


def _only_rises(values: Iterable[float | None]) -> bool:
    """Times of single iterations do not grow eight times in a row."""
    seconds = [value for value in values if value is not None]
    return len(seconds) >= HELD_BACK // 2 and all(a < b for a, b in itertools.pairwise(seconds))
