"""Seconds per iteration: the mean over iterations, which of them are left out, and how sure the mean is.

A run's rate over hours is the mean. Optimizers such as SOAP and Shampoo renew a preconditioner in every tenth
iteration, data loaders open a file now and then: such iterations are slow by design and belong to the mean.
A machine that was held up for a minute does not. The two differ in how slow iterations recur.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import t_quantile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

GROUP = 64
"""Iterations whose median is the measure: a GPU that throttles for longer is slow, not disturbed."""
LEAST_EXCESS = 0.05
"""Of the median: less than any stop of note adds."""
SPREADS = 8.0
MOST = 0.6
NORMAL_MOST = 0.8416
"""Standard deviations within which 60% of a normal distribution lie around its median."""
FEWEST = 5
"""Times of which one can be called slow."""
MOST_DISTURBED = 0.05
"""Of the iterations. Where more are slow, that is how fast this machine trains, and they count."""
MOST_SKIPPED = 0.2
"""Of the places of a period: a renewal can be skipped, or too small to be seen."""
CHANCE = 0.05
"""That slow iterations at random would lie on some such period."""
MOST_PERIODS, MOST_CANDIDATES = 16, 64

FEWEST_FOR_INTERVAL = 6
BLOCKS = (4, 8, 16)
"""Integers of blocks whose means are compared; the widest interval is taken."""
LEVEL = 0.95


def disturbances(iterations: Sequence[int], seconds: Sequence[float]) -> list[bool]:
    """Return which iterations are left out of the rate as disturbance.

    An iteration is slow when it takes longer than those around it (`_slow`). Slow iterations that recur at a
    regular spacing count, and so do all others where they are more than 5% of the iterations (and more than
    one). Those that count are judged once more among themselves: one of them may have been disturbed.
    """
    return _even(seconds) or _judged(*_arrays(iterations, seconds))[0].tolist()


def mean_seconds(
    iterations: Sequence[int], seconds: Sequence[float], resolution: float = 0.0
) -> Interval | None:
    """Return the mean time of an iteration with its 95% CI; None without times.

    A disturbed iteration counts as an undisturbed one of its kind would, and a period that is cut at an end
    as a part of one. The CI is Student's over the means of 4, 8 and 16 blocks of whole periods, the widest:
    neighbours resemble each other, and the means of long blocks hardly. There is no CI with fewer than six
    times, with fewer than four periods, and where a single disturbance is more than 5% of the times: so few
    cannot show whether it recurs. `resolution` is what the times were rounded to: where they scatter by less,
    the mean may be off by half of it.
    """
    if not seconds:
        return None
    usual, disturbed = _usual(iterations, seconds)
    period, count = longest_period(iterations, usual), len(usual)
    found = Interval(_mean(iterations, usual), None, None, LEVEL, count - sum(disturbed))
    if count < max(FEWEST_FOR_INTERVAL, BLOCKS[0] * period) or sum(disturbed) > MOST_DISTURBED * count:
        return found
    half = max(_half_width(usual, blocks, period) for blocks in BLOCKS if blocks * period <= count)
    if np.std(usual) <= resolution / 2:
        half = max(half, resolution / 2)
    # By the same factor below as above, so that no time is negative and a rate has the same interval.
    return replace(found, low=found.value**2 / (found.value + half), high=found.value + half)


def recent_seconds(iterations: Sequence[int], seconds: Sequence[float], recent: int) -> Interval:
    """Return the mean time of the latest iterations: of `recent`, or of the whole periods that hold so many.

    As `mean_seconds`, but without a CI, and cheap where no iteration is slow.
    """
    usual, disturbed = _usual(iterations, seconds)
    period = longest_period(iterations, usual)
    window = -(-recent // period) * period
    kept, counted = usual[-window:], len(usual[-window:]) - sum(disturbed[-window:])
    mean = statistics.fmean(kept) if len(kept) < len(usual) else _mean(iterations, usual)
    return Interval(mean, None, None, LEVEL, counted)


def _usual(iterations: Sequence[int], seconds: Sequence[float]) -> tuple[Sequence[float], Sequence[bool]]:
    """Return the times, with the mean of their kind in place of disturbed ones, and which those are."""
    if even := _even(seconds):
        return seconds, even
    disturbed, usual = _judged(*_arrays(iterations, seconds))
    return usual.tolist(), disturbed.tolist()


def _mean(iterations: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the mean as if each period were whole: one that is cut has a slow iteration too few or many."""
    mean = statistics.fmean(seconds)
    if _even(seconds):
        return mean
    numbers, times = _arrays(iterations, seconds)
    slow = np.flatnonzero(_slow(times))
    for period, members in _periods(numbers, slow):
        place = numbers % period == numbers[slow[members[0]]] % period
        missing = len(times) / _of_these(numbers, period) - int(place.sum())
        excess = float(times[place].mean() - times[~place].mean())
        mean += max(-1.0, min(1.0, missing)) * excess / len(times)
    return mean


def _even(seconds: Sequence[float]) -> list[bool]:
    """Return that no iteration is slow, at little cost; nothing where one may be."""
    even = not seconds or max(seconds) <= (1 + LEAST_EXCESS) * statistics.median_low(seconds)
    return [False] * len(seconds) if even else []


def _arrays(iterations: Sequence[int], seconds: Sequence[float]) -> tuple[Integers, Floats]:
    return np.asarray(iterations, dtype=np.int64), np.asarray(seconds, dtype=np.float64)


