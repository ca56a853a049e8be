"""A run forecast beside its finished siblings: the mean of their curves is the law, nearly.

Siblings are runs of one recipe: the same model, data and shape of the schedule. Seeds may differ, and one
setting. At equal shares of the run, the loss is

    level + T + own * (T - T_now) + slope * (log s + fast / s) - drop * annealed

with T the mean of the siblings' curves and s the updates so far, each counted by its share of the peak rate.
All but the level are near 0: by how much was learned from public runs with siblings (docs/forecast.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nanodyno.analysis.account import Account
from nanodyno.analysis.changes import changes_between
from nanodyno.analysis.curves import are_of_other_text
from nanodyno.analysis.forecast_fit import Prediction, Prior, above_zero, walked
from nanodyno.analysis.forecast_law import Array, Schedule, annealed, elapsed
from nanodyno.analysis.forecast_overfit import death_of, minimum_of
from nanodyno.analysis.forecast_plan import KEYS, curve_of, even, plan_of, schedule_of
from nanodyno.analysis.forecast_points import Curve, points_of
from nanodyno.analysis.moves import OF_MACHINE
from nanodyno.records.imported import Setting

LONGER = 4 / 3
"""How many times as long as the run a sibling may be, or as short."""
ALIKE = 0.06
"""Shares of the peak rate may differ by so much at any share of the run."""
PLACES = 60
FEWEST_EVALS = 8
MOST_CHANGES = 1
"""Settings that move the loss, besides the seed and the schedule."""
FIRST = 0.02
"""Of a sibling's run: its curve is used from here on."""
SMALLEST_SLOPE = 0.05
OWN, SLOPE, FAST, DROP = 0.0125, 0.123, 0.650, 0.0328
"""Standard deviations between siblings; of slope and fast as shares of the slope, of the drop in nats."""
WANDER, ANNEAL_WANDER = 0.0977, 0.0081
"""Of the walk beside the siblings: by e-fold of updates as a share of the slope, by drop in nats."""
WIDTH = 0.28
"""By which spreads are multiplied, so that 80% intervals cover four fifths of the curves learned from."""


@dataclass(frozen=True)
class Sibling:
    """A finished run of the same recipe."""

    name: str
    curve: Curve
    schedule: Schedule


def siblings_of(
    account: Account, others: Sequence[Account], changes: Mapping[str, Setting] | None = None
) -> tuple[Sibling, ...]:
    """Return those of the other runs that have ended and are of the same recipe, with these changes."""
    plan = plan_of(account, changes)
    alike = [each for each in others if _same_recipe(account, each)]
    if plan is None or not alike:
        return ()
    ours = schedule_of(account, plan, round(even(account, plan.max_iters)))
    found = [_finished(each) for each in alike]
    return tuple(each for each in found if each is not None and are_alike(ours, each.schedule))


def _same_recipe(one: Account, other: Account) -> bool:
    if one.name == other.name or are_of_other_text(one, other) or not other.evals or not one.evals:
        return False
    for key in ("dataset", "n_layer", "n_embd"):
        if one.settings.get(key) is None or one.settings.get(key) != other.settings.get(key):
            return False
    if one.tokens_per_iter != other.tokens_per_iter:
        return False
    changed = changes_between(one, other).that_move("loss")
    free = {*KEYS, *OF_MACHINE, "seed"} - {"learning_rate"}
    return sum(each.key not in free and each.follows is None for each in changed) <= MOST_CHANGES


def _finished(account: Account) -> Sibling | None:
    """None for a run that has not ended, is dead or overfits, or has too few evaluations."""
    plan, curve = plan_of(account), curve_of(account)
    usable = int(np.isfinite(curve.losses).sum())
    if plan is None or usable < FEWEST_EVALS or curve.updates[-1] < even(account, plan.max_iters) - 1:
        return None
    if death_of(account, curve) is not None or minimum_of(account, curve) is not None:
        return None
    return Sibling(account.name, curve, schedule_of(account, plan, round(even(account, plan.max_iters))))


