"""What a run's losses show coming: divergence, a plateau, spikes, train and val parting, epochs repeating."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nanodyno.analysis.account import Account
from nanodyno.analysis.forecast_overfit import diverging_since, epochs_at, minimum_of
from nanodyno.analysis.forecast_plan import ForecastSchedule
from nanodyno.analysis.forecast_points import RECENT, Curve, noise_around
from nanodyno.schedule import learning_rate_at

Sign = Literal["diverging", "plateau", "spikes", "parting", "repeating", "not-finite", "uneven-evaluations"]
LATEST = 5
FLAT_SLOPE = 0.01
"""Nats per e-fold of updates: less at a full rate is a plateau."""
MANY_SPIKES = 0.01
PARTED = 0.1
"""Nats by which val has left train behind since they were closest."""
UNEVEN = 0.05
"""Nats of noise: a val loss on one set of tokens has a tenth of it."""


@dataclass(frozen=True)
class Warned:
    sign: Sign
    numbers: dict[str, float]


def warned(account: Account, curve: Curve, plan: ForecastSchedule | None) -> tuple[Warned, ...]:
    """In the order of urgency."""
    found = [*_not_finite(curve), *_of_val(account, curve, plan), *_spikes(curve)]
    found += [*_parting(account), *_repeating(account, plan)]
    return tuple(found)


def _not_finite(curve: Curve) -> Iterator[Warned]:
    broken = int((~np.isfinite(curve.losses)).sum() + (~np.isfinite(curve.train_losses)).sum())
    if broken:
        yield Warned("not-finite", {"count": broken})


def _of_val(account: Account, curve: Curve, plan: ForecastSchedule | None) -> Iterator[Warned]:
    finite = np.isfinite(curve.losses) & (curve.updates > 0)
    updates, losses = curve.updates[finite], curve.losses[finite]
    if len(losses) < LATEST + 1:
        return
    noise = noise_around(updates[-RECENT:], losses[-RECENT:])
    if minimum_of(account, curve) is not None:  # it overfits: that is an answer of its own
        return
    best = diverging_since(account, curve, plan)
    if best is not None:
        latest = float(losses[-1])
        yield Warned("diverging", {"best": best.loss, "loss": latest, "rise": latest - best.loss})
        return
    if noise > UNEVEN and account.foreign and account.evals:  # ours are all of the same tokens
        yield Warned("uneven-evaluations", {"noise": noise})
    slope = -float(np.polyfit(np.log(updates[-LATEST:]), losses[-LATEST:], 1)[0])
    reach = math.log(updates[-1] / updates[-LATEST])
    sure = reach > 0 and 2 * noise / reach < FLAT_SLOPE
    if sure and slope < FLAT_SLOPE and not _is_low(account, plan):
        yield Warned("plateau", {"slope": slope, "loss": float(losses[-1])})


def _is_low(account: Account, plan: ForecastSchedule | None) -> bool:
    """At the end of a decay a curve is flat by intention."""
    return plan is None or learning_rate_at(plan, account.iterations) < 0.5 * plan.learning_rate


def _spikes(curve: Curve) -> Iterator[Warned]:
    """Batches whose loss leaps above those around it, by ten times what those scatter by."""
    losses = curve.train_losses[np.isfinite(curve.train_losses)][-500:]
    if len(losses) < 50:
        return
    around = np.median(np.stack([np.roll(losses, shift) for shift in (-3, -2, -1, 1, 2, 3)]), axis=0)
    off = (losses - around)[3:-3]
    scatter = float(np.median(np.abs(off))) / 0.6745
    count = int((off > max(10 * scatter, 0.1)).sum())
    if count > max(1, MANY_SPIKES * len(losses)):
        yield Warned("spikes", {"count": count, "of": len(losses)})


def _parting(account: Account) -> Iterator[Warned]:
    """By evaluations that have both."""
    gaps = [
        each.val_loss - each.train_loss
        for each in account.evals
        if each.train_loss is not None
        and each.iteration > 0
        and math.isfinite(each.val_loss - each.train_loss)
    ]
    if len(gaps) > LATEST and gaps[-1] - min(gaps) > PARTED and gaps[-1] > gaps[-LATEST]:
        yield Warned("parting", {"gap": gaps[-1], "smallest": min(gaps)})


def _repeating(account: Account, plan: ForecastSchedule | None) -> Iterator[Warned]:
    epochs = None if plan is None else epochs_at(account, plan.max_iters)
    if epochs is not None and epochs > 1.05 and account.data is not None:
        yield Warned("repeating", {"epochs": epochs, "tokens": float(account.data.train_tokens)})
