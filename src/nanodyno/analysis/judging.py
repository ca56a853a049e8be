"""Whether a change is an improvement: a sequential test on pairs of trainings, with a stated error rate.

A pair trains the base and the candidate with one seed and one order of data. After each pair one may look:

- keep: the improvement is shown. Over a whole judgement a candidate that is no better is kept with at most
  the stated chance, however often one looked.
- discard: an improvement of the size that is looked for would have shown itself by now.
- undecided: the pairs are spent.

A single pair can decide because the noise floor is known before: how far two trainings of the base with other
seeds lie apart. It counts with its degrees of freedom, beside the scatter of the pairs themselves.

A candidate may be noisier than the base, which a first pair does not show. The stated chance is that of one
which is 1.5 times as noisy. Pairs with one seed scatter less than trainings with two, and then it is lower.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import Literal

import numpy as np

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import t_quantile

JudgeCall = Literal["keep", "discard", "undecided"]
JudgeReason = Literal["shown", "failed", "clear-loser", "pairs-spent", "behind-others", "interrupted"]
LEVEL = 0.95
IN_FLOORS = 2.0
"""Improvement that is looked for, in noise floors, unless a larger one is asked for."""
FEWEST_FOR_FLOOR = 3
"""Trainings of the base that a noise floor is taken from; they are the base's sides of the pairs too."""
SMALLEST_FLOOR = {"val_loss": 0.0005, "tokens_per_second": 0.002}
"""Of a machine that repeats itself exactly, seeds still differ by more than this."""
MOST_AT_ONCE = 3
CLEARLY = 3.0
NOISIER = 1.5
"""Standard deviation of a candidate's losses, over the base's, up to which the false-keep rate holds."""
SIMULATED = 200_000
"""Judgements by which the bounds are found. Their error rates are right to a tenth of a percent."""
MOST_SIMULATED_PAIRS = 2_000_000
"""Fewer judgements than that of many pairs, for the memory."""
KEEPS_SPENT, DISCARDS_SPENT = 0.7, 0.5
"""Powers of the share of the pairs that the spent error rates follow: the lower, the more at early looks."""


@dataclass(frozen=True)
class NoiseFloor:
    """The standard deviation of the difference of two trainings of one config with other seeds."""

    sd: float
    degrees: int
    """Of freedom of its estimate."""


@dataclass(frozen=True)
class JudgeRules:
    false_keep: float = 0.05
    """Chance to keep any of the candidates when none is better."""
    missed: float = 0.2
    """Chance to discard a candidate that is better by the improvement that is looked for."""
    pairs: int = 5
    """At most, of each candidate."""
    candidates: int = 1
    smallest: float = 0.0
    """Improvement below which a change is of no interest."""


@dataclass(frozen=True)
class Bounds:
    """Of the statistic at each look: keep above, discard below, in units of its standard error."""

    keep: tuple[float, ...]
    discard: tuple[float, ...]


@dataclass(frozen=True)
class Judgement:
    call: JudgeCall
    improvement: Interval
    """Of the candidate over the base, with its 95% CI."""
    pairs: int


@dataclass(frozen=True)
class Judged:
    """What became of one candidate."""

    name: str
    call: JudgeCall
    improvement: Interval | None
    """None of one that no pair was finished of."""
    pairs: int
    cost_seconds: float
    reason: JudgeReason
    failure: str | None = None
    stopped_at_iteration: int | None = None


@dataclass
class CandidateState:
    """A candidate on its way."""

    name: str
    rules: JudgeRules
    improvements: list[float] = field(default_factory=list[float])
    cost_seconds: float = 0.0
    failure: str | None = None
    stopped: int | None = None
    """Iteration at which it was stopped as a clear loser."""
    behind: bool = False
    """Whether others that are judged beside it were clearly ahead."""
    floor: NoiseFloor | None = None
    verdict: Judgement | None = None

    @property
    def is_decided(self) -> bool:
        return bool(self.failure or self.stopped is not None or self.behind or self.verdict)

    def look(self, floor: NoiseFloor) -> None:
        self.floor = floor
        if not self.failure and self.stopped is None:
            self.verdict = judgement(self.improvements, floor, self.rules)

    def judged(self) -> Judged:
        call, reason = self._call()
        found = None
        if self.improvements and self.floor is not None:
            count = len(self.improvements)
            error = standard_error(self.improvements, self.floor)
            found = _interval(
                statistics.fmean(self.improvements), error, self.floor.degrees + count - 1, count
            )
        return Judged(
            self.name,
            call,
            found,
            len(self.improvements),
            self.cost_seconds,
            reason,
            self.failure,
            self.stopped,
        )

    def _call(self) -> tuple[JudgeCall, JudgeReason]:
        if self.failure:
            return "discard", "failed"
        if self.stopped is not None:
            return "discard", "clear-loser"
        if self.verdict is not None:
            return self.verdict.call, "shown" if self.verdict.call != "undecided" else "pairs-spent"
        return "undecided", "behind-others" if self.behind else "interrupted"


