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
"""Medians of one run each are not called apart below this: another start of the same run differs as much."""


@dataclass(frozen=True)
class Value:
    """A figure with the interval of its own run's iterations, where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, interval: Interval, times: float = 1.0) -> "Value":
        bounds = (None if bound is None else bound * times for bound in (interval.low, interval.high))
        return cls(interval.estimate * times, *bounds)


@dataclass(frozen=True)
class Metric:
    name: str
    better: Better
    """None where neither is: a larger model is no better one."""
    values: dict[str, Value]


@dataclass(frozen=True)
class Comparison:
    accounts: tuple[Account, ...]
    changes: dict[str, Changes]
    """Of each run against the first."""
    metrics: tuple[Metric, ...]
    winners: dict[str, str]
    """By metric, where one is ahead by more than the intervals."""
    losses: tuple[LossesAt, ...]


def compare(accounts: Sequence[Account]) -> Comparison:
    first, *others = accounts
    losses = tuple(found for axis in AXES if (found := losses_at_equal(accounts, axis)) is not None)
    metrics = (*_facts(accounts), *(_of_losses(each) for each in losses))
    found = {metric.name: winner for metric in metrics if (winner := _winner(metric)) is not None}
    return Comparison(
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


def _facts(accounts: Sequence[Account]) -> list[Metric]:
    same_batch = len({account.tokens_per_iter for account in accounts}) == 1
    rows: list[tuple[str, Better, Callable[[Account], Value | None]]] = [
        ("parameters", None, lambda a: _plain(a.parameters)),
        ("tokens_per_iter", None, lambda a: _plain(a.tokens_per_iter)),
        ("iteration_seconds", "lower" if same_batch else None, lambda a: _interval(a.iteration_seconds)),
        ("micro_step_seconds", None, lambda a: _plain(a.micro_step_seconds)),
        ("tokens_per_second", "higher", lambda a: _interval(a.tokens_per_second)),
        ("flops_per_second", "higher", lambda a: _interval(a.tokens_per_second, a.flops_per_token)),
        (
            "nanogpt_flops_per_second",
            None,
            lambda a: _interval(a.tokens_per_second, a.nanogpt_flops_per_token),
        ),
        ("card_share", "higher", card_share),
        ("nanogpt_mfu", None, lambda a: _plain(a.nanogpt_mfu)),
        ("peak_allocated_bytes", "lower", lambda a: _plain(a.peak_allocated_bytes)),
    ]
    found = [
        Metric(name, better, {a.name: value for a in accounts if (value := get(a)) is not None})
        for name, better, get in rows
    ]
    return [metric for metric in found if metric.values]


def _of_losses(found: LossesAt) -> Metric:
    return Metric(
        f"val_loss_at_equal_{found.axis}",
        "lower",
        {name: loss_value(loss) for name, loss in found.losses.items()},
    )


def loss_value(loss: LossAt) -> Value:
    if loss.noise is None:
        return Value(loss.loss)
    return Value(loss.loss, loss.loss - WIDE * loss.noise, loss.loss + WIDE * loss.noise)


def _winner(metric: Metric) -> str | None:
    """The one ahead of all others by more than the intervals; without intervals there is none."""
    if metric.better is None or len(metric.values) < 2:
        return None
    sign = 1 if metric.better == "higher" else -1
    ranked = sorted(metric.values.items(), key=lambda item: -sign * item[1].value)
    (name, best), (_, second) = ranked[:2]
    if metric.name == "peak_allocated_bytes":
        return name if best.value < second.value * (1 - CLOSE) else None
    return name if is_ahead(metric.name, metric.better, best, second) else None


def is_ahead(name: str, better: Literal["higher", "lower"], best: Value, second: Value) -> bool:
    """By more than the intervals, and of rates by more than another start of the same run would differ."""
    sign = 1 if better == "higher" else -1
    near, far = (best.low, second.high) if sign > 0 else (best.high, second.low)
    if near is None or far is None or sign * (near - far) <= 0:
        return False
    return name.startswith("val_loss") or abs(best.value / second.value - 1) > CLOSE


def _plain(value: float | None) -> Value | None:
    return None if value is None else Value(value)


def _interval(interval: Interval | None, times: float | None = 1.0) -> Value | None:
    return None if interval is None or times is None else Value.of(interval, times)


def card_share(account: Account) -> Value | None:
    work, peak = account.flops_per_token, account.peak_flops
    return None if work is None or peak is None else _interval(account.tokens_per_second, work / peak)
