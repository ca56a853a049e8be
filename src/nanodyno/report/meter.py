"""What a display knows of the run it shows: the latest steps, the time they take, and what is saved."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from nanodyno.analysis.metrics import (
    PERIOD_STEPS,
    WARMUP_STEPS,
    Reference,
    Speed,
    eta_seconds,
    evaluation_seconds,
    recent_speed,
)
from nanodyno.analysis.noise_scale import measured
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.noise import KEPT, NoiseScale, Sample, noise_scale, recent
from nanodyno.records.events import Started
from nanodyno.records.types import EvalRecord, SaveRecord, SplitRecord, StepRecord

RENEWED = 10
"""Measured iterations between two looks at the noise: each takes a fraction of a millisecond."""


@dataclass(frozen=True)
class Progress:
    """The speed of the latest steps and the time left, worked out when they are shown."""

    speed_of: Callable[[], Speed]
    eta_of: Callable[[float], float | None]
    """By the seconds of an iteration."""
    noise: NoiseScale | None = None
    """None where it is not measured."""
    grew_from: int | None = None
    """Tokens per iteration of the step before, where this one has others."""

    @cached_property
    def speed(self) -> Speed:
        return self.speed_of()

    @property
    def eta_seconds(self) -> float | None:
        assert self.speed.iteration_seconds is not None
        return self.eta_of(self.speed.iteration_seconds.value)


class Meter:
    """Keeps the few latest steps of a stretch, without its first, and the times of evaluations and saves."""

    def __init__(self, started: Started, ceilings: Ceilings | None = None) -> None:
        self.config = started.record.config
        self._reference = Reference.of_run(started.record, ceilings)
        self._micro_steps = self.config.gradient_accumulation_steps // self._reference.processes
        self.saved_iteration: int | None = started.iteration or None
        """Of the newest checkpoint."""
        self._first = started.iteration
        self._steps: deque[StepRecord] = deque(maxlen=PERIOD_STEPS)
        self._tokens: int | None = None
        self._eval_seconds: list[float] = []
        self._save_seconds: list[float] = []
        self._last_eval: int | None = None
        self._samples: deque[Sample] = deque(maxlen=2 * KEPT)  # `recent` takes the later half
        self._measured = 0
        self._noise: NoiseScale | None = None

    def add_eval(self, entry: EvalRecord) -> None:
        self._eval_seconds.append(entry.eval_seconds)
        self._last_eval = entry.iteration

    def add_save(self, save: SaveRecord) -> None:
        self._save_seconds.append(save.save_seconds)
        self.saved_iteration = save.iteration

    def add_split(self, split: SplitRecord) -> None:
        """Smaller micro-batches have another speed."""
        self._steps.clear()
        self._first = split.iteration

    def add_step(self, step: StepRecord) -> Progress:
        before, self._tokens = self._tokens, step.tokens
        grew_from = before if before not in (None, step.tokens) else None
        if grew_from is not None:
            self._first = step.iteration
        if step.iteration in (self._first, self._first + WARMUP_STEPS):
            self._steps.clear()
        self._steps.append(step)
        steps = tuple(self._steps)
        # A resumed run has not evaluated yet; until it does, the time left is that of its iterations.
        eval_seconds = evaluation_seconds(self._eval_seconds, self._save_seconds) or 0.0
        last_eval = self._last_eval
        return Progress(
            lambda: recent_speed(steps, self._micro_steps, self._reference),
            lambda seconds: eta_seconds(self.config, step.iteration + 1, last_eval, seconds, eval_seconds),
            self._noise_with(step),
            grew_from,
        )

    def _noise_with(self, step: StepRecord) -> NoiseScale | None:
        for _, sample in measured([step]):
            self._samples.append(sample)
            if self._measured % RENEWED == 0:
                self._noise = noise_scale(recent(tuple(self._samples)))
            self._measured += 1
        return self._noise
