"""One run's curve extrapolated: a regression on the law, with a prior on its shape and none on its level.

The exponent, and the pace at which a lowered rate takes effect, are tried on a grid. Level, slope and drop
are linear given them, so that their posterior is exact. What the law does not know is a random walk beside
it, in proportion to the run's own slope, through which the newest losses count most. Where the slope itself
turns as no law has it (a model that is only beginning to learn), that is a walk too, as large as the losses
call for.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from nanodyno.analysis.forecast_law import Array, Schedule, Shape, annealed, elapsed
from nanodyno.analysis.forecast_points import Curve, LossPoints, points_of

EXPONENTS: Array = 0.15 * np.arange(-20.0, 21.0, dtype=np.float64)
"""In standard deviations of the prior of the exponent's logarithm."""
PACES = ((-1.3, 0.26), (0.0, 0.48), (1.3, 0.26))
"""In standard deviations of the prior of the pace's logarithm, each with its prior probability."""
SMALLEST_SLOPE = 0.2
"""Of what is expected at this place, for the walk beside the law."""
TURNS = (0.0, 0.2, 0.4, 0.8, 1.6)
"""By what share the slope itself may wander over an e-fold of updates."""
FURTHEST = 4.0
"""How many times as large or small as those learned from a model is taken to be."""
SHORTEST = 0.02
"""E-folds of updates that two losses are taken to be apart at least."""
FEWEST_NEWEST = 3
FLAT = 1e-8
"""The weight of a prior that says nothing."""
BENT = 0.2
"""Of the latest loss: the law goes on below it as a hyperbola, because no loss falls below 0. None of the
curves learned from fell so far."""
Z80 = 1.2816
"""Half of an 80% interval in standard deviations."""


@dataclass(frozen=True)
class Prior:
    """What other curves say about the shape of this one."""

    exponent: float
    exponent_spread: float
    """Of its logarithm."""
    drop: float
    """What lowering the rate to nothing brings, in nats, to a model of typical_parameters."""
    drop_spread: float
    """As a share of it."""
    drop_growth: float
    """The power of the parameters by which it grows."""
    drop_by_exponent: float
    """The power of the exponent by which it grows: the two are told apart badly by whole curves too."""
    typical_parameters: float
    shape: Shape
    pace_spread: float
    """Of the logarithm of the shape's pace."""
    slope_scale: float
    """Nats per e-fold of updates at s updates are expected to be this times s^-exponent."""
    slope_spread: float
    """As a share of it."""
    wander: float
    """The walk beside the law, as a share of the slope."""
    anneal_wander: float
    rarer: float
    """By how many nats of evidence each of TURNS is rarer than the one before."""
    width: float
    """By which spreads are multiplied; as all that follows, from forecasts of curves left out."""
    residual: float
    """The mean square of the newest third of the residuals, of variance 1 each, that doubles a variance."""
    short: float
    """A variance from losses over so many e-folds of updates is doubled."""
    young: float
    """Updates at which a variance is doubled."""
    drop_misfit: float
    """The share of the drop ahead by which the law is off: decays of other shapes bring other shares."""

    def of_size(self, parameters: float | None) -> "Prior":
        """Return the prior for a model of so many parameters; None where that is not known."""
        if parameters is None:
            return self
        ratio = min(max(parameters / self.typical_parameters, 1 / FURTHEST), FURTHEST)
        return replace(self, drop=self.drop * ratio**self.drop_growth)


@dataclass(frozen=True)
class Prediction:
    """Normal around a median at each of some places ahead."""

    updates: Array
    median: Array
    spread: Array
    """Standard deviation, run noise included."""
    spikes: int
    points: int = 0
    """That it was fitted to."""

    @property
    def low(self) -> Array:
        """No loss is below 0."""
        return np.maximum(self.median - Z80 * self.spread, 0.0)

    @property
    def high(self) -> Array:
        return self.median + Z80 * self.spread


def above_zero(made: Prediction, losses: Array, noise: float) -> Prediction:
    """Return a forecast that stays above 0: a fall through 0 is bent where it gets near, seen from `losses`.

    By as much as it was bent it is less certain, up to the latest loss.
    """
    latest = max(float(losses[-1]), noise)
    near = BENT * latest
    median = np.where(made.median < near, near**2 / (2 * near - np.minimum(made.median, near)), made.median)
    moved = np.minimum(median - made.median, latest)
    return replace(made, median=median, spread=np.hypot(made.spread, moved / Z80))


@cache
def shipped_prior() -> Prior:
    text = files("nanodyno.analysis").joinpath("forecast_prior.json").read_text(encoding="utf-8")
    return prior_from(json.loads(text)["prior"])


