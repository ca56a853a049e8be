"""What a forecast is fitted to: the losses worth using, without spikes, few enough and with their noise."""

import math
from dataclasses import dataclass, field

import numpy as np

from nanodyno.analysis.forecast_law import Array, Schedule

EARLIEST = 0.15
"""Of the way so far: what came before has a shape of its own."""
MOST_POINTS = 60
MOST_TRAIN_POINTS = 30
FEWEST_POINTS = 2
ENOUGH_EVALS = 8
"""With fewer, losses of the training batches are used too, at a distance of their own."""
SMALLEST_NOISE = 5e-4
NOISE_UNKNOWN = 3e-3
RECENT = 40
SPIKE = 8.0
"""In standard deviations of a loss above its neighbours on both sides."""
SMALLEST_SPIKE = 0.02
TO_DEVIATION = 1 / 0.6745
"""From a median of absolute values, if they are normal."""


def _empty() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class Curve:
    """Losses by the number of updates made before them, in order; any of them may be no number."""

    updates: Array
    losses: Array
    train_updates: Array = field(default_factory=_empty)
    train_losses: Array = field(default_factory=_empty)
    """Of single batches."""

    def until(self, updates: float) -> "Curve":
        kept, trained = self.updates <= updates, self.train_updates <= updates
        return Curve(
            self.updates[kept], self.losses[kept], self.train_updates[trained], self.train_losses[trained]
        )


@dataclass(frozen=True)
class LossPoints:
    updates: Array
    losses: Array
    variances: Array
    is_train: Array
    """1 for a loss of training batches, whose distance from the val loss is fitted."""
    noise: float
    """Standard deviation of one evaluation."""
    spikes: int
    """Losses left out because they leap."""


def points_of(curve: Curve, schedule: Schedule) -> LossPoints | None:
    """None with too little after the warm-up to see a slope in."""
    updates, losses, spikes = _clean(curve.updates, curve.losses)
    train_updates, train_losses, train_spikes = _clean(curve.train_updates, curve.train_losses)
    now = float(max(updates[-1:].max(initial=0.0), train_updates[-1:].max(initial=0.0)))
    first = max(float(schedule.peak_at), EARLIEST * now)
    kept, trained = updates >= first, train_updates >= first
    updates, losses = updates[kept], losses[kept]
    noise = noise_around(updates[-RECENT:], losses[-RECENT:])
    use_train = len(updates) < ENOUGH_EVALS and int(trained.sum()) >= MOST_TRAIN_POINTS and len(updates) > 0
    if len(updates) < (1 if use_train else FEWEST_POINTS):
        return None
    places, values, counts = binned(updates, losses, MOST_POINTS)
    variances, is_train = noise**2 / counts, np.zeros(len(places))
    if use_train:
        more_places, more_values, more_counts = binned(
            train_updates[trained], train_losses[trained], MOST_TRAIN_POINTS
        )
        one = _difference_noise(train_losses[trained])
        places, values = np.concatenate([places, more_places]), np.concatenate([values, more_values])
        variances = np.concatenate([variances, one**2 / more_counts])
        is_train = np.concatenate([is_train, np.ones(len(more_places))])
    order = np.argsort(places, kind="stable")
    return LossPoints(
        places[order], values[order], variances[order], is_train[order], noise, spikes + train_spikes
    )


def binned(updates: Array, losses: Array, most: int) -> tuple[Array, Array, Array]:
    """Means over stretches that are equally long on the logarithm, and how many losses each holds."""
    if len(updates) <= most:
        return updates, losses, np.ones(len(updates))
    apart = np.log(updates[-1] / updates[0]) / most
    wanted: Array = updates[0] * np.exp(apart * np.arange(most))
    inner = np.searchsorted(updates, wanted)
    edges = np.unique(np.concatenate([inner, [len(updates)]]))
    counts = np.diff(edges).astype(np.float64)
    return (
        np.add.reduceat(updates, edges[:-1]) / counts,
        np.add.reduceat(losses, edges[:-1]) / counts,
        counts,
    )


def noise_around(updates: Array, losses: Array) -> float:
    """Of one evaluation: how far each is off the line through its neighbours, less how far the next is."""
    if len(losses) < 5:
        return NOISE_UNKNOWN
    x = np.log(updates)
    share = (x[2:] - x[1:-1]) / (x[2:] - x[:-2])
    off = losses[1:-1] - share * losses[:-2] - (1 - share) * losses[2:]
    off = off / np.sqrt(1 + share**2 + (1 - share) ** 2)
    typical = float(np.median(np.abs(np.diff(off)))) * TO_DEVIATION / math.sqrt(2)
    return max(SMALLEST_NOISE, typical)


def _clean(updates: Array, losses: Array) -> tuple[Array, Array, int]:
    """Each place once (the later word counts), numbers only, without leaps; and how many leaps there were."""
    finite = np.isfinite(losses) & (updates > 0)
    places, last = np.unique(updates[finite][::-1], return_index=True)
    values = losses[finite][::-1][last]
    if len(values) < 5:
        return places, values, 0
    before, after = (np.minimum(np.roll(values, way), np.roll(values, 2 * way))[2:-2] for way in (1, -1))
    off = values[2:-2] - np.maximum(before, after)  # so that a fall to another level is no leap
    limit = max(SMALLEST_SPIKE, SPIKE * float(np.median(np.abs(off))) * TO_DEVIATION)
    leaps = np.zeros(len(values), bool)
    leaps[2:-2] = off > limit
    return places[~leaps], values[~leaps], int(leaps.sum())


def _difference_noise(losses: Array) -> float:
    return max(SMALLEST_NOISE, float(np.median(np.abs(np.diff(losses)))) * TO_DEVIATION / np.sqrt(2))