def still_trained(candidates: Sequence[CandidateState], pair: int) -> list[CandidateState]:
    """Return those to train another pair of. Of more than MOST_AT_ONCE that are undecided the better half
    goes on after each pair. What is dropped is kept no more often, so the error rate stays."""
    waiting = [each for each in candidates if not each.is_decided]
    if pair == 0 or len(waiting) <= MOST_AT_ONCE:
        return waiting
    ranked = sorted(waiting, key=lambda each: -statistics.fmean(each.improvements))
    half = max(MOST_AT_ONCE, (len(ranked) + 1) // 2)
    for each in ranked[half:]:
        each.behind = True
    return [each for each in waiting if not each.behind]


def improvement(metric: str, base: float, candidate: float) -> float:
    """Return how much better the candidate is: nats of loss, or the logarithm of the ratio of speeds."""
    return base - candidate if metric == "val_loss" else math.log(candidate / base)


def floor_of(values: Sequence[float], metric: str) -> NoiseFloor | None:
    """Return the noise floor by trainings of the base with different seeds; None of fewer than two."""
    if len(values) < 2:
        return None
    scale = list(values) if metric == "val_loss" else [math.log(each) for each in values]
    smallest = SMALLEST_FLOOR[metric]
    return NoiseFloor(max(smallest, math.sqrt(2) * statistics.stdev(scale)), len(values) - 1)


def floor_of_pairs(differences: Sequence[float]) -> NoiseFloor | None:
    """Return the noise floor of speeds, by pairs of trainings of the base that were neighbours in time."""
    if not differences:
        return None
    sd = math.sqrt(statistics.fmean(each**2 for each in differences))
    return NoiseFloor(max(SMALLEST_FLOOR["tokens_per_second"], sd), len(differences))


def is_clear_loser(final: float, low: float, base: float, floor: NoiseFloor) -> bool:
    """Return whether a forecast gives a training no chance: it ends above the base by more than three times
    what the forecast and the noise between seeds can be off together."""
    spread = (final - low) / NormalDist().inv_cdf(0.9)
    return final - base > CLEARLY * math.hypot(spread, floor.sd)


def target_of(floor: NoiseFloor, rules: JudgeRules) -> float:
    """Return the improvement that is looked for: one that is there is missed at the stated rate."""
    return max(rules.smallest, IN_FLOORS * floor.sd)


def judgement(improvements: Sequence[float], floor: NoiseFloor, rules: JudgeRules) -> Judgement | None:
    """Return the verdict of the look after these pairs, or None where another pair is to be trained.

    `improvements` are positive where the candidate is better. One looks after every pair, and the first
    verdict counts.
    """
    count = len(improvements)
    found = bounds(rules.pairs, rules.false_keep / rules.candidates, rules.missed, floor.degrees)
    mean, error = statistics.fmean(improvements), standard_error(improvements, floor)
    call: JudgeCall | None = "undecided" if count == rules.pairs else None
    if mean / error > found.keep[count - 1]:
        call = "keep"
    elif (mean - target_of(floor, rules)) / error < found.discard[count - 1]:
        call = "discard"
    if call is None:
        return None
    return Judgement(call, _interval(mean, error, floor.degrees + count - 1, count), count)


def standard_error(improvements: Sequence[float], floor: NoiseFloor) -> float:
    """Return the standard error of the mean, by the floor and by the scatter of the pairs together."""
    count = len(improvements)
    mean = statistics.fmean(improvements)
    squares = floor.degrees * floor.sd**2 + math.fsum((each - mean) ** 2 for each in improvements)
    return math.sqrt(squares / (floor.degrees + count - 1) / count)


def _interval(mean: float, error: float, degrees: int, count: int) -> Interval:
    half = t_quantile(degrees, LEVEL) * error
    return Interval(mean, mean - half, mean + half, LEVEL, count)


@cache
def bounds(pairs: int, false_keep: float, missed: float, degrees: int) -> Bounds:
    """Return the bounds by simulated judgements. Of candidates without an improvement, and noisier than the
    base, a share `false_keep` crosses the upper bound at some look. Of those with the improvement that is
    looked for, as noisy as the base, a share `missed` crosses the lower one.

    The lower bound is not needed for the first to be true: who trains on after a discard errs no more often.
    """
    draw = np.random.default_rng(20261119)
    judgements = min(SIMULATED, MOST_SIMULATED_PAIRS // pairs)
    values = draw.standard_normal((judgements, pairs))
    # Estimates of a floor of 1, the same at every look.
    floors = np.sqrt(draw.chisquare(degrees, (judgements, 1)) / degrees)
    means, errors = _means(values * math.sqrt((1 + NOISIER**2) / 2), floors, degrees)
    keep = _crossed(means / errors, false_keep, KEEPS_SPENT)
    # The target is in true floors, and one sees estimated ones: both are drawn together.
    means, errors = _means(values + IN_FLOORS, floors, degrees)
    below = _crossed((IN_FLOORS * floors - means) / errors, missed, DISCARDS_SPENT)
    return Bounds(keep, tuple(-each for each in below))


def _means(values: np.ndarray, floors: np.ndarray, degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the pairs so far and its standard error, a column a look."""
    looks: int = values.shape[1]
    counts = np.arange(1, looks + 1)
    means = np.cumsum(values, axis=1) / counts
    scatter = np.cumsum(values**2, axis=1) - counts * means**2
    return means, np.sqrt((degrees * floors**2 + scatter) / (degrees + counts - 1) / counts)


def _crossed(statistic: np.ndarray, share: float, power: float) -> tuple[float, ...]:
    """Return the bound of each look such that a growing part of `share` has crossed one by then."""
    looks = statistic.shape[1]
    left = np.ones(len(statistic), dtype=bool)
    found: list[float] = []
    for look in range(looks):
        spent = share * ((look + 1) / looks) ** power
        crossing = round(spent * len(statistic)) - int((~left).sum())
        here = np.sort(statistic[left, look])
        bound = float(here[-crossing - 1]) if crossing > 0 else math.inf
        found.append(bound)
        left &= statistic[:, look] <= bound
    return tuple(found)
