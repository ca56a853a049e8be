"""Where a run will end, when, and what it takes: a question to one account, and an answer with its basis."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from nanodyno.analysis.account import Account
from nanodyno.analysis.forecast_far import FarForecast, beyond, is_far, reach_of, size_of_run
from nanodyno.analysis.forecast_fit import Z80, Prediction, Prior, predict, shipped_prior
from nanodyno.analysis.forecast_law import Array
from nanodyno.analysis.forecast_overfit import (
    Death,
    death_of,
    diverging_since,
    minimum_of,
    recovered,
    risen,
    risk_of_repeating,
)
from nanodyno.analysis.forecast_plan import (
    MOST_UPDATES,
    ForecastSchedule,
    IterationTimes,
    curve_of,
    even,
    iterations_of,
    plan_of,
    schedule_of,
    schedules_open_to,
)
from nanodyno.analysis.forecast_points import Curve
from nanodyno.analysis.forecast_siblings import Sibling, predict_beside
from nanodyno.analysis.forecast_size import SizeLaw, parameters_of, size_law
from nanodyno.analysis.forecast_warnings import Warned, warned
from nanodyno.analysis.growth import BatchGrowth
from nanodyno.errors import NanodynoError
from nanodyno.records.imported import Setting

FARTHEST_OF_TWO = 10
"""Times the way so far that two losses say something of."""
PLACES = 80
"""Of the band in a picture, and between which a target is looked for."""
ForecastBasis = Literal["curve", "curve-without-schedule", "siblings", "overfitting", "size", "ended", "dead"]

OF_CURVE: tuple[ForecastBasis, ...] = ("curve", "curve-without-schedule")


@dataclass(frozen=True)
class ForecastQuestion:
    """At most one of tokens, iterations and hours; without any, the end of the run."""

    tokens: float | None = None
    iterations: int | None = None
    hours: float | None = None
    """From now."""
    until_loss: float | None = None
    changes: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """Of the schedule, from here on."""

    @property
    def place(self) -> float | None:
        """How far, in whatever was asked; None for the end of the run."""
        return self.tokens or self.iterations or self.hours


@dataclass(frozen=True)
class ForecastLoss:
    median: float
    low: float
    high: float
    """80% lie between."""

    @property
    def spread(self) -> float:
        return (self.high - self.low) / (2 * Z80)


@dataclass(frozen=True)
class ForecastBand:
    updates: Array
    median: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class MeasuredLoss:
    """A loss that was measured, after so many iterations."""

    iterations: int
    loss: float


@dataclass(frozen=True)
class TargetReached:
    """The first place where the median is at the target; None: not before the end asked about."""

    loss: float
    iterations: int | None
    likely_iterations: int | None
    """Where nine in ten have reached it."""
    seen_loss: float | None
    """Where it lies behind: what was measured there."""


@dataclass(frozen=True)
class Forecast:
    name: str
    basis: ForecastBasis
    iterations_done: int
    iterations: int
    """That the answer is about."""
    expected: ForecastLoss | None
    """None for a run that is dead."""
    tokens: float | None
    seconds: float | None
    """Until then, at the run's own pace."""
    pace: IterationTimes | None
    plan: ForecastSchedule | None
    growth: BatchGrowth | None
    band: ForecastBand | None
    reached: TargetReached | None
    size: SizeLaw | None
    prediction: Prediction | None
    warned: tuple[Warned, ...]
    points: int
    of_train: bool
    """Of the training loss: the run has no evaluations."""
    lowest: MeasuredLoss | None = None
    """Of those so far; of a run that overfits, the minimum."""
    siblings: tuple[str, ...] = ()
    """Names of the finished runs that the forecast rests on beside its own curve."""
    dead: Death | None = None
    raised: float = 0.0
    """Nats added to the upper end, because the data will be repeated or the loss rises."""
    measured: MeasuredLoss | None = None
    """The loss of a place that it has come to already."""
    far: FarForecast | None = None
    """Where the answer lies beyond what a curve says alone."""

    @property
    def final(self) -> ForecastLoss:
        """Of a run that is not dead."""
        assert self.expected is not None
        return self.expected

    @property
    def at(self) -> int:
        """The iteration of the loss that is the answer."""
        return self.iterations if self.measured is None else self.measured.iterations

    @property
    def is_over(self) -> bool:
        """Whether the run has come to its own end."""
        return self.plan is not None and self.plan.max_iters <= self.iterations_done