def _judged(iterations: Integers, seconds: Floats) -> tuple[Flags, Floats]:
    """Return which are disturbed, and the times with the mean of their kind in place of those."""
    disturbed, usual = _slow(seconds), seconds.copy()
    slow = np.flatnonzero(disturbed)
    if len(slow):
        ordinary = seconds[~disturbed].mean()
        kinds = [slow[members] for _, members in _periods(iterations, slow)]
        rest = np.setdiff1d(slow, np.concatenate([*kinds, slow[:0]]))
        if len(rest) > max(1, MOST_DISTURBED * len(seconds)):
            kinds.append(rest)
        else:
            usual[rest] = ordinary
        for members in kinds:
            disturbed[members], usual[members] = _judged(iterations[members], seconds[members])
    return disturbed, usual


def slow_iterations(seconds: Sequence[float]) -> list[bool]:
    """Return which iterations take longer than those around them, for whatever reason."""
    return _even(seconds) or _slow(np.asarray(seconds, dtype=np.float64)).tolist()


def recurring(iterations: Sequence[int], slow: Sequence[bool]) -> list[bool]:
    """Return which of the slow iterations recur at a regular spacing."""
    places = np.flatnonzero(slow)
    found = np.zeros(len(slow), dtype=np.bool_)
    for _, members in _periods(np.asarray(iterations, dtype=np.int64), places):
        found[places[members]] = True
    return found.tolist()


def _slow(seconds: Floats) -> Flags:
    """Whether iterations take longer than those around them.

    Each group of 64 has a limit: its median and 5%, or eight standard deviations where its times scatter more
    (taken from the deviation that 60% stay below, so that of two alternating levels neither is slow). An
    iteration has to exceed the limits of its own group and of both next to it, so that no iteration of a run
    that changes its pace is taken for a disturbance.
    """
    rows = -(-len(seconds) // GROUP)
    groups = np.full((rows, GROUP), np.nan)
    groups.ravel()[: len(seconds)] = seconds
    medians = _quantiles(groups, 0.5)
    deviations = _quantiles(np.abs(groups - medians), MOST) / NORMAL_MOST
    limits = medians + np.maximum(LEAST_EXCESS * medians, SPREADS * deviations)
    limits[np.isfinite(groups).sum(axis=1) < FEWEST] = np.inf if rows == 1 else 0.0
    around = np.maximum.reduce([limits, np.roll(limits, 1, axis=0), np.roll(limits, -1, axis=0)])
    return (groups > around).ravel()[: len(seconds)]


def _quantiles(groups: Floats, share: float) -> Floats:
    """Of each row, as a column; NaN is passed over."""
    ordered = np.sort(groups, axis=1)  # with NaN last
    place = np.floor(share * (np.isfinite(groups).sum(axis=1, keepdims=True) - 1)).astype(np.int64)
    return np.take_along_axis(ordered, np.maximum(0, place), axis=1)


def _periods(iterations: Integers, slow: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each period at which slow iterations recur, the shortest first, and its members' indices in slow.

    A period's iterations are those with one remainder. Four of five must be slow over the whole length, and
    that must be unlikely by chance, however many periods and remainders were looked at.
    """
    share = len(slow) / len(iterations) if len(iterations) else 0.0
    left = np.arange(len(slow))
    for _ in range(MOST_PERIODS):
        found = _shortest_period(iterations, iterations[slow[left]], share)
        if found is None:
            return
        period, remainder = found
        belongs = iterations[slow[left]] % period == remainder
        yield period, left[belongs]
        left = left[~belongs]


def _shortest_period(iterations: Integers, slow: Integers, share: float) -> tuple[int, int] | None:
    if len(slow) < 3:
        return None
    spacings = np.concatenate([slow[order:] - slow[:-order] for order in (1, 2, 3, 4)])
    values, counts = np.unique(spacings[spacings > 1], return_counts=True)
    for period in sorted(values[np.argsort(-counts, kind="stable")[:MOST_CANDIDATES]].tolist()):
        remainders, hits = np.unique(slow % period, return_counts=True)
        for place in np.argsort(-hits, kind="stable")[:4]:
            hit, remainder = int(hits[place]), int(remainders[place])
            if hit < 3 or hit * math.log(share) + 2 * math.log(period) > math.log(2 * CHANCE):
                break
            total = int(np.count_nonzero(iterations % period == remainder))
            chance = math.lgamma(total + 1) - math.lgamma(hit + 1) - math.lgamma(total - hit + 1)
            chance += hit * math.log(share) + 2 * math.log(period)
            if hit >= (1 - MOST_SKIPPED) * total and chance <= math.log(2 * CHANCE):
                return period, remainder
    return None


def longest_period(iterations: Sequence[int], seconds: Sequence[float]) -> int:
    """Return how many of the logged iterations the longest period of slow ones holds; 1 without any."""
    if _even(seconds):
        return 1
    numbers, times = _arrays(iterations, seconds)
    longest = max((period for period, _ in _periods(numbers, np.flatnonzero(_slow(times)))), default=1)
    return max(1, round(_of_these(numbers, longest)))


def _of_these(numbers: Integers, period: int) -> float:
    """Return how many of the logged iterations a period of iterations holds."""
    return period * (len(numbers) - 1) / int(numbers[-1] - numbers[0])


def _half_width(seconds: Sequence[float], blocks: int, period: int) -> float:
    length = len(seconds) // blocks // period * period
    length -= length % 2 if period == 1 < length else 0  # of two that alternate as many of each
    whole = np.asarray(seconds[len(seconds) - length * blocks :], dtype=np.float64)
    means = whole.reshape(blocks, length).mean(axis=1)
    return t_quantile(blocks - 1, LEVEL) * float(means.std(ddof=1)) / math.sqrt(blocks)
