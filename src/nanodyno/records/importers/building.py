"""Events to the files of a run: one place decides what a restart drops and which times count."""

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
        self.notes: dict[str, None] = {}
        self.parameters: int | None = None
        self.device_name: str | None = None
        self.processes: int | None = None
        self.restarts = 0
        self.dropped = 0
        """Iterations that were logged again after a restart."""
        self.timed = 0
        self.bits_per_byte: dict[int, float] = {}
        """Validations in bits per byte, by updates made."""
        self.resumed: deque[int] = deque(maxlen=MOST_RESTARTS)
        self.steps = GrowingRecords(folder / STEPS_FILE, step_lines, step_back, self._forget)
        self.evals = GrowingRecords(folder / EVALS_FILE, eval_lines, eval_back)
        self._fixed = fixed
        self._clock_holds_evaluations = clock_holds_evaluations
        self._batch_is_of_all = batch_is_of_all
        self._tokens = self._tokens_per_iter()
        self._starts = False
        self._last_step = -1
        self._last_eval = -1

    @property
    def tokens_per_iter(self) -> int | None:
        return self._tokens

    def take(self, event: LogEvent) -> None:
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

    def _take_fact(
        self, event: Reported | Parameters | LoggedDevice | LoggedProcesses | Start | Note
    ) -> None:
        match event:
            case Reported(key, value):
                self._take_setting(key, value)
            case Parameters(number):
                self.parameters = number
            case LoggedDevice(name):
                self.device_name = self.device_name or name
            case LoggedProcesses(number):
                self.processes = number
            case Start():
                self._starts = True
            case Note(words):
                self.note(words)

    def note(self, words: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes[words] = None

    def _work_out_block_size(self) -> None:
        """nanoGPT prints the product that it is a factor of, and not the size itself if it is the default."""
        tokens, micro, times = (self.settings.get(key) for key in ("tokens_per_iter", *SPLIT_KEYS))
        if "block_size" in self.settings or not (_is_count(tokens) and _is_count(micro) and _is_count(times)):
            return
        if tokens % (micro * times) == 0:
            self.settings["block_size"] = size = tokens // (micro * times)
            self.note(
                f"block_size follows: {tokens:,} tokens per iteration are {micro:,} x {size:,} x {times:,}"
            )

    def close(self) -> None:
        self.steps.close()
        self.evals.close()

    def _take_step(self, step: LoggedStep) -> None:
        iteration = step.iteration
        if step.seconds is not None and not 0 < step.seconds < LONGEST_STEP:
            step = step._replace(seconds=None)
        if iteration <= self._last_step:
            latest = self.steps.last
            if iteration == self._last_step and latest is not None and repr(latest[1]) == repr(step):
                return  # printed twice
            self._go_back(iteration)
        elif self._starts and self._last_step >= 0:
            self._resume(iteration)
        overhead = None if step.seconds is None else self._overhead(iteration)
        self._starts = False
        self._last_step = iteration
        self.steps.append((iteration, step, overhead, step.tokens or self._tokens))

    def _overhead(self, iteration: int) -> Overhead | None:
        self.timed += 1
        if self._starts or iteration == 0:
            return "start"
        return "evaluation" if self._clock_holds_evaluations and iteration == self._last_eval else None

    def _take_eval(self, entry: LoggedEval) -> None:
        if entry.iteration <= self._last_eval:
            self.evals.cut(entry.iteration)
        self._last_eval = entry.iteration
        self.evals.append(entry)

    def _go_back(self, iteration: int) -> None:
        """The later of two tellings counts."""
        self._starts = True
        self.steps.cut(iteration)
        self.evals.cut(iteration + 1)
        self._keep_bits_per_byte(iteration + 1)
        self._resume(iteration)

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
        if iteration and self.steps.count:  # else it began anew
            self.resumed.append(iteration)

    def _take_setting(self, key: str, value: Setting) -> None:
        if key in self._fixed or (len(self.settings) >= MOST_SETTINGS and key not in self.settings):
            return
        before = self.settings.get(key)
        if key in self.settings and before != value and self._last_step >= 0:
            self.note(f"{key} was {before} up to iteration {self._last_step:,}, and {value} after it")
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