def prior_from(numbers: dict[str, float]) -> Prior:
    rest = dict(numbers)
    shape = Shape(**{key: rest.pop(key) for key in ("pace", "reach", "fading", "bend")})
    return Prior(shape=shape, **rest)


def predict(curve: Curve, schedule: Schedule, at: Array, prior: Prior) -> Prediction | None:
    """Return the loss at places after the curve's last; None with too few points for one."""
    points = points_of(curve, schedule)
    return None if points is None else _predict(points, schedule, at, prior)


@dataclass(frozen=True)
class _Setting:
    """Everything of a fit that does not depend on the size of the walk."""

    points: LossPoints
    rows: Array
    centre: Array
    """By exponent."""
    weight: Array
    """By exponent: the inverse variance of each parameter's prior."""
    level: float
    """Taken off the losses, so that the flat prior on the level stays out of the way."""

    @property
    def count(self) -> int:
        return len(self.points.updates)

    @property
    def losses(self) -> Array:
        return self.points.losses - self.level


@dataclass(frozen=True)
class _Posterior:
    """By exponent: how likely it is, and level, slope, drop and distance of train losses given it."""

    chance: Array
    found: Array
    covariance: Array
    walk: Array
    inverse: Array
    """Of the Cholesky factor of what the points scatter by."""
    evidence: float
    """Of this walk, over all exponents: the logarithm of how likely the losses are."""
    residual: float
    """The mean square of those of the newest third of the losses, in standard deviations."""

    @property
    def slope(self) -> float:
        return float(self.chance @ self.found[:, 1])

    @property
    def drop(self) -> float:
        return float(self.chance @ self.found[:, 2])


@dataclass(frozen=True)
class Extrapolation:
    """The median at places ahead, and what its spread is made of."""

    median: Array
    of_law: Array
    """The variance where the slope does not turn, of width 1."""
    of_turns: Array
    drop_ahead: Array
    """Nats."""
    residual: float
    """The mean square of those of the newest losses, of variance 1 each by the noise and the walk."""
    reach: float
    """E-folds of updates between the first loss and the last."""
    now: float
    noise: float

    def spread(self, prior: Prior) -> Array:
        """Standard deviation, that of one evaluation included."""
        badly = 1 + self.residual / prior.residual
        variance = prior.width**2 * badly * self.of_law + self.of_turns  # learned where the slope holds
        variance = variance * (1 + (prior.short / self.reach) ** 2) * (1 + prior.young / self.now)
        of_decay = badly * (prior.drop_misfit * self.drop_ahead) ** 2
        return np.sqrt(variance + of_decay + self.noise**2)


def _predict(points: LossPoints, schedule: Schedule, at: Array, prior: Prior) -> Prediction:
    made = extrapolated(points, schedule, at, prior)
    whole = Prediction(at, made.median, made.spread(prior), points.spikes, len(points.updates))
    return above_zero(whole, points.losses[points.is_train == 0], points.noise)


def extrapolated(points: LossPoints, schedule: Schedule, at: Array, prior: Prior) -> Extrapolation:
    """Mix the answers of all paces and turns, each weighed by its evidence."""
    places = np.concatenate([points.updates, at])
    s = elapsed(schedule, places)
    last = len(points.updates) - 1
    evidence: list[float] = []
    medians: list[Array] = []
    variances: list[Array] = []
    drops: list[Array] = []
    residuals: list[float] = []
    for pace, chance in PACES:
        paced = replace(prior.shape, pace=prior.shape.pace * float(np.exp(prior.pace_spread * pace)))
        fallen = annealed(schedule, places, paced)
        setting = _setting(points, s, fallen, prior)
        for turn, way in zip(TURNS, _ways(setting, s, fallen, prior), strict=True):
            median, variance = _ahead(setting, way)
            evidence.append(way.evidence + np.log(chance) - prior.rarer * TURNS.index(turn))
            medians.append(median)
            variances.append(variance)
            residuals.append(way.residual)
            drops.append(way.drop * (fallen[last + 1 :] - fallen[last]))
    shares, found = _shares(np.array(evidence)), np.array(medians)
    median = shares @ found
    off = np.array(variances) + (found - median) ** 2
    turning = np.tile(np.array(TURNS) > 0, len(PACES))
    return Extrapolation(
        median,
        shares[~turning] @ off[~turning],
        shares[turning] @ off[turning],
        shares @ np.array(drops),
        float(shares @ np.array(residuals)),
        max(float(np.log(s[last] / s[0])), SHORTEST),
        float(s[last]),
        points.noise,
    )