def forecast(
    account: Account,
    question: ForecastQuestion,
    pace: IterationTimes | None,
    prior: Prior | None = None,
    siblings: Sequence[Sibling] = (),
) -> Forecast:
    """Answer a question about one run: by its curve, beside those of its finished siblings where there are.

    The size of the model answers only where there is no curve. A dead run has no forecast.
    """
    plan = plan_of(account, question.changes)
    done, growth = account.iterations, account.growth
    curve = _curve_in_nats(account)
    behind = None if question.until_loss is None else _behind(account, curve, question.until_loss)
    end = _end(account, question, plan, pace, behind)
    tokens = None if growth is None else float(growth.tokens(end))
    size = size_law(account, tokens) if tokens else None
    at = [int(each) for each in np.unique(np.round(np.geomspace(max(done, 1), max(end, done, 1), PLACES)))]
    places = np.array([even(account, each) for each in at], dtype=np.float64)
    sized = (prior or shipped_prior()).of_size(parameters_of(account))
    reported = np.isfinite(curve.losses)
    dead, prediction, raised = death_of(account, curve), None, 0.0
    band, final, measured, far = None, None, None, None
    basis: ForecastBasis = "dead"
    if dead is None and end <= done and reported.any():
        measured, basis = _latest(account, curve, end), "ended"
        final = ForecastLoss(measured.loss, measured.loss, measured.loss)
    elif dead is None:
        prediction, basis, rise = _predicted_or_risen(account, curve, plan, places, sized, siblings)
        if prediction is not None and prediction.points == 2 and end > FARTHEST_OF_TWO * done:
            prediction = None
        prediction, far = _drawn_to_size(account, curve, prediction, basis, end)
        if prediction is None and size is None:
            raise _too_little(account, curve, plan)
        if prediction is None and size is not None:
            final, basis = by_size(size), "size"
        if prediction is not None:
            risk = 0.0 if basis == "overfitting" else risk_of_repeating(account, end)
            high = np.maximum(prediction.high + risk * _way(places), rise)
            raised = float(high[-1] - prediction.high[-1])
            band = ForecastBand(np.array(at, dtype=np.float64), prediction.median, prediction.low, high)
            final = ForecastLoss(*(float(each[-1]) for each in (band.median, band.low, band.high)))
    return Forecast(
        account.name, basis, done, end, final, tokens,
        None if pace is None else pace.seconds_between(done, end, growth), pace, plan, growth, band,
        _reached(question.until_loss, behind, band, final, end),
        size, prediction, warned(account, curve, plan), int(reported.sum()), not account.evals,
        _lowest(account, curve), tuple(each.name for each in siblings) if basis == "siblings" else (), dead,
        raised, measured, far,
    )  # fmt: skip


def _curve_in_nats(account: Account) -> Curve:
    curve = curve_of(account)
    if (curve.losses < 0).any():
        raise NanodynoError(
            f"{account.name}: a loss of {np.nanmin(curve.losses):.3g} is below 0, so no cross-entropy",
            "a forecast needs losses in nats per token",
        )
    return curve


def _predicted_or_risen(
    account: Account,
    curve: Curve,
    plan: ForecastSchedule | None,
    places: Array,
    prior: Prior,
    siblings: Sequence[Sibling],
) -> tuple[Prediction | None, ForecastBasis, Array]:
    """Forecast a loss that may be diverging as if it recovered; and return where it comes if it does not."""
    rising = diverging_since(account, curve, plan)
    if rising is None:
        return *_predicted(account, curve, plan, places, prior, siblings), np.zeros(len(places))
    falling = curve.until(rising.updates)
    prediction, basis = _predicted(account, falling, plan, places, prior, siblings)
    if prediction is None:
        prediction = recovered(curve, rising, places)
    return prediction, basis, risen(curve, rising, places).high


def _predicted(
    account: Account,
    curve: Curve,
    plan: ForecastSchedule | None,
    places: Array,
    prior: Prior,
    siblings: Sequence[Sibling],
) -> tuple[Prediction | None, ForecastBasis]:
    best = minimum_of(account, curve)
    if best is not None:
        return risen(curve, best, places), "overfitting"
    last = math.ceil(places[-1])
    if plan is not None:
        schedule = schedule_of(account, plan, last, plan_of(account))
        beside = predict_beside(curve, schedule, places, siblings, prior) if siblings else None
        if beside is not None:
            return beside, "siblings"
        return predict(curve, schedule, places, prior), "curve"
    ways = [predict(curve, each, places, prior) for each in schedules_open_to(account, last)]
    found = [each for each in ways if each is not None]
    return (_any_of(found), "curve-without-schedule") if found else (None, "curve")


def _drawn_to_size(
    account: Account, curve: Curve, made: Prediction | None, basis: ForecastBasis, end: int
) -> tuple[Prediction | None, FarForecast | None]:
    """Return a curve's forecast with what its distance changes, and what it was drawn to."""
    reach = reach_of(curve, even(account, account.iterations))
    if made is None or basis not in OF_CURVE or not is_far(even(account, end), reach):
        return made, None
    size = size_of_run(account, made, end)
    return beyond(made, reach, size), FarForecast(size)


def _any_of(ways: Sequence[Prediction]) -> Prediction:
    """As wide as from the lowest of their ends to the highest."""
    low = np.min([each.low for each in ways], axis=0)
    high = np.max([each.high for each in ways], axis=0)
    return replace(ways[0], median=(low + high) / 2, spread=(high - low) / (2 * Z80))


def by_size(size: SizeLaw) -> ForecastLoss:
    return ForecastLoss(size.median, size.median - Z80 * size.spread, size.median + Z80 * size.spread)


