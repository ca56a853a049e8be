"""A range test of the learning rate: which trials to make next, and what they say. It trains nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Trial:
    learning_rate: float
    repeat: int
    """Counted from 0: each has weights and data of its own, the same for every rate."""
    val_loss: float | None
    """After the last iteration; None where the training diverged."""


@dataclass(frozen=True)
class Chosen:
    learning_rate: float
    interval: Interval
    """Of the rate at the bottom of each repeat's curve: Student's, over the repeats' logarithms."""
    at_the_end: bool
    """Whether losses were still falling at the last rate that may be tried."""


Ask = tuple[float, int]
"""A learning rate and a repeat."""


def next_trials(trials: Sequence[Trial]) -> list[Ask]:
    """What is to be trained before more can be said; empty at the end.

    First one of each coarse rate; then one at half and at twice the best, and on downhill; then every repeat
    of the best and of its neighbours half an octave away, and again on downhill.
    """
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


def choose(trials: Sequence[Trial]) -> Chosen | None:
    """None where every training diverged."""
    if not any(trial.val_loss is not None for trial in trials):
        return None
    best = _best(trials)
    losses = {(trial.learning_rate, trial.repeat): _loss(trial) for trial in trials}
    around = _around(best, FINE)
    bottoms = [
        math.log2(best) + FINE * _bottom([losses[rate, repeat] for rate in around])
        for repeat in range(SEEDS)
        if len(around) == 3 and all((rate, repeat) in losses for rate in around)
    ] or [math.log2(best)]
    found = t_interval(bottoms, LEVEL)
    assert found is not None
    interval = Interval(
        2**found.estimate,
        None if found.low is None else 2**found.low,
        None if found.high is None else 2**found.high,
        LEVEL,
        found.n,
    )
    return Chosen(float(f"{interval.estimate:.2g}"), interval, at_the_end=len(around) < 3)


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
