"""Curves that no law of falling losses fits: a run that overfits, and a run that is dead."""

import math
from dataclasses import dataclass

import numpy as np

from nanodyno.analysis.account import Account
from nanodyno.analysis.forecast_fit import Prediction, above_zero
from nanodyno.analysis.forecast_law import Array
from nanodyno.analysis.forecast_plan import ForecastSchedule, iterations_of
from nanodyno.analysis.forecast_points import RECENT, Curve, noise_around
from nanodyno.schedule import learning_rate_at

RISE = 4.0
"""In standard deviations of a val loss: above the best by so much, and rising, is no noise."""
SMALLEST_RISE = 0.02
RISE_SPREAD = 0.8
"""Standard deviation of the rise ahead, as a share of it: it went on at 0.6 to 2 times its recent rate in
trainings of our own (docs/log)."""
OF_RISE = 3
"""The rate is that of the last third of the losses since the best, FEWEST_OF_RISE at least."""
FEWEST_OF_RISE = 4
HARMLESS_EPOCHS = 4.0
"""Repeated so often, data bring nearly what fresh data do (Muennighoff et al. 2023)."""
PER_FOLD = 0.8
"""Nats by which a val loss may end higher for each e-fold of epochs beyond the harmless ones, if all of the
run is ahead: three trainings of our own ended 0.5 to 1.6 above their curve so far (docs/log)."""
DEAD_LOSSES = 2
"""So many losses at the end of a log that are NaN/inf, or one evaluation, mean that the run is dead."""
STUCK_EVALS = 3
NEAR_GUESSING = 0.9
"""A first loss above this share of ln of the vocabulary is that of an untrained model."""
NO_PRETRAINED = 5.0
"""Where the vocabulary is not known: a model that was trained before begins below it."""


@dataclass(frozen=True)
class SeenLoss:
    """A loss that was measured, after so many updates."""

    updates: float
    loss: float


@dataclass(frozen=True)
class Death:
    """From where on a run has no loss worth a forecast."""

    updates: float
    last_good: SeenLoss | None
    untrained_loss: float | None
    """Of a run whose losses stay at or above it; None where they are NaN/inf."""


def death_of(account: Account, curve: Curve) -> Death | None:
    """Return where a run died: every later loss is NaN/inf, or the latest are above the untrained loss."""
    places = np.concatenate([curve.updates, curve.train_updates])
    losses = np.concatenate([curve.losses, curve.train_losses])
    order = np.argsort(places, kind="stable")
    places, losses = places[order], losses[order]
    finite = np.nonzero(np.isfinite(losses))[0]
    first = int(finite[-1]) + 1 if len(finite) else 0
    of_evals = len(curve.losses) > 0 and not math.isfinite(curve.losses[-1])
    broken = len(losses) - first
    if broken >= DEAD_LOSSES or (broken and of_evals and account.evals):
        good = SeenLoss(float(places[first - 1]), float(losses[first - 1])) if first else None
        return Death(float(places[first]), good, None)
    return None if minimum_of(account, curve) is not None else _stuck(account, curve)


def _stuck(account: Account, curve: Curve) -> Death | None:
    kept = np.isfinite(curve.losses)
    places, losses = curve.updates[kept], curve.losses[kept]
    untrained = _untrained_loss(account)
    if untrained is None or not account.evals:
        return None
    warmup = account.settings.get("warmup_iters")
    after = int((places > (warmup if isinstance(warmup, int | float) else 0)).sum())
    good = np.nonzero(losses < untrained)[0]
    first = int(good[-1]) + 1 if len(good) else int(places[0] == 0) if len(places) else 0
    if min(after, len(losses) - first) < STUCK_EVALS:
        return None
    last = SeenLoss(float(places[good[-1]]), float(losses[good[-1]])) if len(good) else None
    return Death(float(places[first]), last, untrained)


def _untrained_loss(account: Account) -> float | None:
    """As evaluated before the first update of a model that begins untrained, else that of guessing evenly."""
    guessing = math.log(account.vocabulary) if account.vocabulary else None
    before = [each.val_loss for each in account.evals if each.iteration == 0]
    if not before or not math.isfinite(before[0]):
        return guessing
    least = NO_PRETRAINED if guessing is None else NEAR_GUESSING * guessing
    return before[0] if before[0] >= least else guessing


def epochs_at(account: Account, iterations: int) -> float | None:
    """Return how often the training data were seen by then; None where their tokens are not known."""
    tokens = None if account.data is None else account.data.train_tokens
    return account.growth.tokens(iterations) / tokens if tokens and account.growth is not None else None


