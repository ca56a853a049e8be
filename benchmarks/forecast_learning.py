"""The prior that a forecast brings, learned from whole curves: the numbers that forecast their ends best.

A prior is judged by the forecasts that it makes from prefixes of the curves: the mean of the negative
logarithm of Student's t density (5 degrees of freedom) of the end, and of a share of the logarithm of the
error. Nelder and Mead's search goes from START, drawn to it, so that few curves change little. Then the width
is set so that WANTED of the 80% intervals cover the end, with priors learned without the curves they are
tried on.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np
from scipy.optimize import minimize

from forecast_curves import Known
from nanodyno.analysis.forecast_fit import Z80, Prediction, Prior, predict, prior_from
from nanodyno.analysis.forecast_law import Array
from nanodyno.analysis.forecast_points import Curve, binned

PREFIXES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LEARNED_FROM = (0.2, 0.3, 0.5, 0.8)
WANTED = 0.83
"""Of the ends within the interval, over all curves and prefixes: 80%, and the scatter of a few families."""
START: dict[str, tuple[float, float]] = {
    "exponent": (0.48, 0.1), "exponent_spread": (0.15, 0.5), "drop": (0.19, 0.2), "drop_spread": (0.35, 0.5),
    "drop_growth": (0.1, 0.1), "drop_by_exponent": (0.0, 0.3), "pace": (0.05, 0.7), "reach": (0.5, 0.3),
    "fading": (0.15, 0.1), "bend": (0.75, 0.15), "pace_spread": (1.0, 0.5), "slope_scale": (10.0, 0.3),
    "slope_spread": (0.6, 0.5), "wander": (0.03, 0.7), "anneal_wander": (0.03, 0.7), "rarer": (2.0, 1.0),
    "few_points": (4.0, 0.7), "young": (1000.0, 0.7), "width": (0.7, 0.4),
}  # fmt: skip
"""Where the search begins, and how far it steps: in e-folds, or plainly for PLAIN."""
PLAIN = ("drop_growth", "drop_by_exponent", "fading", "bend", "rarer")
TYPICAL_PARAMETERS = 1.2e8
DRAWN = 0.00025
"""What each squared step away from the start costs."""
DEGREES = 5.0
OF_ERROR, SMALLEST_ERROR = 0.3, 0.1
"""The share of the error's logarithm in the score, and the percent below which no error counts less."""
POINTS = 60
MANY = 6
"""More curves of one size and family than so many count no more than so many."""


def learn(curves: Sequence[Known], evaluations: int = 250) -> Prior:
    """Return the prior that forecasts these curves best, its width not yet set by curves left out."""
    curves = [_thinned(known) for known in curves]
    weights = np.array(
        [min(1.0, MANY / sum(each.family == known.family for each in curves)) for known in curves]
    )

    def cost(steps: Array) -> float:
        try:
            prior = stepped(steps)
            scores = [_score(known, prior) for known in curves]
        except (np.linalg.LinAlgError, ValueError):
            return 1e3
        return float(np.average(scores, weights=weights)) + DRAWN * float(steps @ steps)

    count = len(START)
    corners = np.vstack([np.zeros(count), 0.7 * np.eye(count)])
    options = {"maxfev": evaluations, "initial_simplex": corners, "adaptive": True}
    return stepped(minimize(cost, np.zeros(count), method="Nelder-Mead", options=options).x)


def _thinned(known: Known) -> Known:
    """So that a search takes minutes: the first and last losses as they are, means of the others."""
    inner, losses = known.curve.updates[:-1], known.curve.losses[:-1]
    places, means, _ = binned(inner, losses, POINTS)
    ends = known.curve.updates[-1:], known.curve.losses[-1:]
    curve = Curve(np.concatenate([places, ends[0]]), np.concatenate([means, ends[1]]))
    return replace(known, curve=curve)


def stepped(steps: Array) -> Prior:
    numbers = {"typical_parameters": TYPICAL_PARAMETERS}
    for (name, (start, size)), step in zip(START.items(), steps, strict=True):
        numbers[name] = start + size * step if name in PLAIN else start * float(np.exp(size * step))
    if numbers["fading"] < 0 or numbers["bend"] < 0.2:
        raise ValueError("no shape of a decay")
    return prior_from(numbers)


def _score(known: Known, prior: Prior) -> float:
    scores: list[float] = []
    for share in LEARNED_FROM:
        made = forecast_end(known, share, prior)
        if made is not None:
            error = 100 * abs(float(made.median[0]) / known.final - 1)
            spread = 100 * float(made.spread[0]) / known.final
            tails = (DEGREES + 1) / 2 * np.log1p((error / spread) ** 2 / DEGREES)
            scores.append(np.log(spread) + tails + OF_ERROR * np.log(error + SMALLEST_ERROR))
    return float(np.mean(scores)) if scores else 0.0


def calibrated(prior_for: Callable[[Known], Prior], curves: Sequence[Known]) -> float:
    """Return what to multiply widths by, so that WANTED of the intervals of curves left out cover the end."""
    factor = 1.0
    for _ in range(4):  # a part of a spread is not multiplied by the width, so that it takes a few
        misses = [
            abs(float(made.median[0]) - known.final) / (Z80 * float(made.spread[0]))
            for known in curves
            for share in LEARNED_FROM
            if (made := forecast_end(known, share, widened(prior_for(known), factor))) is not None
        ]
        factor *= float(np.quantile(misses, WANTED))
    return factor


def widened(prior: Prior, factor: float) -> Prior:
    return replace(prior, width=prior.width * factor)


def forecast_end(known: Known, share: float, prior: Prior) -> Prediction | None:
    """Forecast the end from the first part of the curve."""
    seen, end = known.curve.until(share * known.last), np.array([known.last])
    return predict(seen, known.schedule, end, prior.of_size(known.parameters))


def numbers_of(prior: Prior) -> dict[str, float]:
    numbers = asdict(prior)
    numbers |= numbers.pop("shape")
    return {key: float(f"{value:.6g}") for key, value in numbers.items()}
