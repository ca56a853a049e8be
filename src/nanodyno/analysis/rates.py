"""A range test of the learning rate: which trials to make next, and what they say. It trains nothing.

Short trials say which rate is the best in few iterations, and long ones how that moves as a training gets
longer. Where the repeats agree that it falls, it is carried on along this line to the run's own length; the
best of long trials is taken otherwise. How far the repeats are apart makes the interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import t_interval

BEGIN = 1e-4
COARSE = tuple(BEGIN * 4**k for k in range(5))
"""0.0001 to 0.0256, one training each."""
FINE = 0.5
"""Octaves between the rates that the bottom is read off. Losses rise gently to the left of it and as a wall
to the right, which would push a parabola over whole octaves aside."""
LOWEST, HIGHEST = 1e-6, 1.0
SEEDS = 3
LEVEL = 0.95
STEEPEST = 0.5
"""Octaves that a rate may fall in an octave of length; published is about a third (Bjorck and others 2024).
It is not carried on upwards: what too high a rate costs a long run, a trial cannot see."""
SHARE = 200
"""One part in so many of the run's iterations, within the bounds, is the length of a short trial."""
SHORTEST, LONGEST = 200, 800
"""In fewer, a small model was on the same plateau with any rate (docs/log)."""
LONGER = 4
"""Times the length of a short trial, up to half of the run; under twice it there are no long ones."""
LONG_DOWN_TO = 3.0
"""Octaves below the best of short trials where long ones are given up if all have diverged."""


@dataclass(frozen=True)
class Lengths:
    """In iterations."""

    short: int
    long: int | None
    """None where the run is hardly longer than a short trial."""
    whole: int
    """Of the run."""

    def of(self, long: bool) -> int:
        return self.long if long and self.long is not None else self.short