def _setting(points: LossPoints, s: Array, fallen: Array, prior: Prior) -> _Setting:
    now = float(s[len(points.updates) - 1])
    exponents = prior.exponent * np.exp(prior.exponent_spread * EXPONENTS)
    slope = prior.slope_scale * now**-prior.exponent
    drops = prior.drop * (exponents / prior.exponent) ** prior.drop_by_exponent
    nothing = np.zeros(len(exponents))
    flat = nothing + FLAT
    return _Setting(
        points,
        _rows(points, s / now, fallen, exponents),
        np.stack([nothing, nothing + slope, drops, nothing], axis=1),
        np.stack(
            [flat, nothing + (prior.slope_spread * slope) ** -2, (prior.drop_spread * drops) ** -2, flat],
            axis=1,
        ),
        float(points.losses.mean()),
    )


def _ways(setting: _Setting, s: Array, fallen: Array, prior: Prior) -> list[_Posterior]:
    """Return a posterior for each of TURNS; the walk is as large as the slope turns out to be."""
    now, expected = float(s[setting.count - 1]), float(setting.centre[0, 1])
    first = _posterior(setting, _walk(s, fallen, now, expected, prior))
    slope = max(first.slope, SMALLEST_SLOPE * expected)
    walk, turning = _walk(s, fallen, now, slope, prior), _turning(s, now, slope, prior.exponent)
    return [_posterior(setting, walk + turn**2 * turning) for turn in TURNS]


def _posterior(setting: _Setting, walk: Array) -> _Posterior:
    n, weight, centre = setting.count, setting.weight, setting.centre
    scatter: Array = walk[:n, :n] + np.diag(setting.points.variances)
    inverse = np.linalg.inv(np.linalg.cholesky(scatter)).astype(np.float64)
    likely = float(np.log(np.diag(inverse)).sum())
    rows, losses = inverse @ setting.rows[:, :n], inverse @ setting.losses
    precision: Array = np.swapaxes(rows, 1, 2) @ rows + weight[:, :, None] * np.eye(weight.shape[1])
    covariance = np.linalg.inv(precision).astype(np.float64)
    pull: Array = np.einsum("aij,i->aj", rows, losses) + weight * centre
    found: Array = np.einsum("ajk,ak->aj", covariance, pull)
    off: Array = losses - np.einsum("aij,aj->ai", rows, found)
    evidence = -0.5 * ((off**2).sum(1) + ((found - centre) ** 2 * weight).sum(1) + EXPONENTS**2)
    evidence = evidence - 0.5 * np.linalg.slogdet(precision)[1] + 0.5 * np.log(weight).sum(1)
    likely += float(np.logaddexp.reduce(evidence))
    chance = _shares(evidence)
    residual = float(chance @ (off[:, -max(FEWEST_NEWEST, n // 3) :] ** 2).mean(1))
    return _Posterior(chance, found, covariance, walk, inverse, likely, residual)


def _shares(evidence: Array) -> Array:
    chance: Array = np.exp(evidence - evidence.max())
    return chance / chance.sum()


def _ahead(setting: _Setting, posterior: _Posterior) -> tuple[Array, Array]:
    """Return median and variance at the places ahead, over all exponents; the walk goes on from its last.

    An evaluation's own noise comes on top.
    """
    n, rows, walk, found = setting.count, setting.rows, posterior.walk, posterior.found
    carried = posterior.inverse.T @ (posterior.inverse @ walk[:n, n:])
    rest: Array = setting.losses - np.einsum("aij,aj->ai", rows[:, :n], found)
    medians: Array = setting.level + np.einsum("amj,aj->am", rows[:, n:], found) + rest @ carried
    change: Array = rows[:, n:] - carried.T @ rows[:, :n]
    own = np.maximum(np.diag(walk)[n:] - (carried * walk[:n, n:]).sum(0), 0.0)
    of_law: Array = ((change @ posterior.covariance) * change).sum(2)
    median = posterior.chance @ medians
    return median, posterior.chance @ (of_law + own + (medians - median) ** 2)


def _rows(points: LossPoints, ratio: Array, fallen: Array, exponents: Array) -> Array:
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
    return walked(steps + prior.anneal_wander**2 * np.abs(np.diff(fallen)))


def walked(steps: Array) -> Array:
    """Return the covariance between all places of a walk whose steps have these variances."""
    so_far = np.concatenate([[0.0], np.cumsum(steps)])
    return np.minimum(so_far[:, None], so_far[None, :])


def _turning(s: Array, now: float, slope: float, exponent: float) -> Array:
    """Covariance of what a slope brings that wanders by its own size over an e-fold of updates."""
    since = np.log(s / s[0])
    falls = slope * (s / now) ** -exponent * np.diff(since, prepend=0.0)
    summed = np.tril(np.ones((len(s), len(s)))) * falls
    return summed @ np.minimum(since[:, None], since[None, :]) @ summed.T