def _end(
    account: Account,
    question: ForecastQuestion,
    plan: ForecastSchedule | None,
    pace: IterationTimes | None,
    behind: MeasuredLoss | None,
) -> int:
    """The number of updates that is asked about; so far, where all that is asked for lies behind."""
    if question.iterations is not None:
        end = question.iterations
    elif question.tokens is not None:
        if account.growth is None:
            raise NanodynoError(
                f"{account.name}: the tokens per iteration are unknown",
                "use --iters, or import it with --set tokens_per_iter=524288",
            )
        end = account.growth.iterations(question.tokens)
    elif question.hours is not None:
        if pace is None:
            raise NanodynoError(
                f"{account.name}: its speed is unknown, so --hours cannot be used", "use --tokens or --iters"
            )
        end = _reached_in(question.hours * 3600, account, pace)
    elif behind is not None and plan is None and "max_iters" not in account.settings:
        end = account.iterations
    else:
        end = _planned_end(account, question, plan)
    if not 1 <= end <= MOST_UPDATES or even(account, end) > MOST_UPDATES:
        raise NanodynoError(f"{end:,} iterations cannot be forecast", f"from 1 to {MOST_UPDATES:,} are")
    return end


def _reached_in(seconds: float, account: Account, pace: IterationTimes) -> int:
    """Iterations done by then."""
    done, growth = account.iterations, account.growth
    longer = range(done, done + int(seconds / pace.iteration_seconds) + 1)
    taken = bisect_right(longer, seconds, key=lambda end: pace.seconds_between(done, end, growth))
    return done + taken - 1


def _planned_end(account: Account, question: ForecastQuestion, plan: ForecastSchedule | None) -> int:
    if plan is not None:
        return plan.max_iters
    planned = question.changes.get("max_iters", account.settings.get("max_iters"))
    if not isinstance(planned, int | float):
        raise NanodynoError(
            f"{account.name}: the end of the run and its learning-rate schedule are unknown",
            "give --tokens, --iters, or the whole schedule: --set max_iters=19000 --set lr_decay_iters=19000",
        )
    return int(planned)


def _too_little(account: Account, curve: Curve, plan: ForecastSchedule | None) -> NanodynoError:
    warmup = 0 if plan is None else plan.warmup_iters
    count = int((np.isfinite(curve.losses) & (curve.updates >= max(warmup, 1))).sum())
    few = "one evaluation after the warm-up is too little"
    if count != 1:
        few = f"{count} evaluations after the warm-up are too few"
    return NanodynoError(
        f"{account.name}: {few} for a forecast, and its size or its tokenizer is not one that a law is known "
        "for",
        "three evaluations after the warm-up are enough, and two from a tenth of the run on",
    )


def _behind(account: Account, curve: Curve, target: float) -> MeasuredLoss | None:
    """Where a loss as low as the target was first measured."""
    low = np.nonzero(curve.losses <= target)[0]
    return _seen(account, curve, int(low[0])) if len(low) else None


def _way(places: Array) -> Array:
    """The shares of the way from the first to the last."""
    return (places - places[0]) / max(places[-1] - places[0], 1.0)


def _latest(account: Account, curve: Curve, end: int) -> MeasuredLoss:
    """The last loss measured by then."""
    until = np.nonzero(np.isfinite(curve.losses) & (curve.updates <= even(account, end)))[0]
    if not len(until):
        first = iterations_of(account, float(curve.updates[np.isfinite(curve.losses)][0]))
        raise NanodynoError(
            f"{account.name}: no loss was measured by iteration {end:,}",
            f"the first is of iteration {first:,}",
        )
    return _seen(account, curve, int(until[-1]))


def _lowest(account: Account, curve: Curve) -> MeasuredLoss | None:
    if not np.isfinite(curve.losses).any():
        return None
    return _seen(account, curve, int(np.nanargmin(curve.losses)))


def _seen(account: Account, curve: Curve, at: int) -> MeasuredLoss:
    return MeasuredLoss(iterations_of(account, float(curve.updates[at])), float(curve.losses[at]))


def _reached(
    target: float | None,
    behind: MeasuredLoss | None,
    band: ForecastBand | None,
    final: ForecastLoss | None,
    end: int,
) -> TargetReached | None:
    if target is None or (final is None and behind is None):
        return None
    if behind is not None:
        return TargetReached(target, behind.iterations, behind.iterations, behind.loss)
    if band is None or final is None:
        reached = final is not None and final.median <= target
        return TargetReached(target, end if reached else None, None, None)
    first, likely = _first(band, band.median, target), _first(band, band.high, target)
    return TargetReached(target, first, likely, None)


def _first(band: ForecastBand, losses: Array, target: float) -> int | None:
    """Between two places on the straight line."""
    below = np.nonzero(losses <= target)[0]
    if not len(below):
        return None
    at = int(below[0])
    if at == 0:
        return int(band.updates[0])
    (x0, x1), (y0, y1) = band.updates[at - 1 : at + 1], losses[at - 1 : at + 1]
    return math.ceil(x0 + (x1 - x0) * (y0 - target) / (y0 - y1))
