"""Losses of runs side by side: at equal iterations, tokens, time and work, as far as both were trained."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nanodyno.analysis.account import Account, AccountEval

CurveAxis = Literal["iterations", "tokens", "seconds", "flops"]
AXES: tuple[CurveAxis, ...] = ("iterations", "tokens", "seconds", "flops")
ENOUGH_EVALS = 5
"""To judge the noise by."""
RECENT = 20
FARTHEST = 2.0
"""How many times the iterations of the one the other of two evaluations may have, between which is read."""
LARGEST = 1e30
"""A loss beyond it, as of a damaged log, is no number: its square would be none."""


@dataclass(frozen=True)
class LossAt:
    """`noise` is the standard deviation of one evaluation, judged by the curve; None: too few to judge."""

    loss: float
    noise: float | None
    slope: float = 0.0
    """Nats per unit of the logarithm of the place, by the evaluations around it."""


@dataclass(frozen=True)
class LossesAt:
    axis: CurveAxis
    at: float
    losses: dict[str, LossAt]
    kind: Literal["val", "train"] = "val"
    """Training losses are smoothed."""


def per_iteration(account: Account, axis: CurveAxis) -> float | None:
    """How far an iteration of tokens_per_iter moves on this axis: time at the latest steady pace."""
    tokens, work = account.tokens_per_iter, account.reference.flops_per_token
    seconds = account.speed.iteration_seconds
    if axis == "iterations":
        return 1.0
    if axis == "tokens":
        return tokens
    if axis == "seconds":
        return None if seconds is None else account.in_tokens_per_iter(seconds.value)
    return None if tokens is None or work is None else float(tokens) * work


def losses_at_equal(accounts: Sequence[Account], axis: CurveAxis) -> LossesAt | None:
    """Val losses at the furthest place that all have reached and one was evaluated at.

    Runs without any stay out, as do those that tell perplexities; None where less than two are left.
    Untrained models all stand at one place, which is none.
    """
    moved = [
        (account, curve, pace)
        for account in accounts
        if not account.tells_perplexity
        if (pace := per_iteration(account, axis)) is not None
        if (curve := _curve_on(account, axis, pace))
    ]
    if len(moved) < 2:
        return None
    first = max(curve[0][0] * pace for _, curve, pace in moved)
    last = min(curve[-1][0] * pace for _, curve, pace in moved)
    places = [x * pace for _, curve, pace in moved for x, _ in curve if x and first <= x * pace <= last]
    for at in sorted(places, reverse=True):
        losses = {
            account.name: loss
            for account, curve, pace in moved
            if (loss := _loss(account, curve, at / pace)) is not None
        }
        if len(losses) == len(moved):
            return LossesAt(axis, at, losses)
    return None


def _curve_on(account: Account, axis: CurveAxis, pace: float) -> list[tuple[float, float]]:
    """By iterations, as if each were one of tokens_per_iter at the latest pace."""
    if axis == "iterations":
        return _curve(account.evals)
    if axis != "seconds" or len(account.speeds) < 2:
        return _curve(account.even_evals)
    places = ((account.seconds_after(at) or 0.0, loss) for at, loss in _curve(account.evals))
    return [(seconds / pace, loss) for seconds, loss in places]


def loss_on(account: Account, axis: CurveAxis, at: float) -> LossAt | None:
    """At a place of this axis; None where the run has no loss that can be read there."""
    pace = None if account.tells_perplexity else per_iteration(account, axis)
    curve = _curve_on(account, axis, pace) if pace else []
    return _loss(account, curve, at / pace) if curve and pace else None


def _loss(account: Account, curve: Sequence[tuple[float, float]], at: float) -> LossAt | None:
    value = _value(curve, at)
    return None if value is None else LossAt(value, noise_of(account.evals), _slope(curve, at))


def last_of_stretches(evals: Sequence[AccountEval]) -> list[float]:
    """Iterations up to which, from the evaluation before on, a loss can be read at every place."""
    places = [x for x, _ in _curve(evals)]
    ends = [x for x, following in itertools.pairwise(places) if following > FARTHEST * x]
    return [*ends, *places[-1:]]


def noise_of(evals: Sequence[AccountEval]) -> float | None:
    """Of one evaluation, judged by the last ones of the run.

    How far each lies off the line through its neighbours, less how far the next one does: a smooth curve
    bends by nearly as much at both, and what is left of the difference is noise. The untrained model is left
    out: the fall from it is steeper than any other.
    """
    recent = [point for point in _curve(evals) if point[0] > 0][-RECENT:]
    if len(recent) < ENOUGH_EVALS:
        return None
    bends = [_bend([x for x, _ in three]) for three in zip(recent, recent[1:], recent[2:], strict=False)]
    losses = [loss for _, loss in recent]
    squares: list[float] = []
    for at, (bend, following) in enumerate(itertools.pairwise(bends)):
        weights = [one - other for one, other in zip((*bend, 0.0), (0.0, *following), strict=True)]
        off = sum(weight * loss for weight, loss in zip(weights, losses[at : at + 4], strict=True))
        squares.append(off * off / sum(weight * weight for weight in weights))
    return math.sqrt(sum(squares) / len(squares))


def _bend(places: Sequence[float]) -> tuple[float, float, float]:
    """By what three losses are multiplied for the middle one's distance from the line through the others."""
    first, middle, last = map(_place, places)
    share = (last - middle) / (last - first)
    return -share, 1.0, share - 1


def _curve(evals: Sequence[AccountEval]) -> list[tuple[float, float]]:
    """Each iteration once (the later word counts), in order, numbers only."""
    last = {each.iteration: each.val_loss for each in evals if abs(each.val_loss) < LARGEST}
    return sorted((float(iteration), loss) for iteration, loss in last.items())


def _value(curve: Sequence[tuple[float, float]], at: float) -> float | None:
    """Between two evaluations on the straight line over the logarithm, along which losses fall.

    None where the two are too far apart for that: it would be a guess.
    """
    nearest = min(curve, key=lambda point: abs(point[0] - at))
    if math.isclose(nearest[0], at, rel_tol=1e-9):
        return nearest[1]
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x0 <= at <= x1 and x1 <= FARTHEST * x0:
            share = (_place(at) - _place(x0)) / (_place(x1) - _place(x0))
            return y0 + share * (y1 - y0)
    return None


def _slope(curve: Sequence[tuple[float, float]], at: float) -> float:
    """Between the two evaluations around the place; none where only the untrained model lies before it."""
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x0 > 0 and at <= x1 * (1 + 1e-9):
            return (y1 - y0) / math.log(x1 / x0)
    return 0.0


def _place(x: float) -> float:
    return math.log1p(x)


def are_of_other_text(one: Account, other: Account) -> bool:
    """By what both tell of it: files of one name may differ."""
    if one.data is not None and other.data is not None:
        return one.data.fingerprint != other.data.fingerprint
    return None not in (one.vocabulary, other.vocabulary) and one.vocabulary != other.vocabulary
