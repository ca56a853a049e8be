"""One process's iterations to one number: where it became steady, what is left out, how sure its mean is."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from nanodyno.analysis.iteration_time import recurring
from nanodyno.analysis.student import deviation, t_quantile

MIN_STEADY = 8
"""Fewer steady iterations than this have no spread worth the name."""
ENOUGH_FROM = 32
"""Iterations below which no process stops: the ramp of its beginning would still be in its mean."""
BATCHES = 4
"""Few and long, because neighbours resemble each other."""

CLIP_SPREADS = 5.0
DRIFT_LEVEL = 0.99
DRIFT_FLOOR = 0.01
"""What counts for nothing, however even the machine."""
SPIKE_SPREADS = 4.0
SPIKE_FLOOR = 0.01
DISTURBED_SHARE = 0.25
"""Of the steady iterations: when more are spikes, something else used the machine; measure again."""

MOST = 0.6
NORMAL_MOST = 1.683
"""Standard deviations that the middle 60% of a normal distribution is wide."""

Unsteadiness = Literal["unsteady", "bursts"]
"""unsteady: still falling or rising at the end; bursts: more spikes than DISTURBED_SHARE."""


@dataclass(frozen=True)
class ProcessSummary:
    """What one process measured in one visit."""

    seconds: float
    """Of an iteration: the mean over those that count."""
    counted: int
    warmup: int
    """Left out at the beginning: slower or faster than what followed (first touch, autotuning, clocks)."""
    spikes: int
    """Left out after it: far above the level of the others, and not at a regular spacing."""
    spike_share: float
    """Of the steady time, what spikes took beyond an ordinary iteration: what leaving them out hides."""
    precision: float | None
    """Relative half-width of the 95% interval of this process's own mean, which says nothing about the next
    process. Where the load wanders slowly it holds less often than 95% (benchmarks/simulation.py tells how
    often). None with fewer than MIN_STEADY counted."""
    disturbed: Unsteadiness | None
    """Why this visit should be made again (the whole round with it, so that pairs stay neighbours)."""


def steady_start(seconds: Sequence[float]) -> int | None:
    """The iteration from which on times are steady; None while that is not seen: go on measuring.

    Among the beginnings in the first half the one whose rest has the smallest standard error (the rule MSER):
    dropping slow first iterations lowers it, dropping good ones raises it. A ramp is still falling a little
    there, so twice as many are dropped. Times are clipped around the level of the last half before, so that a
    late spike does not pass for a change of level. What is left must have MIN_STEADY iterations and the same
    level in its first and last third.
    """
    count = len(seconds)
    if count < MIN_STEADY:
        return None
    level, spread = _level_and_spread(seconds[count // 2 :])
    reach = max(CLIP_SPREADS * spread, DRIFT_FLOOR * level)
    clipped = [min(max(value - level, -reach), reach) for value in seconds]
    latest = min(count // 2, count - MIN_STEADY)
    start = min(2 * _smallest_error(clipped, latest), latest)
    return start if _is_level(clipped[start:], DRIFT_FLOOR * level) else None


def summarise(seconds: Sequence[float], regulated: bool = False) -> ProcessSummary | None:
    """One visit's iterations as one number, with what was left out; None without any iteration.

    Never steady: the last half is taken and `disturbed` says "unsteady". regulated: of a card at its power
    limit, which swings around it once a second or so. All iterations count then: the slow ones are its own,
    and which of them look like spikes is chance.
    """
    if not seconds:
        return None
    if regulated:
        mean = statistics.fmean(seconds)
        return ProcessSummary(mean, len(seconds), 0, 0, 0.0, _own_precision(seconds), None)
    start = steady_start(seconds)
    warmup = len(seconds) // 2 if start is None else start
    steady = seconds[warmup:]
    counted, below = _without_spikes(steady)
    mean = statistics.fmean(counted)
    spikes = len(steady) - len(counted)
    disturbed: Unsteadiness | None = None
    if spikes + below > DISTURBED_SHARE * len(steady):
        disturbed = "bursts"
    elif start is None:
        disturbed = "unsteady"
    return ProcessSummary(
        seconds=mean,
        counted=len(counted),
        warmup=warmup,
        spikes=spikes,
        spike_share=1 - len(steady) * mean / math.fsum(steady),
        precision=_own_precision(counted),
        disturbed=disturbed,
    )


def is_enough(seconds: Sequence[float], precision: float) -> bool:
    """Whether a process may stop measuring: steady, undisturbed, and its own mean known to +-precision.

    Ask at doubling counts (32, 64, ...) and not after each iteration: every look is a chance to stop on a
    lucky streak. Claims about configs do not rest on it: there a process is one value, however long it ran.
    """
    summary = summarise(seconds) if len(seconds) >= ENOUGH_FROM else None
    if summary is None or summary.disturbed or summary.precision is None:
        return False
    return summary.precision <= precision


def _level_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The middle of the shortest stretch that holds 60% of the values, and the deviation it stands for.

    The others may be disturbed, all towards the same side. Half would be enough for that, but then iterations
    that alternate between two levels would count as one half and as many spikes.
    """
    ordered = sorted(values)
    further = math.ceil(MOST * len(ordered)) - 1
    low, high = min(zip(ordered, ordered[further:], strict=False), key=lambda ends: ends[1] - ends[0])
    return (low + high) / 2, (high - low) / NORMAL_MOST


