"""A range test of the learning rate: which trials to make next, and what they say. It trains nothing.

Short trials, with repeats, say which rate is the best in few iterations. Some of several times the length say
how that rate moves as a training gets longer, and the run's own rate is read off along this line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
None rises: what too high a rate costs a long run, a short trial cannot see."""


@dataclass(frozen=True)
class Lengths:
    """In iterations."""

    short: int
    long: int | None
    """None where the run is hardly longer than a short trial."""
    whole: int
    """Of the run."""


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
    """Of the rate at the bottom of each repeat's curve of short trials, carried on to the run's length:
    Student's, over the repeats' logarithms."""
    in_short: float
    """The best of short trials, and of long ones."""
    in_long: float | None
    at_the_end: bool
    """Whether losses were still falling at the last rate that may be tried."""


class Ask(NamedTuple):
    learning_rate: float
    repeat: int
    long: bool = False


def next_trials(trials: Sequence[Trial], with_long: bool = False) -> list[Ask]:
    """What is to be trained before more can be said; empty at the end.

    First one of each coarse rate; then one at half and at twice the best, and on downhill; then every repeat
    of the best and of its neighbours half an octave away, and again on downhill. Long ones begin with these
    and half an octave below, and go on downhill.
    """
    short = [trial for trial in trials if not trial.long]
    if asks := _short_trials(short):
        return [Ask(rate, repeat) for rate, repeat in asks]
    if not with_long or not any(trial.val_loss is not None for trial in short):
        return []
    done = {trial.learning_rate for trial in trials if trial.long}
    middle = _best_long(trials) if done else _best(short) * 2**-FINE
    return [Ask(rate, 0, long=True) for rate in _around(middle, FINE) if rate not in done]


def _short_trials(trials: Sequence[Trial]) -> list[tuple[float, int]]:
    done = {(trial.learning_rate, trial.repeat) for trial in trials}
    missing = [(rate, 0) for rate in COARSE if (rate, 0) not in done]
    if missing or not any(trial.val_loss is not None for trial in trials):
        return missing
    best = _best([trial for trial in trials if not trial.repeat and _octaves(trial.learning_rate) % 1 == 0])
    missing = [(rate, 0) for rate in _around(best, 1.0) if (rate, 0) not in done]
    if missing:
        return missing
    around = _around(_best(trials) if any(trial.repeat for trial in trials) else best, FINE)
    return [(rate, repeat) for repeat in range(SEEDS) for rate in around if (rate, repeat) not in done]


def choose(trials: Sequence[Trial], lengths: Lengths) -> Chosen | None:
    """None where every training diverged."""
    short = [trial for trial in trials if not trial.long]
    if not any(trial.val_loss is not None for trial in short):
        return None
    best = _best(short)
    bottoms = [
        bottom for repeat in range(SEEDS) if (bottom := _bottom_around(best, short, repeat)) is not None
    ] or [math.log2(best)]
    found = t_interval(bottoms, LEVEL)
    assert found is not None
    long = [trial for trial in trials if trial.long]
    in_long = _bottom_around(_best_long(trials), long, 0) if long else None
    moved = 0.0 if in_long is None else _moved(bottoms[0], in_long, lengths)
    interval = Interval(
        2 ** (found.estimate + moved),
        None if found.low is None else 2 ** (found.low + moved),
        None if found.high is None else 2 ** (found.high + moved),
        LEVEL,
        found.n,
    )
    return Chosen(
        learning_rate=float(f"{interval.estimate:.2g}"),
        interval=interval,
        in_short=2**found.estimate,
        in_long=None if in_long is None else 2**in_long,
        at_the_end=len(_around(best, FINE)) < 3,
    )


def _moved(in_short: float, in_long: float, lengths: Lengths) -> float:
    """Octaves from a short trial's best rate to the run's, by the line through the best of two lengths."""
    assert lengths.long is not None
    per_octave = (in_long - in_short) / math.log2(lengths.long / lengths.short)
    return max(-STEEPEST, min(0.0, per_octave)) * math.log2(lengths.whole / lengths.short)


def _bottom_around(best: float, trials: Sequence[Trial], repeat: int) -> float | None:
    """log2 of the rate; None where a neighbour is missing."""
    losses = {trial.learning_rate: _loss(trial) for trial in trials if trial.repeat == repeat}
    around = _around(best, FINE)
    if len(around) < 3 or any(rate not in losses for rate in around):
        return None
    return math.log2(best) + FINE * _bottom([losses[rate] for rate in around])


def _best_long(trials: Sequence[Trial]) -> float:
    """The lowest where all diverged: it goes on below."""
    long = [trial for trial in trials if trial.long]
    return min(long, key=lambda trial: (_loss(trial), trial.learning_rate)).learning_rate


def _best(trials: Sequence[Trial]) -> float:
    """The lowest mean over its repeats, among the rates with the most of them."""
    by_rate: dict[float, list[float]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(_loss(trial))
    most = max(map(len, by_rate.values()))
    means = {rate: math.fsum(losses) / most for rate, losses in by_rate.items() if len(losses) == most}
    return min(means, key=lambda rate: means[rate])


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
