"""The prior that a forecast brings, learned from whole curves: the numbers that forecast their ends best.

A prior is judged by the forecasts that it makes from prefixes of the curves: the mean of the negative
logarithm of Student's t density (5 degrees of freedom) of the end, and of a share of the logarithm of the
error. Nelder and Mead's search goes from START, drawn to it, so that few curves change little. Then SPREADS
are learned by the same density from forecasts of curves left out, and scaled so that WANTED of their 80%
intervals cover the end.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from forecast_curves import Known
from nanodyno.analysis.forecast_far import beyond, is_far, reach_of
from nanodyno.analysis.forecast_fit import (
    Z80,
    Extrapolation,
    Prediction,
    Prior,
    extrapolated,
    predict,
    prior_from,
)
from nanodyno.analysis.forecast_law import Array
from nanodyno.analysis.forecast_points import Curve, binned, points_of
from nanodyno.analysis.forecast_size import SizeLaw, law_for

PREFIXES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LEARNED_FROM = (0.2, 0.3, 0.5, 0.8)
WANTED = 0.83
"""Of the ends within the interval, over all curves and prefixes: 80%, and the scatter of a few families."""
START: dict[str, tuple[float, float]] = {
    "exponent": (0.48, 0.1), "exponent_spread": (0.15, 0.5), "drop": (0.19, 0.2), "drop_spread": (0.35, 0.5),
    "drop_growth": (0.1, 0.1), "drop_by_exponent": (0.0, 0.3), "pace": (0.05, 0.7), "reach": (0.5, 0.3),
    "fading": (0.15, 0.1), "bend": (0.75, 0.15), "pace_spread": (1.0, 0.5), "slope_scale": (10.0, 0.3),
    "slope_spread": (0.6, 0.5), "wander": (0.03, 0.7), "anneal_wander": (0.03, 0.7), "rarer": (2.0, 1.0),
    "width": (0.4, 0.4), "short": (0.35, 0.7), "young": (1000.0, 0.7),
}  # fmt: skip
"""Where the search begins, and how far it steps: in e-folds, or plainly for PLAIN."""
PLAIN = ("drop_growth", "drop_by_exponent", "fading", "bend", "rarer")
SPREADS = {"width": 0.25, "residual": 0.2, "short": 0.6, "young": 700.0, "drop_misfit": 0.05}
"""Numbers of the prior that move no median, and where their search begins."""
SCALED = ("width", "drop_misfit")
CALIBRATED_FROM = 0.2
"""Of a run: forecasts of younger ones are taken to learn the spreads, and not to scale them."""
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
    weights = np.array([_weight(known, curves) for known in curves])

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


def _weight(known: Known, curves: Sequence[Known]) -> float:
    return min(1.0, MANY / sum(each.family == known.family for each in curves))


def _thinned(known: Known) -> Known:
    """So that a search takes minutes: the first and last losses as they are, means of the others."""
    inner, losses = known.curve.updates[:-1], known.curve.losses[:-1]
    places, means, _ = binned(inner, losses, POINTS)
    ends = known.curve.updates[-1:], known.curve.losses[-1:]
    curve = Curve(np.concatenate([places, ends[0]]), np.concatenate([means, ends[1]]))
    return replace(known, curve=curve)


def stepped(steps: Array) -> Prior:
    numbers = SPREADS | {"typical_parameters": TYPICAL_PARAMETERS}
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
            error = 100 * abs(float(made.median[-1]) / known.final - 1)
            spread = 100 * float(made.spread[-1]) / known.final
            scores.append(_surprise(error, spread) + OF_ERROR * np.log(error + SMALLEST_ERROR))
    return float(np.mean(scores)) if scores else 0.0


def _surprise(error: float, spread: float) -> float:
    return float(np.log(spread) + (DEGREES + 1) / 2 * np.log1p((error / spread) ** 2 / DEGREES))


def calibrated(prior_for: Callable[[Known], Prior], curves: Sequence[Known]) -> dict[str, float]:
    """Return SPREADS by the errors of forecasts whose priors were learned without the curves."""
    known_ends = [
        (known, share, prior, made)
        for known in curves
        for share in PREFIXES
        for prior in (prior_for(known),)
        if (made := extrapolated_end(known, share, prior)) is not None
    ]
    if not known_ends:
        return dict(SPREADS)
    weights = np.array([_weight(known, curves) for known, *_ in known_ends])
    start = np.log(list(SPREADS.values()))
    to_student = Z80 / float(student.ppf(0.9, DEGREES))

    def spreads(numbers: dict[str, float]) -> list[float]:
        return [float(made.spread(replace(prior, **numbers))[0]) for _, _, prior, made in known_ends]

    def cost(logs: Array) -> float:
        numbers = dict(zip(SPREADS, np.exp(logs).tolist(), strict=True))
        scores = [
            _surprise(known.final - float(made.median[0]), spread * to_student)
            for (known, _, _, made), spread in zip(known_ends, spreads(numbers), strict=True)
        ]
        return float(np.average(scores, weights=weights))

    found = minimize(cost, start, method="Nelder-Mead", options={"maxfev": 900, "adaptive": True}).x
    numbers = dict(zip(SPREADS, np.exp(found).tolist(), strict=True))
    for _ in range(5):  # the noise of an evaluation is not scaled, so that it takes a few
        ratios = [
            abs(float(made.median[0]) - known.final) / (Z80 * spread)
            for (known, share, _, made), spread in zip(known_ends, spreads(numbers), strict=True)
            if share >= CALIBRATED_FROM
        ]
        factor = float(np.quantile(ratios, WANTED))
        numbers |= {name: factor * numbers[name] for name in SCALED}
    return numbers


def extrapolated_end(known: Known, share: float, prior: Prior) -> Extrapolation | None:
    points = points_of(known.curve.until(share * known.last), known.schedule)
    if points is None:
        return None
    return extrapolated(points, known.schedule, np.array([known.last]), prior.of_size(known.parameters))


def forecast_end(known: Known, share: float, prior: Prior) -> Prediction | None:
    """Forecast the end, which is the last place, from the first part; as `analysis/forecast.py` does."""
    seen = known.curve.until(share * known.last)
    if not len(seen.updates):
        return None
    done = float(max(seen.updates[-1], seen.train_updates[-1:].max(initial=0.0)))
    reach, prior = reach_of(seen, done), prior.of_size(known.parameters)
    places = np.array([done, known.last] if is_far(known.last, reach) else [known.last])
    made = predict(seen, known.schedule, places, prior)
    if made is None or len(places) == 1:
        return made
    return beyond(made, reach, _size(known, done, made))


def _size(known: Known, done: float, made: Prediction) -> SizeLaw | None:
    if known.parameters is None or known.tokens_per_iter is None:
        return None
    now, then = (
        law_for(known.parameters, at * known.tokens_per_iter, known.dataset) for at in (done, known.last)
    )
    return then.beside(now, float(made.median[0]), known.last / done)


def numbers_of(prior: Prior) -> dict[str, float]:
    numbers = asdict(prior)
    numbers |= numbers.pop("shape")
    return {key: float(f"{value:.6g}") for key, value in numbers.items()}