def _smallest_error(values: Sequence[float], latest: int) -> int:
    """The beginning, `latest` at most, whose rest has the smallest standard error of its mean."""
    sums = list(accumulate(reversed(values)))
    squares = list(accumulate(value * value for value in reversed(values)))

    def squared_error(start: int) -> float:
        kept = len(values) - start
        return (squares[kept - 1] - sums[kept - 1] ** 2 / kept) / kept**2

    return min(range(latest + 1), key=squared_error)


def _is_level(values: Sequence[float], floor: float) -> bool:
    """Whether first and last third agree, by what varies within them: a slope widens the whole, not them.

    Their means may be as far apart as single values: neighbours resemble each other, so a mean of many is
    hardly surer than one.
    """
    third = len(values) // 3
    first, last = values[:third], values[-third:]
    within = math.hypot(deviation(first), deviation(last)) / math.sqrt(2)
    reach = t_quantile(2 * third - 2, DRIFT_LEVEL) * within
    return abs(statistics.fmean(first) - statistics.fmean(last)) <= max(reach, floor)


def _without_spikes(steady: Sequence[float]) -> tuple[list[float], int]:
    """Those that count, and how many of them lie as far below the level as a spike lies above it.

    Repeated until nothing more is left out, because spikes widen the spread that they are judged by. What
    recurs at a regular spacing is no spike, but the config's own (an optimizer that renews a preconditioner).
    """
    rest = list(steady)
    while True:
        level, spread = _level_and_spread(rest)
        reach = max(SPIKE_SPREADS * spread, SPIKE_FLOOR * level)
        lower = [value for value in rest if value <= level + reach]
        if len(lower) == len(rest):
            break
        rest = lower
    slow = [value > level + reach for value in steady]
    own = recurring(range(len(steady)), slow)
    counted = [value for value, far, its in zip(steady, slow, own, strict=True) if its or not far]
    return counted, sum(value < level - reach for value in counted)


def _own_precision(counted: Sequence[float]) -> float | None:
    """By the means of consecutive batches: neighbours resemble each other, their batches far less."""
    if len(counted) < MIN_STEADY:
        return None
    edges = [len(counted) * number // BATCHES for number in range(BATCHES + 1)]
    means = [statistics.fmean(counted[a:b]) for a, b in pairwise(edges)]
    mean = statistics.fmean(means)
    return t_quantile(BATCHES - 1, 0.95) * deviation(means) / math.sqrt(BATCHES) / mean
