"""Smoothed training losses at equal time, for runs whose val losses do not meet there."""

import math
import statistics
from collections.abc import Sequence

from nanodyno.analysis.account import Account
from nanodyno.analysis.curves import LARGEST, LossAt, LossesAt

WINDOW = 1.25
"""Losses up to this factor of time before and after a place are smoothed; over so little a curve is straight
in the logarithm of time."""
ENOUGH_LOSSES = 8
"""In the window, for a residual scatter."""


def train_losses_at_equal_time(accounts: Sequence[Account]) -> LossesAt | None:
    """Return smoothed training losses at the latest time that all have reached.

    Runs without any stay out. None where fewer than two are left, or one has too few losses there.
    """
    known = {
        each.name: points for each in accounts if not each.tells_perplexity and (points := train_points(each))
    }
    if len(known) < 2:
        return None
    at = min(points[-1][0] for points in known.values())
    losses = {name: loss for name, points in known.items() if (loss := smoothed(points, at)) is not None}
    return LossesAt("seconds", at, losses, "train") if len(losses) == len(known) else None


def train_points(account: Account) -> list[tuple[float, float]]:
    """Return the logged training losses by seconds of training; none where no time is known."""
    points = [
        (seconds, step.loss)
        for step in account.steps
        if step.loss is not None and abs(step.loss) < LARGEST
        if (seconds := account.seconds_after(step.iteration + 1)) is not None and seconds > 0
    ]
    return sorted(points)


def smoothed(points: Sequence[tuple[float, float]], at: float) -> LossAt | None:
    """Return the value at a place of the line through the losses around it, over the logarithm of time.

    Its noise is the standard error of that value, by the residual scatter. None with too few losses.
    """
    near = [(math.log(x / at), loss) for x, loss in points if at / WINDOW <= x <= at * WINDOW]
    if len(near) < ENOUGH_LOSSES:
        return None
    places = [place for place, _ in near]
    if max(places) == min(places):
        return None
    slope, loss = statistics.linear_regression(places, [loss for _, loss in near])
    residuals = math.fsum((value - loss - slope * place) ** 2 for place, value in near)
    center = statistics.fmean(places)
    lever = 1 / len(near) + center**2 / math.fsum((place - center) ** 2 for place in places)
    return LossAt(loss, math.sqrt(residuals / (len(near) - 2) * lever), slope)
