"""Two programs timed against each other in one process, and what their times allow to be said.

The order is A B B A, repeated: a machine that slows down steadily harms both alike, and neighbours in time
share its mood. The ratio of a quad is the mean of its two adjacent pairs on the log scale, and Student's t
over the quads, taken as independent, gives an interval.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nanodyno.records.events import RunEvent, WatchRun
from nanodyno.records.types import StepRecord

ORDER = "ABBA"
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A centre and the interval that covers the true one in 95 of 100; endless where samples are too few."""

    mean: float
    low: float
    high: float
    n: int


def t_interval(samples: Sequence[float]) -> Estimate:
    """The mean of independent samples with Student's t interval."""
    count, mean = len(samples), statistics.fmean(samples)
    if count < 2:
        return Estimate(mean, -math.inf, math.inf, count)
    half = t_quantile(count - 1) * statistics.stdev(samples) / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, count)


def t_quantile(degrees: int) -> float:
    """The t that encloses 95% of Student's distribution between -t and t: 12.71 at 1 degree, 2.262 at 9."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _enclosed(middle, degrees) < LEVEL else (low, middle)
    return low


def _enclosed(t: float, degrees: int) -> float:
    """P(-t < T < t) by its finite series for whole degrees (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = math.sin(angle) * (math.cos(angle) if odd else 1.0)
    total = 0.0
    for step in range(2 + odd, degrees + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (step - 1) / step
    return 2 / math.pi * (angle + total) if odd else total


@dataclass(frozen=True)
class Plan:
    """How much to measure: `quads` times A B B A, each letter a segment of `iterations`."""

    quads: int
    iterations: int
    warmup: int = 1
    settle_seconds: float = 0.1
    """A pause before each segment, in which what the other left to its threads is done."""


Span = tuple[str, float, float]
"""The letter of a segment, and the clock when it began and when it ended."""


@dataclass(frozen=True)
class Segments:
    """Each segment in the order they were measured; ours is A."""

    iterations: int
    spans: list[Span] = field(default_factory=list)

    @property
    def ours(self) -> list[float]:
        """Seconds."""
        return self._seconds("A")

    @property
    def rival(self) -> list[float]:
        return self._seconds("B")

    def log_ratios(self) -> list[float]:
        """Of each quad, ours over the rival's."""
        pairs = [math.log(a / b) for a, b in zip(self.ours, self.rival, strict=True)]
        return [statistics.fmean(two) for two in zip(pairs[::2], pairs[1::2], strict=True)]

    def ratio(self) -> Estimate:
        """Time of ours over the rival's: the geometric mean over quads."""
        return exponential(t_interval(self.log_ratios()))

    def _seconds(self, letter: str) -> list[float]:
        return [ended - began for whose, began, ended in self.spans if whose == letter]


def exponential(log: Estimate) -> Estimate:
    return Estimate(math.exp(log.mean), math.exp(log.low), math.exp(log.high), log.n)


def inverse(ratio: Estimate) -> Estimate:
    """Of a positive one: speed from time."""
    return Estimate(1 / ratio.mean, 1 / ratio.high, 1 / ratio.low if ratio.low else math.inf, ratio.n)


class Enough(Exception):
    """Raised into a run that has been watched for as long as was wanted: it ends as by Ctrl-C."""


class Interleaver:
    """Watches a run of ours and lets a rival run between its iterations, with a clock around each.

    The run is `run_training` itself, so a segment of ours holds all that an iteration costs a user: the
    batch, the step, the record on disk and, in `shown`, the display.
    """

    def __init__(
        self,
        rival: Callable[[], object],
        plan: Plan,
        seconds: Callable[[], float],
        shown: WatchRun | None = None,
    ) -> None:
        self.segments = Segments(plan.iterations)
        self._rival = rival
        self._plan = plan
        self._seconds = seconds
        self._shown = shown
        self._order = iter(ORDER * plan.quads)
        self._left = plan.warmup
        self._began: float | None = None

    def __call__(self, event: RunEvent) -> None:
        if self._shown is not None:
            self._shown(event)
        if not isinstance(event, StepRecord):
            return
        self._left -= 1
        if self._left == 0:
            self._end_of_ours()

    def _end_of_ours(self) -> None:
        if self._began is None:
            self._run_rival(self._plan.warmup)
        else:
            self.segments.spans.append(("A", self._began, self._seconds()))
        for letter in self._order:
            if letter == "A":
                self._left = self._plan.iterations
                self._began = self._start()
                return
            began = self._start()
            self._run_rival(self._plan.iterations)
            self.segments.spans.append(("B", began, self._seconds()))
        raise Enough

    def _run_rival(self, iterations: int) -> None:
        for _ in range(iterations):
            self._rival()

    def _start(self) -> float:
        time.sleep(self._plan.settle_seconds)
        return self._seconds()


def interleave(run: Callable[[WatchRun], object], watch: Interleaver) -> Segments:
    """Runs until the plan is done. The run must be long enough to be cut short."""
    try:
        run(watch)
    except Enough:
        return watch.segments
    raise AssertionError("the run ended before the plan was done: raise its max_iters")