def minimum_of(account: Account, curve: Curve) -> SeenLoss | None:
    """Return the lowest val loss of a run that overfits: it rises since, while the train loss falls."""
    best = _best_before_rise(curve) if account.evals else None
    return best if best is not None and _train_falls(account, curve, best.updates) else None


def diverging_since(account: Account, curve: Curve, plan: ForecastSchedule | None) -> SeenLoss | None:
    """Return the lowest loss of a run that rises since, neither by overfitting nor because its rate rose."""
    best = _best_before_rise(curve)
    if best is None or minimum_of(account, curve) is not None:
        return None
    then, now = (
        None if plan is None else learning_rate_at(plan, iterations_of(account, updates))
        for updates in (best.updates, float(curve.updates[-1]))
    )
    return None if then is not None and now is not None and now > then else best


def _best_before_rise(curve: Curve) -> SeenLoss | None:
    """The lowest loss, where the latest lies above it by more than noise."""
    kept = np.isfinite(curve.losses) & (curve.updates > 0)
    updates, losses = curve.updates[kept], curve.losses[kept]
    if len(losses) < FEWEST_OF_RISE + 2:
        return None
    best, last = int(np.argmin(losses)), len(losses) - 1
    noise = noise_around(updates[-RECENT:], losses[-RECENT:])
    if last - best < 2 or losses[-1] - losses[best] <= max(SMALLEST_RISE, RISE * noise):
        return None
    return SeenLoss(float(updates[best]), float(losses[best]))


def _train_falls(account: Account, curve: Curve, since: float) -> bool:
    """By evaluations of the training data, else by the batches; without either by data seen often."""
    evaluated = [each.train_loss for each in account.evals if each.train_loss is not None]
    if len(evaluated) == len(account.evals):
        at_best = int(np.nonzero(curve.updates == since)[0][-1])
        return evaluated[-1] < evaluated[at_best]
    kept = np.isfinite(curve.train_losses)
    places, losses = curve.train_updates[kept], curve.train_losses[kept]
    before, after = losses[places <= since], losses[places > since]
    if min(len(before), len(after)) >= FEWEST_OF_RISE:
        window = max(FEWEST_OF_RISE, len(after) // OF_RISE)
        return float(np.median(after[-window:])) < float(np.median(before[-window:]))
    return (epochs_at(account, account.iterations) or 0.0) > HARMLESS_EPOCHS


def risen(curve: Curve, best: SeenLoss, at: Array) -> Prediction:
    """Forecast a val loss that rises: on at about its recent rate, which is all that is known of it."""
    kept = np.isfinite(curve.losses) & (curve.updates >= best.updates)
    updates, losses = curve.updates[kept], curve.losses[kept]
    count = min(len(losses), max(FEWEST_OF_RISE, len(losses) // OF_RISE))
    apart: Array = updates[-count:] - updates[-count:].mean()
    rate = float(apart @ losses[-count:]) / float(apart @ apart)
    level = float(losses[-count:].mean()) + rate * float(apart[-1])
    rise = max(rate, 0.0) * (at - updates[-1])
    off = losses[-count:] - level - rate * (apart - apart[-1])
    noise = max(noise_around(updates[-RECENT:], losses[-RECENT:]), math.sqrt(off @ off / max(count - 2, 1)))
    of_line = noise**2 * (1 + 1 / count + (apart[-1] + at - updates[-1]) ** 2 / float(apart @ apart))
    made = Prediction(at, level + rise, np.sqrt((RISE_SPREAD * rise) ** 2 + of_line), 0)
    return above_zero(made, losses, noise)


def recovered(curve: Curve, best: SeenLoss, at: Array) -> Prediction:
    """Forecast a loss that rises from its start on: back to its best, as unsure as it rose."""
    losses = curve.losses[np.isfinite(curve.losses)]
    median, spread = np.full(len(at), best.loss), np.full(len(at), float(losses[-1]) - best.loss)
    return above_zero(Prediction(at, median, spread, 0, len(losses)), losses, SMALLEST_RISE)


def risk_of_repeating(account: Account, iterations: int) -> float:
    """Return by how many nats the upper end of an interval is raised, because data will be repeated."""
    ahead = epochs_at(account, iterations)
    rest = max(1 - account.iterations / max(iterations, 1), 0.0)
    return PER_FOLD * rest * math.log(max(ahead / HARMLESS_EPOCHS, 1.0)) if ahead else 0.0
