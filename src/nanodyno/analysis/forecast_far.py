"""Forecasts beyond five times a curve: wider, and drawn to what the model's size and tokens suggest.

Up to five times nothing changes: the prior's spreads were learned there. Beyond, errors outgrow the spreads
that a curve gives itself (docs/log/2026-11-forecast.md).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from nanodyno.analysis.account import Account
from nanodyno.analysis.forecast_fit import Prediction
from nanodyno.analysis.forecast_points import Curve
from nanodyno.analysis.forecast_size import SizeLaw, size_law

NEAR, FULL = 5.0, 10.0
"""Times the curve: at the first the size law begins to count, from the second on it counts whole."""
WIDENING, WIDENING_ALONE = 0.25, 0.75
"""By which share a curve's own spread grows, for each e-fold beyond NEAR: beside the law, and without it."""
OFF_LAW = 0.125
"""Nats by which ends scatter around the law at the run's own level, for each e-fold beyond NEAR. Public
curves of one size scatter by 0.03 at 11 times the tokens and by 0.12 at 38 (docs/log)."""


@dataclass(frozen=True)
class FarForecast:
    """That an answer lies beyond NEAR, and the law that it was drawn to."""

    size: SizeLaw | None
    """None where the size, the tokens or the level of the tokenizer are not known: then it is only wider."""


def reach_of(curve: Curve, done: float) -> float:
    """Return how far a curve has come: to its next loss, which is not there yet."""
    places = np.unique(np.concatenate([curve.updates, curve.train_updates]))
    return max(done + 1, float(2 * places[-1] - places[-2])) if len(places) > 1 else done + 1


def is_far(end: float, reach: float) -> bool:
    return end > NEAR * reach


def size_of_run(account: Account, made: Prediction, end: int) -> SizeLaw | None:
    """Return what the size says of the end, for a run that has come to the prediction's first loss."""
    growth, done = account.growth, account.iterations
    if growth is None or done < 1:
        return None
    tokens, at_end = float(growth.tokens(done)), float(growth.tokens(end))
    now, then = size_law(account, tokens), size_law(account, at_end)
    return None if now is None or then is None else then.beside(now, float(made.median[0]), at_end / tokens)


def beyond(made: Prediction, reach: float, size: SizeLaw | None) -> Prediction:
    """Return a prediction widened by distance and combined with the size law by precision.

    Its first place is where the run is, its last the one that is asked about. The law speaks of that one; the
    places between move in proportion to their spreads.
    """
    far = np.log(np.maximum(made.updates / (NEAR * reach), 1.0))
    end = float(far[-1])
    if end == 0:
        return made
    if size is None:
        return replace(made, spread=made.spread * (1 + WIDENING_ALONE * far))
    spread = made.spread * (1 + WIDENING * far)
    weight = min(end / math.log(FULL / NEAR), 1.0)
    own, law = float(spread[-1]) ** -2, weight / math.hypot(size.spread, OFF_LAW * end) ** 2
    moved = law / (own + law) * (size.median - float(made.median[-1]))
    way = np.log(made.updates / made.updates[0]) / math.log(made.updates[-1] / made.updates[0])
    return replace(
        made,
        median=made.median + moved * made.spread / made.spread[-1],
        spread=spread * math.sqrt(own / (own + law)) ** way,
    )
