"""Runs side by side: derived facts, losses at equal tokens, time and work, and who is ahead on what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.analysis.account import Account
from nanodyno.analysis.changes import Changes, changes_between
from nanodyno.analysis.curves import AXES, WIDE, LossAt, LossesAt, losses_at_equal
from nanodyno.analysis.statistics import Interval

Better = Literal["higher", "lower"] | None
CLOSE = 0.01
"""Means of one run each are not called apart below this: another start of the same run differs as much."""


@dataclass(frozen=True)
class ComparedMetric:
    name: str
    better: Better
    """None where neither is: a larger model is no better one."""
    values: dict[str, Interval]


@dataclass(frozen=True)
class RunComparison:
    accounts: tuple[Account, ...]
    changes: dict[str, Changes]
    """Of each run against the first."""
    metrics: tuple[ComparedMetric, ...]
    winners: dict[str, str]
    """By metric, where one is ahead by more than the intervals."""
    losses: tuple[LossesAt, ...]


def compare(accounts: Sequence[Account]) -> RunComparison:
    first, *others = accounts
    losses = tuple(found for axis in AXES if (found := losses_at_equal(accounts, axis)) is not None)
    metrics = (*_facts(accounts), *(_of_losses(each) for each in losses))
    found = {metric.name: winner for metric in metrics if (winner := _winner(metric)) is not None}
    return RunComparison(
        tuple(accounts), {each.name: changes_between(first, each) for each in others}, metrics, found, losses
    )


def named_apart(accounts: Sequence[Account]) -> list[Account]:
    """A run may be held against itself."""
    names = names_apart([account.name for account in accounts])
    return [replace(account, name=name) for account, name in zip(accounts, names, strict=True)]


def names_apart(names: Sequence[str]) -> list[str]:
    """The same name a second time gets a number."""
    seen: dict[str, int] = {}
    apart: list[str] = []
    for name in names:
        seen[name] = number = seen.get(name, 0) + 1
        apart.append(name if number == 1 else f"{name} ({number})")
    return apart


def _facts(accounts: Sequence[Account]) -> list[ComparedMetric]:
    same_batch = len({account.speed.tokens_per_iter for account in accounts}) == 1
    rows: list[tuple[str, Better, Callable[[Account], Interval | None]]] = [
        ("parameters", None, lambda a: _known(a.parameters)),
        ("tokens_per_iter", None, lambda a: _known(a.speed.tokens_per_iter or a.tokens_per_iter)),
        ("iteration_seconds", "lower" if same_batch else None, lambda a: a.speed.iteration_seconds),
        ("micro_step_seconds", None, lambda a: a.speed.micro_step_seconds),
        ("tokens_per_second", "higher", lambda a: a.speed.tokens_per_second),
        ("achieved_flops_per_second", "higher", lambda a: a.speed.achieved_flops_per_second),
        ("nanogpt_flops_per_second", None, lambda a: a.speed.nanogpt_flops_per_second),
        ("mfu", "higher", lambda a: a.speed.mfu),
        ("nanogpt_mfu", None, lambda a: a.speed.nanogpt_mfu),
        ("peak_allocated_bytes", "lower", lambda a: _known(a.peak_allocated_bytes)),
    ]
    found = [
        ComparedMetric(name, better, {a.name: value for a in accounts if (value := get(a)) is not None})
        for name, better, get in rows
    ]
    return [metric for metric in found if metric.values]


def _of_losses(found: LossesAt) -> ComparedMetric:
    return ComparedMetric(
        f"val_loss_at_equal_{found.axis}",
        "lower",
        {name: loss_value(loss) for name, loss in found.losses.items()},
    )


def loss_value(loss: LossAt) -> Interval:
    """With the interval that the noise of an evaluation gives it, where that can be judged."""
    wide = None if loss.noise is None else WIDE * loss.noise
    low, high = (None, None) if wide is None else (loss.loss - wide, loss.loss + wide)
    return Interval(loss.loss, low, high, 0.95, 1)


def _winner(metric: ComparedMetric) -> str | None:
    """The one ahead of all others by more than the intervals; without intervals there is none."""
    if metric.better is None or len(metric.values) < 2:
        return None
    sign = 1 if metric.better == "higher" else -1
    ranked = sorted(metric.values.items(), key=lambda item: -sign * item[1].value)
    (name, best), (_, second) = ranked[:2]
    if metric.name == "peak_allocated_bytes":
        return name if best.value < second.value * (1 - CLOSE) else None
    return name if is_ahead(metric.name, metric.better, best, second) else None


def is_ahead(name: str, better: Literal["higher", "lower"], best: Interval, second: Interval) -> bool:
    """By more than the intervals, and of rates by more than another start of the same run would differ."""
    sign = 1 if better == "higher" else -1
    near, far = (best.low, second.high) if sign > 0 else (best.high, second.low)
    if near is None or far is None or sign * (near - far) <= 0:
        return False
    return name.startswith("val_loss") or abs(best.value / second.value - 1) > CLOSE


def _known(value: float | None) -> Interval | None:
    """A fact, which has no interval."""
    return None if value is None else Interval(value, None, None, 0.95, 1)
