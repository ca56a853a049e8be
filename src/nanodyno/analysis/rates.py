"""A range test of the learning rate: which trials to make next, and what they say. It trains nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import t_interval

COARSE = tuple(1e-4 * 4**k for k in range(5))
"""0.0001 to 0.0256, one training each."""
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

    First one of each coarse rate; then every repeat of the best and its neighbours at half and twice the
    rate; and as long as a neighbour is the better one, its own neighbour.
    """
    done = {(trial.learning_rate, trial.repeat) for trial in trials}
    missing = [(rate, 0) for rate in COARSE if (rate, 0) not in done]
    if missing or not any(trial.val_loss is not None for trial in trials):
        return missing
    around = _around(_best(trials))
    return [(rate, repeat) for repeat in range(SEEDS) for rate in around if (rate, repeat) not in done]


def choose(trials: Sequence[Trial]) -> Chosen | None:
    """None where every training diverged."""
    if not any(trial.val_loss is not None for trial in trials):
        return None
    best = _best(trials)
    losses = {(trial.learning_rate, trial.repeat): _loss(trial) for trial in trials}
    bottoms = [
        _bottom(best, [losses[rate, repeat] for rate in (best / 2, best, best * 2)])
        for repeat in range(SEEDS)
        if all((rate, repeat) in losses for rate in (best / 2, best, best * 2))
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
    at_the_end = best / 2 < LOWEST or best * 2 > HIGHEST
    return Chosen(float(f"{interval.estimate:.2g}"), interval, at_the_end)


def _best(trials: Sequence[Trial]) -> float:
    """The lowest mean over its repeats, among the rates with the most of them."""
    by_rate: dict[float, list[float]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(_loss(trial))
    most = max(map(len, by_rate.values()))
    means = {rate: math.fsum(losses) / most for rate, losses in by_rate.items() if len(losses) == most}
    return min(means, key=lambda rate: means[rate])


def _around(best: float) -> list[float]:
    return [rate for rate in (best / 2, best, best * 2) if LOWEST <= rate <= HIGHEST]


def _loss(trial: Trial) -> float:
    return math.inf if trial.val_loss is None else trial.val_loss


def _bottom(best: float, losses: Sequence[float]) -> float:
    """log2 of the rate at the bottom of the parabola through the three; no further off than a neighbour."""
    low, middle, high = losses
    if not math.isfinite(low + middle + high):
        return math.log2(best) + (-0.5 if math.isfinite(low) else 0.0)  # the cliff is on the right
    bend = low - 2 * middle + high
    if bend <= 0:
        return math.log2(best) + (1.0 if high < low else -1.0)
    return math.log2(best) + max(-1.0, min(1.0, (low - high) / (2 * bend)))
