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
WANTED = 0.75
"""Of the misses within the interval: priors of fewer sizes miss by more than one of all of them will."""
EXPONENT_SPREAD, DROP_SPREAD = 0.05, 0.25
WANDER, ANNEAL_WANDER = 0.05, 0.02
SLOPE_SCALE = 10.0
LOOSE = {"pace": (np.log(0.03), 1.0), "reach": (np.log(0.7), 0.5), "fading": (0.1, 0.15)}
"""Centre and spread that the shape is drawn to where the curves do not tell."""
QUICKENING = 0.65
"""gamma as Luo et al. (2025) found it: two sizes alone put it anywhere between 0.9 and 3.3."""
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
    prior = fit(curves)
    sizes = sorted({known.size for known in curves})
    off = [
        miss
        for size in sizes
        if len(sizes) > 1
        for miss in _misses(
            [known for known in curves if known.size == size],
            fit([known for known in curves if known.size != size]),
        )
    ]
    return replace(prior, width=float(np.quantile(off, WANTED))) if off else prior


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
    exponent, log_drop = (
        float(np.mean([np.mean([own[family][which] for family in members]) for members in sizes.values()]))
        for which in (2, 3)
    )
    return Prior(
        exponent, EXPONENT_SPREAD, float(np.exp(log_drop)), DROP_SPREAD, _shape(found), SLOPE_SCALE,
        WANDER, ANNEAL_WANDER, 1.0,
    )  # fmt: skip


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
    return predict(known.curve.until(share * known.last), known.schedule, np.array([known.last]), prior)


def _data(known: Known) -> Data:
    first = max(FROM_WARMUP * known.schedule.peak_at, FROM_LENGTH * known.last)
    kept = known.curve.updates >= first
    updates, losses, _ = binned(known.curve.updates[kept], known.curve.losses[kept], POINTS)
    return Data(known, updates, losses, elapsed(known.schedule, updates))


def _shape(found: Array) -> Shape:
    pace, reach, fading = (
        centre + spread * z for (centre, spread), z in zip(LOOSE.values(), found, strict=False)
    )
    return Shape(float(np.exp(pace)), float(np.exp(reach)), QUICKENING, float(fading))


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
