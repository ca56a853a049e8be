"""The prior that a forecast brings, learned from whole curves: a joint fit of the law, then its width."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from forecast_curves import Known
from nanodyno.analysis.forecast_fit import Z80, Prior, predict
from nanodyno.analysis.forecast_law import Array, Shape, annealed, elapsed
from nanodyno.analysis.forecast_points import binned

PREFIXES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CALIBRATED_ON = PREFIXES[1:]
WANTED = 0.8
"""Of the ends within the interval."""
CALIBRATIONS = 4
"""A part of a spread is not multiplied by the width, so that it takes a few to find."""
EXPONENT_SPREAD, DROP_SPREAD = 0.04, 0.4
WANDER, ANNEAL_WANDER = 0.03, 0.03
SLOPE_SCALE = 10.0
LOOSE = {
    "pace": (np.log(0.03), 1.0), "reach": (np.log(0.7), 0.5), "fading": (0.1, 0.15), "bend": (1.0, 0.3)
}  # fmt: skip
"""Centre and spread that the shape is drawn to where the curves do not tell."""
GROWTH_DRAWN = 1.0
"""Squared e-folds of size that speak for no growth: drops of equal models scatter by a fifth."""
POINTS = 40
FROM_WARMUP, FROM_LENGTH = 1.3, 0.08
"""A fit begins after so many times the warm-up and such a share of the run."""
OFF = 0.002
"""Nats by which a curve may be off the law without weighing much."""
AT = 5000.0


@dataclass(frozen=True)
class Data:
    known: Known
    updates: Array
    losses: Array
    s: Array


def learn(curves: Sequence[Known]) -> Prior:
    """Fitted to all; its width comes from priors fitted without one size and tried on that size."""
    sizes = sorted({known.size for known in curves})
    parts = [[known for known in curves if known.size == size] for size in sizes]
    priors = [fit([known for known in curves if known.size != size]) for size in sizes] if sizes[1:] else []
    width = 1.0
    for _ in range(CALIBRATIONS):
        misses = [
            miss
            for part, prior in zip(parts, priors, strict=False)
            for miss in _misses(part, replace(prior, width=width))
        ]
        width *= float(np.quantile(misses, WANTED)) if misses else 1.0
    return replace(fit(curves), width=width)


def fit(curves: Sequence[Known]) -> Prior:
    """Exponent, drop and shape by a joint fit in which a family shares all of them; sizes count equally."""
    data = [_data(known) for known in curves]
    families = sorted({known.family for known in curves})
    start = np.concatenate(
        [np.zeros(len(LOOSE)), np.tile([3.0, np.log(0.4), 0.48, np.log(0.13)], len(families))]
    )
    found = least_squares(_residuals(data, families), start, loss="soft_l1", max_nfev=60).x
    own = {family: found[len(LOOSE) + 4 * n :][:4] for n, family in enumerate(families)}
    sizes: dict[str, set[str]] = {}
    for known in curves:
        sizes.setdefault(known.size, set()).add(known.family)
    exponents, log_drops = (
        {size: float(np.mean([own[family][which] for family in members])) for size, members in sizes.items()}
        for which in (2, 3)
    )
    growth, typical = _growth(log_drops, {known.size: known.parameters for known in curves})
    return Prior(
        float(np.mean(list(exponents.values()))), EXPONENT_SPREAD,
        float(np.exp(np.mean(list(log_drops.values())))), DROP_SPREAD, growth, typical,
        _shape(found), SLOPE_SCALE, WANDER, ANNEAL_WANDER, 1.0,
    )  # fmt: skip


def _growth(log_drops: dict[str, float], parameters: dict[str, float | None]) -> tuple[float, float]:
    """The power by which a drop grows with the parameters, drawn to 0, and their geometric mean."""
    if any(count is None for count in parameters.values()):
        return 0.0, 1e8
    x = np.log([float(parameters[size] or 0) for size in log_drops])
    apart = x - x.mean()
    return float(apart @ list(log_drops.values()) / (apart @ apart + GROWTH_DRAWN)), float(np.exp(x.mean()))


def _misses(curves: Sequence[Known], prior: Prior) -> list[float]:
    """How many half intervals each forecast is off."""
    return [
        abs(float(made.median[0]) - known.final) / (Z80 * float(made.spread[0]))
        for known in curves
        for share in CALIBRATED_ON
        if (made := foretell(known, share, prior)) is not None
    ]


def foretell(known: Known, share: float, prior: Prior):
    """The end, from the first part of the curve."""
    seen, end = known.curve.until(share * known.last), np.array([known.last])
    return predict(seen, known.schedule, end, prior.of_size(known.parameters))


def _data(known: Known) -> Data:
    first = max(FROM_WARMUP * known.schedule.peak_at, FROM_LENGTH * known.last)
    kept = known.curve.updates >= first
    updates, losses, _ = binned(known.curve.updates[kept], known.curve.losses[kept], POINTS)
    return Data(known, updates, losses, elapsed(known.schedule, updates))


def _shape(found: Array) -> Shape:
    pace, reach, fading, bend = (
        centre + spread * z for (centre, spread), z in zip(LOOSE.values(), found, strict=False)
    )
    return Shape(float(np.exp(pace)), float(np.exp(reach)), float(fading), float(bend))


def _residuals(data: Sequence[Data], families: Sequence[str]) -> Callable[[Array], Array]:
    def residuals(tried: Array) -> Array:
        shape, parts = _shape(tried), [tried[: len(LOOSE)]]
        for each in data:
            at = len(LOOSE) + 4 * families.index(each.known.family)
            level, log_scale, exponent, log_drop = tried[at : at + 4]
            fallen = annealed(each.known.schedule, each.updates, shape)
            law = level + np.exp(log_scale) * (each.s / AT) ** -exponent - np.exp(log_drop) * fallen
            parts.append((law - each.losses) / OFF)
        own = tried[len(LOOSE) :].reshape(-1, 4)
        parts += [(own[:, 2] - 0.5) / 0.15, (own[:, 3] - np.log(0.13)) / 0.4]
        return np.concatenate(parts)

    return residuals