def are_alike(one: Schedule, other: Schedule) -> bool:
    """Return whether two schedules have one shape over the whole run, and about one length."""
    if not 1 / LONGER <= one.updates / other.updates <= LONGER:
        return False
    at = np.linspace(FIRST, 1.0, PLACES)
    first, second = (each.shares[np.round(at * each.updates).astype(np.int64)] for each in (one, other))
    return bool(np.max(np.abs(first - second)) <= ALIKE)


def predict_beside(
    curve: Curve, schedule: Schedule, at: Array, siblings: Sequence[Sibling], prior: Prior
) -> Prediction | None:
    """Return the loss at places ahead; None with too few points, or beyond what the siblings show."""
    points = points_of(curve, schedule)
    if (
        points is None
        or points.is_train.any()
        or not any(are_alike(schedule, each.schedule) for each in siblings)
    ):
        return None
    n, places = len(points.updates), np.concatenate([points.updates, at])
    mean = np.mean([_curve_at(each, places / schedule.updates, prior) for each in siblings], axis=0)
    s, fallen = elapsed(schedule, places), annealed(schedule, places, prior.shape)
    since = np.log(s / s[n - 1])
    near = max(n - 3, 0)
    slope = max(float(mean[near] - mean[n - 1]) / max(-float(since[near]), 1e-6), SMALLEST_SLOPE)
    more = 1 + 1 / len(siblings)  # the mean of few siblings is as uncertain as they differ
    rows = np.stack([np.ones(len(s)), mean - mean[n - 1], since, s[n - 1] / s - 1, -fallen], axis=1)
    spreads = np.array([OWN, SLOPE * slope, FAST * slope, DROP])
    weight = np.diag(np.concatenate([[1e-8], spreads**-2 / more]))
    steps = (WANDER * slope) ** 2 * np.abs(np.diff(since)) + ANNEAL_WANDER**2 * np.abs(np.diff(fallen))
    walk = more * walked(steps)
    centre = np.array([0.0, 1.0, 0.0, 0.0, 0.0])
    level = float(points.losses.mean())
    losses = points.losses - level
    scatter = np.linalg.inv(walk[:n, :n] + more * np.diag(points.variances))
    covariance = np.linalg.inv(rows[:n].T @ scatter @ rows[:n] + weight)
    found = covariance @ (rows[:n].T @ scatter @ losses + weight @ centre)
    carried = walk[n:, :n] @ scatter
    median = level + rows[n:] @ found + carried @ (losses - rows[:n] @ found)
    change = rows[n:] - carried @ rows[:n]
    own = np.maximum(np.diag(walk)[n:] - (carried * walk[n:, :n]).sum(1), 0.0)
    variance = WIDTH**2 * (((change @ covariance) * change).sum(1) + own)
    spread = np.sqrt(variance + more * points.noise**2)
    return above_zero(Prediction(at, median, spread, points.spikes, n), points.losses, points.noise)


def _curve_at(sibling: Sibling, shares: Array, prior: Prior) -> Array:
    """Return a sibling's losses at these shares of its run, along the law between its evaluations."""

    def rows(updates: Array) -> Array:
        falls = elapsed(sibling.schedule, updates) ** -prior.exponent
        return np.stack(
            [np.ones(len(updates)), falls, annealed(sibling.schedule, updates, prior.shape)], axis=1
        )

    updates, losses, last = sibling.curve.updates, sibling.curve.losses, sibling.schedule.updates
    kept = np.isfinite(losses) & (updates >= max(sibling.schedule.peak_at, FIRST * last))
    updates, losses = updates[kept], losses[kept]
    weight = np.sqrt(np.clip(updates / last, 0.1, 1.0))
    fitted = np.linalg.lstsq(rows(updates) * weight[:, None], losses * weight, rcond=None)[0]
    off = losses - rows(updates) @ fitted
    at = shares * last
    return rows(at) @ fitted + np.interp(np.log(at), np.log(updates), off)
