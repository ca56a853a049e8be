"""Events to the files of a run: one place decides what a restart drops and which times count.

A log may hold several trainings, each from its beginning: the last is the run.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

from nanodyno.config import SPLIT_KEYS
from nanodyno.records.imported import Overhead, Setting
from nanodyno.records.importers.events import (
    LogEvent,
    LoggedBitsPerByte,
    LoggedDevice,
    LoggedEval,
    LoggedProcesses,
    LoggedStep,
    Note,
    Parameters,
    Reported,
    Start,
)
from nanodyno.records.importers.growing import GrowingRecords
from nanodyno.records.importers.rendering import Timed, eval_back, eval_lines, step_back, step_lines
from nanodyno.records.store import EVALS_FILE, STEPS_FILE

MOST_RESTARTS = 1000
MOST_NOTES = 20
MOST_SETTINGS = 500
MOST_BITS_PER_BYTE = 10_000
LONGEST_STEP = 1e7
"""Seconds."""
LEAP = 1000
"""Times the iterations so far (and as many more) that the next line of a log is not away from the last."""
FEWEST_TURNS, TURNS_OF_LINES = 8, 0.25
"""Times that iteration numbers go back unannounced, and their share of the lines: more is no restart."""
BATCH = ("block_size", *SPLIT_KEYS)


class Builder:
    """Takes a run's events in order and writes its steps and evaluations into a folder."""

    def __init__(
        self,
        folder: Path,
        fixed: Mapping[str, Setting],
        clock_holds_evaluations: bool,
        batch_is_of_all: bool = False,
    ) -> None:
        self.settings: dict[str, Setting] = dict(fixed)
        self.parameters: int | None = None
        self.device_name: str | None = None
        self.processes: int | None = None
        self.trainings = 1
        """Those that the log holds."""
        self.of_others = 0, 0
        """Iterations and evaluations of the trainings before the last."""
        self.restarts = 0
        self.dropped = 0
        """Iterations that were logged again after a restart."""
        self.timed = 0
        self.bits_per_byte: dict[int, float] = {}
        """Validations in bits per byte, by updates made."""
        self.resumed: deque[int] = deque(maxlen=MOST_RESTARTS)
        self.steps = GrowingRecords(folder / STEPS_FILE, step_lines, step_back, self._forget)
        self.evals = GrowingRecords(folder / EVALS_FILE, eval_lines, eval_back)
        self.turns = 0
        """Times that iteration numbers went back with nothing that announces a start."""
        self.lines = 0
        self._notes: dict[str, None] = {}
        self._notes_of_training: dict[str, None] = {}
        self._fixed = fixed
        self._given: tuple[dict[str, Setting], int | None] = (dict(fixed), None)
        self._clock_holds_evaluations = clock_holds_evaluations
        self._batch_is_of_all = batch_is_of_all
        self._tokens = self._tokens_per_iter()
        self._starts = False
        self._resumed: bool | None = None
        self._header: list[Reported | Parameters | LoggedDevice | LoggedProcesses] = []
        """Facts since the last iteration: of a training that begins anew, its own."""
        self._held: list[LoggedEval] = []
        """Evaluations at earlier iterations than the last: what comes next tells whose they are."""
        self._device_since = -1
        self._last_step = -1
        self._last_eval = -1

    def begin_logs(self) -> None:
        """What was taken so far was given beside the logs, and holds for every training in them."""
        self._given = (dict(self.settings), self.processes)
        self._header.clear()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._notes_of_training)

    @property
    def tokens_per_iter(self) -> int | None:
        return self._tokens

    def take(self, event: LogEvent) -> None:
        if isinstance(event, LoggedStep | LoggedEval) and self._leaps(event.iteration):
            return
        if isinstance(event, LoggedStep):
            self._take_step(event)
        elif isinstance(event, LoggedEval):
            self._take_eval(event)
        elif isinstance(event, LoggedBitsPerByte):
            self._keep_bits_per_byte(event.iteration)
            if len(self.bits_per_byte) < MOST_BITS_PER_BYTE:
                self.bits_per_byte[event.iteration] = event.bits_per_byte
        else:
            self._take_fact(event)

    def _leaps(self, iteration: int) -> bool:
        """Whether a number is damaged."""
        last = max(self._last_step, self._last_eval)
        leaps = last >= 0 and iteration > LEAP * (last + LEAP)
        if leaps:
            self.note(
                f"a line of iteration {iteration:,} next to iteration {last:,} is damaged, and left out"
            )
        return leaps

    def _take_fact(
        self, event: Reported | Parameters | LoggedDevice | LoggedProcesses | Start | Note
    ) -> None:
        if not isinstance(event, Start | Note) and len(self._header) < 2 * MOST_SETTINGS:
            self._header.append(event)
        match event:
            case Reported(key, value):
                self._take_setting(key, value)
            case Parameters(number):
                self.parameters = number
            case LoggedDevice(name):
                self._take_device(name)
            case LoggedProcesses(number):
                self._note_change("the number of processes", self.processes, number)
                self.processes = number
            case Start(resumed):
                self._starts, self._resumed = True, resumed
            case Note(words):
                self.note(words)

    def _take_device(self, name: str) -> None:
        """The first that a process lists."""
        if self.device_name is None or self._device_since != self._last_step:
            self._note_change("the GPU", self.device_name, name)
            self.device_name, self._device_since = name, self._last_step

    def note(self, words: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self._notes[words] = None

    def _note_change(self, what: str, before: Setting, after: Setting) -> None:
        if before not in (None, after) and self._last_step >= 0 and len(self.notes) < MOST_NOTES:
            words = f"{what} was {before} up to iteration {self._last_step:,}, and {after} after it"
            self._notes_of_training[words] = None

    def _work_out_block_size(self) -> None:
        """nanoGPT prints the product that it is a factor of, and not the size itself if it is the default."""
        tokens, micro, times = (self.settings.get(key) for key in ("tokens_per_iter", *SPLIT_KEYS))
        if "block_size" in self.settings or not (_is_count(tokens) and _is_count(micro) and _is_count(times)):
            return
        if tokens % (micro * times) == 0:
            self.settings["block_size"] = size = tokens // (micro * times)
            words = (
                f"block_size follows: {tokens:,} tokens per iteration are {micro:,} x {size:,} x {times:,}"
            )
            self._notes_of_training[words] = None

    def finish(self) -> None:
        """Take what was held back to the end of the logs."""
        for entry in self._held:
            if entry.iteration > self._last_eval:
                self._append_eval(entry)
            else:
                self.note(
                    f"an evaluation at iteration {entry.iteration:,} after iteration {self._last_step:,} is "
                    "left out, because no iteration follows it"
                )
        planned, done = self.settings.get("max_iters"), max(self._last_step, self._last_eval)
        if _is_count(planned) and done > planned:
            self.note(f"it reaches iteration {done:,}, beyond its max_iters of {planned:,}")
        if self.trainings > 1:
            steps, evals = self.of_others
            self.note(
                f"the log has {self.trainings:,} training runs, and only the last is imported; left out "
                f"of the others: {steps:,} logged iterations, {evals:,} evaluations"
            )

    def close(self) -> None:
        self.steps.close()
        self.evals.close()

    def _take_step(self, step: LoggedStep) -> None:
        iteration = step.iteration
        if step.seconds is not None and not 0 < step.seconds < LONGEST_STEP:
            step = step._replace(seconds=None)
        self.lines += 1
        latest = self.steps.last
        if iteration == self._last_step and latest is not None and repr(latest[1]) == repr(step):
            return  # printed twice
        if iteration <= self._last_step:
            self._go_back(iteration)
        elif self._starts and self._last_step >= 0:
            self._resume(iteration)
        for entry in self._held:
            self._append_eval(entry)
        overhead = None if step.seconds is None else self._overhead(iteration)
        self._starts, self._resumed, self._last_step = False, None, iteration
        self._held.clear()
        self._header.clear()
        self.steps.append((iteration, step, overhead, step.tokens or self._tokens))

    def _overhead(self, iteration: int) -> Overhead | None:
        self.timed += 1
        if self._starts or iteration == 0:
            return "start"
        return "evaluation" if self._clock_holds_evaluations and self._evaluates_at(iteration) else None

    def _evaluates_at(self, iteration: int) -> bool:
        """By the log, or by its settings where the lines of evaluations were left out of it."""
        interval = self.settings.get("eval_interval")
        return iteration == self._last_eval or (_is_count(interval) and iteration % interval == 0)

    def _take_eval(self, entry: LoggedEval) -> None:
        behind = entry.iteration < self._last_step or (
            entry.iteration == self._last_step and (self._starts or entry.iteration == self._last_eval)
        )
        if behind:
            del self._held[MOST_RESTARTS:]
            self._held.append(entry)
            return
        if not self.steps.count:
            if entry.iteration <= self._last_eval:
                before = self.evals.count
                self.evals.cut(entry.iteration)
                if not self.evals.count:
                    self._begin_anew(0, before)
            self._header.clear()
        self._append_eval(entry)

    def _append_eval(self, entry: LoggedEval) -> None:
        if entry.iteration <= self._last_eval:
            self.evals.cut(entry.iteration)
        self._last_eval = entry.iteration
        self.evals.append(entry)

    def _go_back(self, iteration: int) -> None:
        """The later of two tellings counts; of two trainings, the later."""
        self.turns += not self._starts and not self._header
        evals = self.evals.count
        self.steps.cut(iteration)
        self.evals.cut(iteration + 1)
        self._keep_bits_per_byte(iteration + 1)
        kept = self.steps.count
        if self._resumed is False or not kept or (kept == 1 and not self._resumed):
            self._begin_anew(self.dropped + kept, evals)
        else:
            self._resume(iteration)
        self._starts = True

    def _begin_anew(self, steps: int, evals: int) -> None:
        """Forget the training so far. Its settings hold for the next one if that prints none."""
        self.of_others = self.of_others[0] + steps, self.of_others[1] + evals
        self.trainings += 1
        self.steps.cut(0)
        self.evals.cut(0)
        self.restarts = self.dropped = self.timed = 0
        self.resumed.clear()
        self._last_step = self._last_eval = self._device_since = -1
        header, self._header = self._header, []
        if not header:
            return
        self.settings, self.processes = dict(self._given[0]), self._given[1]
        self.parameters = self.device_name = None
        self._notes_of_training.clear()
        self._tokens = self._tokens_per_iter()
        for event in header:
            self._take_fact(event)

    def _keep_bits_per_byte(self, before: int) -> None:
        if self.bits_per_byte and max(self.bits_per_byte) >= before:
            self.bits_per_byte = {key: value for key, value in self.bits_per_byte.items() if key < before}

    def _forget(self, steps: Sequence[Timed]) -> None:
        self.dropped += len(steps)
        self.timed -= sum(step.seconds is not None for _, step, _, _ in steps)

    def _resume(self, iteration: int) -> None:
        self.restarts += 1
        while self.resumed and self.resumed[-1] >= iteration:
            self.resumed.pop()
        self.resumed.append(iteration)

    def _take_setting(self, key: str, value: Setting) -> None:
        if key in self._fixed or (len(self.settings) >= MOST_SETTINGS and key not in self.settings):
            return
        if key in self.settings:
            self._note_change(key, self.settings[key], value)
        self.settings[key] = value
        if key == "tokens_per_iter" and self._batch_is_of_all:
            self._work_out_block_size()
        self._tokens = self._tokens_per_iter()

    def _tokens_per_iter(self) -> int | None:
        reported = self.settings.get("tokens_per_iter")
        if _is_count(reported):
            return reported
        product = 1
        for key in BATCH:
            size = self.settings.get(key)
            if not _is_count(size):
                return None
            product *= size
        return product


def _is_count(value: Setting) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
