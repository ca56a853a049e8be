"""One run's curve extrapolated: a regression on the law, with a prior on its shape and none on its level.

The exponent is tried on a grid; level, slope and drop are linear given it, so that their posterior is exact.
What the law does not know wanders: a random walk beside it, in proportion to the run's own slope, through
which the newest losses count most.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from nanodyno.analysis.forecast_law import Array, Schedule, Shape, annealed, elapsed
from nanodyno.analysis.forecast_points import Curve, Points, points_of

EXPONENTS = np.linspace(-3, 3, 41)
"""In standard deviations of the prior."""
LOWEST_EXPONENT = 0.05
SMALLEST_SLOPE = 0.2
"""Of what is expected at this place, for the walk beside the law."""
FEW_POINTS = 6
"""A spread from so many points is trusted half as far, in variance, as one from many."""
FLAT = 1e-8
"""The weight of a prior that says nothing."""
Z80 = 1.2816
"""Half of an 80% interval in standard deviations."""


@dataclass(frozen=True)
class Prior:
    """What other curves say about the shape of this one."""

    exponent: float
    exponent_spread: float
    drop: float
    """What lowering the rate to nothing brings, in nats."""
    drop_spread: float
    """As a share of it."""
    shape: Shape
    slope_scale: float
    """Nats per e-fold of updates at s updates are expected to be this times s^-exponent, within its size."""
    wander: float
    """The walk beside the law, as a share of the slope."""
    anneal_wander: float
    width: float
    """By which spreads are multiplied, so that 80% intervals hold four fifths of the curves learned from."""


@dataclass(frozen=True)
class Prediction:
    """Normal around a median at each of some places ahead."""

    updates: Array
    median: Array
    spread: Array
    """Standard deviation, run noise included."""
    exponent: float
    slope: float
    """Nats by which the loss falls per e-fold of updates, at the last point and a steady rate."""
    noise: float
    spikes: int

    @property
    def low(self) -> Array:
        return self.median - Z80 * self.spread

    @property
    def high(self) -> Array:
        return self.median + Z80 * self.spread


@cache
def shipped_prior() -> Prior:
    text = files("nanodyno.analysis").joinpath("forecast_prior.json").read_text(encoding="utf-8")
    return prior_from(json.loads(text)["prior"])


def prior_from(numbers: dict[str, float]) -> Prior:
    rest = dict(numbers)
    shape = Shape(**{key: rest.pop(key) for key in ("pace", "reach", "quickening", "fading")})
    return Prior(shape=shape, **rest)


def predict(curve: Curve, schedule: Schedule, at: Array, prior: Prior) -> Prediction | None:
    """The loss at places after the curve's last; None with too few points for one."""
    points = points_of(curve, schedule)
    return None if points is None else _predict(points, schedule, at, prior)


def probability_lower(one: Prediction, other: Prediction) -> float:
    """That the first ends lower, by the last place of each; their errors taken as independent."""
    apart = float(other.median[-1] - one.median[-1])
    return 0.5 * math.erfc(-apart / math.hypot(one.spread[-1], other.spread[-1]) / math.sqrt(2))


def _predict(points: Points, schedule: Schedule, at: Array, prior: Prior) -> Prediction:
    count = len(points.updates)
    places = np.concatenate([points.updates, at])
    s, fallen = elapsed(schedule, places), annealed(schedule, places, prior.shape)
    now = s[count - 1]
    expected = prior.slope_scale * now**-prior.exponent
    exponents = np.maximum(prior.exponent + prior.exponent_spread * EXPONENTS, LOWEST_EXPONENT)
    rows = _rows(points, s / now, fallen, exponents)
    centre = np.array([0.0, expected, prior.drop, 0.0])
    weight = np.array([FLAT, expected**-2, (prior.drop_spread * prior.drop) ** -2, FLAT])
    level = float(points.losses.mean())
    slope = expected
    for _ in range(2):  # the walk is as large as the slope, which the first pass tells
        walk = _walk(s, fallen, now, slope, prior)
        known = walk[:count, :count] + np.diag(points.variances)
        inverse = np.linalg.inv(np.linalg.cholesky(known))
        white_rows, white = inverse @ rows[:, :count], inverse @ (points.losses - level)
        precision = np.einsum("aij,aik->ajk", white_rows, white_rows) + np.diag(weight)
        covariance = np.linalg.inv(precision)
        found = np.einsum("ajk,ak->aj", covariance, np.einsum("aij,i->aj", white_rows, white) + weight * centre)
        off = white - np.einsum("aij,aj->ai", white_rows, found)
        evidence = -0.5 * ((off**2).sum(1) + ((found - centre) ** 2 * weight).sum(1) + EXPONENTS**2)
        evidence -= 0.5 * np.linalg.slogdet(precision)[1]
        chance = np.exp(evidence - evidence.max())
        chance /= chance.sum()
        slope = max(float(chance @ found[:, 1]), SMALLEST_SLOPE * expected)
    carried = inverse.T @ (inverse @ walk[:count, count:])
    rest = (points.losses - level) - np.einsum("aij,aj->ai", rows[:, :count], found)
    medians = level + np.einsum("amj,aj->am", rows[:, count:], found) + rest @ carried
    ahead = rows[:, count:] - np.einsum("im,aij->amj", carried, rows[:, :count])
    own = np.diag(walk)[count:] - (carried * walk[:count, count:]).sum(0)
    variances = np.einsum("amj,ajk,amk->am", ahead, covariance, ahead) + np.maximum(own, 0) + points.noise**2
    median = chance @ medians
    variance = chance @ (variances + (medians - median) ** 2)
    width = prior.width * math.sqrt(1 + FEW_POINTS / count)
    return Prediction(
        at, median, width * np.sqrt(variance), float(chance @ exponents),
        float(chance @ found[:, 1]), points.noise, points.spikes,
    )  # fmt: skip


def _rows(points: Points, ratio: Array, fallen: Array, exponents: Array) -> Array:
    """By exponent and place: what level, slope, drop and the distance of train losses are multiplied by."""
    rows = np.zeros((len(exponents), len(ratio), 4))
    rows[:, :, 0] = 1.0
    rows[:, :, 1] = ratio ** -exponents[:, None] / exponents[:, None]
    rows[:, :, 2] = -fallen
    rows[:, : len(points.is_train), 3] = points.is_train
    return rows


def _walk(s: Array, fallen: Array, now: float, slope: float, prior: Prior) -> Array:
    """Covariance of the walk from the first point on, between all places."""
    steps = (prior.wander * slope) ** 2 * np.abs(np.diff(now / s))
    steps = steps + prior.anneal_wander**2 * np.abs(np.diff(fallen))
    so_far = np.concatenate([[0.0], np.cumsum(steps)])
    return np.minimum(so_far[:, None], so_far[None, :])