def lengths_for(max_iters: int) -> Lengths:
    short = min(max_iters, max(SHORTEST, min(LONGEST, max_iters // SHARE)))
    long = min(max_iters // 2, LONGER * short)
    return Lengths(short, long if long >= 2 * short else None, max_iters)


@dataclass(frozen=True)
class Trial:
    learning_rate: float
    repeat: int
    """Counted from 0: each has weights and data of its own, the same for every rate."""
    val_loss: float | None
    """After the last iteration; None where the training diverged."""
    long: bool = False


@dataclass(frozen=True)
class Chosen:
    learning_rate: float
    interval: Interval
    """Student's, over the logarithms that the repeats say of the run's own length; made to hold the rate."""
    in_short: float
    """The best of short trials, and of long ones."""
    in_long: float | None
    carried: bool
    """On from the long trials' best, down to the run's own length."""
    at_the_end: bool
    """Whether losses were still falling at the last rate that may be tried."""


class TrialRequest(NamedTuple):
    learning_rate: float
    repeat: int
    long: bool = False


@dataclass(frozen=True)
class Begun:
    lengths: Lengths

    @property
    def work(self) -> int:
        """In iterations, at least."""
        return least_left((), (), self.lengths)


@dataclass(frozen=True)
class TrialEnded:
    """One of the trials."""

    trial: Trial
    iterations: int
    seconds_left: float | None
    """For those that will come in any case; None while none was trained now, or where none will come."""


RangeTestEvent = Begun | TrialEnded
FEWEST_SHORT, FEWEST_LONG = len(COARSE) + 2 + 3 * SEEDS - 1, 3 * SEEDS


def next_trials(trials: Sequence[Trial], with_long: bool = False) -> list[TrialRequest]:
    """What is to be trained before more can be said; empty at the end.

    First a short one at each coarse rate; then at half and at twice the best, and on downhill; then every
    repeat of the best and of its neighbours half an octave away, and again on downhill. Long ones begin with
    the best of these, half an octave and an octave below; then downhill and every repeat, as the short ones.
    """
    short, long = _of(trials, False), _of(trials, True)
    if asks := _short_trials(short):
        return asks
    if not with_long or not _any_ended(short) or _given_up(short, long):
        return []
    return _long_trials(long, _best(short))


def least_left(trials: Sequence[Trial], asks: Sequence[TrialRequest], lengths: Lengths) -> int:
    """Iterations that there are to train, at least: the asks, and what will be asked for in any case."""
    asked_short = sum(not ask.long for ask in asks)
    short = max(asked_short, FEWEST_SHORT - len(_of(trials, False)))
    long = max(len(asks) - asked_short, FEWEST_LONG - len(_of(trials, True)))
    return max(0, short) * lengths.short + max(0, long) * (lengths.long or 0)


def _short_trials(trials: Sequence[Trial]) -> list[TrialRequest]:
    missing = _missing(trials, COARSE, 1, False)
    if missing or not _any_ended(trials):
        return missing
    best = _best([trial for trial in trials if not trial.repeat and _octaves(trial.learning_rate) % 1 == 0])
    if missing := _missing(trials, _around(best, 1.0), 1, False):
        return missing
    middle = _best(trials) if any(trial.repeat for trial in trials) else best
    return _missing(trials, _around(middle, FINE), SEEDS, False)


def _long_trials(trials: Sequence[Trial], best_in_short: float) -> list[TrialRequest]:
    middle = _best(trials) if trials else best_in_short * 2**-FINE
    around = _around(middle, FINE)
    return _missing(trials, around, 1, True) or _missing(trials, around, SEEDS, True)


def _missing(trials: Sequence[Trial], rates: Sequence[float], repeats: int, long: bool) -> list[TrialRequest]:
    done = {(trial.learning_rate, trial.repeat) for trial in trials}
    return [
        TrialRequest(rate, repeat, long)
        for repeat in range(repeats)
        for rate in rates
        if (rate, repeat) not in done
    ]


def _given_up(short: Sequence[Trial], long: Sequence[Trial]) -> bool:
    if not long or _any_ended(long):
        return False
    lowest = min(trial.learning_rate for trial in long)
    return math.log2(_best(short) / lowest) >= LONG_DOWN_TO


def choose(trials: Sequence[Trial], lengths: Lengths) -> Chosen | None:
    """None where every training diverged, of short ones or of long ones."""
    short, long = _of(trials, False), _of(trials, True)
    if not _any_ended(short) or (long and not _any_ended(long)):
        return None
    in_short, in_long = _bottoms(short), _bottoms(long) if long else None
    found = t_interval(in_short if in_long is None else _carried(in_short, in_long, lengths), LEVEL)
    assert found is not None
    cliff = _beside_cliff(short) or (bool(long) and _beside_cliff(long))
    carried = in_long is not None and not cliff and _known_to_fall(in_short, in_long)
    rate = found.value if in_long is None or carried else fmean(in_long)
    interval = Interval(
        2**rate,
        None if found.low is None else 2**found.low,
        None if found.high is None else 2 ** max(found.high, rate),
        LEVEL,
        found.n,
    )
    return Chosen(
        learning_rate=float(f"{interval.value:.2g}"),
        interval=interval,
        in_short=2 ** fmean(in_short),
        in_long=None if in_long is None else 2 ** fmean(in_long),
        carried=carried,
        at_the_end=len(_around(_best(short), FINE)) < 3,
    )


def _known_to_fall(in_short: Sequence[float], in_long: Sequence[float]) -> bool:
    """Bottoms scatter by a good part of an octave, and a line through two of them leads far astray."""
    falls = t_interval([long - short for short, long in zip(in_short, in_long, strict=False)], LEVEL)
    return falls is not None and falls.high is not None and falls.high < 0


def _beside_cliff(trials: Sequence[Trial]) -> bool:
    """Beside a rate that diverged a bottom is read off the grid, the same in each repeat: no agreement."""
    near = _around(_best(trials), FINE)
    return any(trial.val_loss is None and trial.learning_rate in near for trial in trials)


def _carried(in_short: Sequence[float], in_long: Sequence[float], lengths: Lengths) -> list[float]:
    """From the long trials' best to the run's, by what each repeat fell from one length to the other."""
    assert lengths.long is not None
    apart, ahead = math.log2(lengths.long / lengths.short), math.log2(lengths.whole / lengths.long)
    falls = [(long - short) / apart for short, long in zip(in_short, in_long, strict=False)]
    if len(falls) < len(in_long) or not -STEEPEST <= fmean(falls) <= 0:
        falls = [max(-STEEPEST, min(0.0, fmean(falls)))] * len(in_long)
    return [long + fall * ahead for long, fall in zip(in_long, falls, strict=True)]


def _bottoms(trials: Sequence[Trial]) -> list[float]:
    """log2 of the rate, for each repeat around its own best that has both neighbours."""
    bottoms: list[float] = []
    for repeat in range(SEEDS):
        losses = {trial.learning_rate: _loss(trial) for trial in trials if trial.repeat == repeat}
        middles = [
            rate
            for rate in losses
            if len(near := _around(rate, FINE)) == 3 and all(each in losses for each in near)
        ]
        if middles:
            best = min(middles, key=lambda rate: losses[rate])
            bottoms.append(math.log2(best) + FINE * _bottom([losses[rate] for rate in _around(best, FINE)]))
    return bottoms or [math.log2(_best(trials))]


def _of(trials: Sequence[Trial], long: bool) -> list[Trial]:
    return [trial for trial in trials if trial.long is long]


def _any_ended(trials: Sequence[Trial]) -> bool:
    return any(trial.val_loss is not None for trial in trials)


def _best(trials: Sequence[Trial]) -> float:
    """The lowest mean over its repeats, among the rates with the most of them; among equals the lowest."""
    by_rate: dict[float, list[float]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(_loss(trial))
    most = max(map(len, by_rate.values()))
    means = {rate: math.fsum(losses) / most for rate, losses in by_rate.items() if len(losses) == most}
    return min(means, key=lambda rate: (means[rate], rate))


def _around(best: float, octaves: float) -> list[float]:
    """With its neighbours, as far as they may be tried."""
    places = (_octaves(best) + each for each in (-octaves, 0.0, octaves))
    return [rate for place in places if LOWEST <= (rate := BEGIN * 2**place) <= HIGHEST]


def _octaves(rate: float) -> float:
    """Above the first rate, in halves: what was multiplied and divided comes out as the same number."""
    return round(2 * math.log2(rate / BEGIN)) / 2


def _loss(trial: Trial) -> float:
    return math.inf if trial.val_loss is None else trial.val_loss


def _bottom(losses: Sequence[float]) -> float:
    """Of the parabola through three losses, in steps from the middle one; no further off than a neighbour."""
    low, middle, high = losses
    if not math.isfinite(low + middle + high):
        return -0.5 if math.isfinite(low) else 0.0  # the cliff is on the right
    bend = low - 2 * middle + high
    if bend <= 0:
        return 1.0 if high < low else -1.0
    return max(-1.0, min(1.0, (low - high) / (2 * bend)))
