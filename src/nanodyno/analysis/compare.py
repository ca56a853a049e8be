"""Runs side by side: derived facts, losses at equal tokens, time and work, and who is better on what."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.analysis.account import Account
from nanodyno.analysis.audit import IMPOSSIBLE, audit
from nanodyno.analysis.changes import Changes, changes_between
from nanodyno.analysis.curves import AXES, LossAt, LossesAt, loss_on, losses_at_equal
from nanodyno.analysis.decisions import (
    LEVEL,
    Call,
    Decision,
    GroupPair,
    NotComparable,
    Replicates,
    RunGroup,
    decide_loss,
    decide_speed,
    groups_of,
    loss_interval,
)
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.train_losses import smoothed, train_losses_at_equal_time, train_points

Better = Literal["higher", "lower"] | None
SAME_MEMORY = 0.01
"""Peaks of memory within this share of each other are called the same."""


@dataclass(frozen=True)
class ComparedMetric:
    name: str
    better: Better
    """None where neither is: a larger model is no better one."""
    values: dict[str, Interval]

    def mean(self, names: Sequence[str]) -> float:
        """Over repeated runs: of losses the mean, of all else the geometric one, as the decisions take it."""
        found = [self.values[name].value for name in names]
        of_losses = "loss_at_equal" in self.name or min(found) <= 0
        return statistics.fmean(found) if of_losses else statistics.geometric_mean(found)


@dataclass(frozen=True)
class RunComparison:
    accounts: tuple[Account, ...]
    groups: tuple[tuple[str, ...], ...]
    """Names of the runs, replicates of one config together."""
    changes: dict[str, Changes]
    """Of each run against the first."""
    metrics: tuple[ComparedMetric, ...]
    decisions: tuple[Decision, ...]
    """Of each group against the first one, by metric."""
    settling: dict[str, tuple[Decision | None, ...]]
    """By metric: of the best group against each other one, the nearest first."""
    losses: tuple[LossesAt, ...]

    @property
    def winners(self) -> dict[str, str]:
        """By metric, the first run of the group that is better than all others."""
        return {
            name: found[0].runs[0]
            for name, found in self.settling.items()
            if found[0] is not None and all(each is not None and each.call == "better" for each in found)
        }

    def decision(self, metric: str, run: str) -> Decision | None:
        """Of this run's group against the first one; None in that one, or where a figure is missing."""
        group = next((each for each in self.groups if run in each), (run,))
        own = (each for each in self.decisions if each.metric == metric)
        return next((each for each in own if not set(group).isdisjoint(each.runs)), None)


Decide = Callable[[RunGroup, RunGroup], Decision | None]


def compare(
    accounts: Sequence[Account], history: Sequence[Account] = (), groups: Sequence[RunGroup] | None = None
) -> RunComparison:
    """Each group of replicates against the first; `history` are other runs, for the noise between runs alone.

    Without groups, runs of one config are put together.
    """
    are_by_user = bool(groups)
    groups = groups or groups_of(accounts)
    known = Replicates([*accounts, *history], groups, are_by_user)
    losses = _losses(accounts)
    level = 1 - (1 - LEVEL) / max(1, len(groups) - 1)
    metrics = [*_facts(accounts), *(_of_losses(each, accounts, known) for each in losses)]
    decisions: list[Decision] = []
    settling: dict[str, tuple[Decision | None, ...]] = {}
    for metric in metrics:
        decide = _decider(metric, losses, known, level)
        decisions += [each for other in groups[1:] if (each := decide(other, groups[0])) is not None]
        found = _settled(metric, groups, decide)
        if found:
            settling[metric.name] = found
    return RunComparison(
        tuple(accounts),
        tuple(tuple(each.name for each in group) for group in groups),
        {each.name: changes_between(accounts[0], each) for each in accounts[1:]},
        tuple(metrics),
        tuple(decisions),
        settling,
        losses,
    )


def _losses(accounts: Sequence[Account]) -> tuple[LossesAt, ...]:
    """Val losses on every axis; where they do not meet at equal time, smoothed training losses there."""
    found = {axis: losses_at_equal(accounts, axis) for axis in AXES}
    found["seconds"] = found["seconds"] or train_losses_at_equal_time(accounts)
    return tuple(each for each in found.values() if each is not None)


def _loss_of(account: Account, found: LossesAt) -> LossAt | None:
    """Of any run, where these losses are read."""
    if found.kind == "train":
        return smoothed(train_points(account), found.at)
    return loss_on(account, found.axis, found.at)


def _decider(metric: ComparedMetric, losses: Sequence[LossesAt], known: Replicates, level: float) -> Decide:
    """How two groups are judged on a metric."""
    at = next((each for each in losses if metric.name == loss_metric(each)), None)

    def read(account: Account) -> LossAt | None:
        return None if at is None else _loss_of(account, at)

    def decide(runs: RunGroup, against: RunGroup) -> Decision | None:
        if metric.better is None:
            return None
        if metric.name == "peak_allocated_bytes":
            return _decide_memory(runs, against)
        speed_noise = known.speed_noise(runs[0], against[0])
        if at is None:
            pair = GroupPair(runs, against, speed_noise, level)
            found = decide_speed(metric.name, lambda each: _per_second(metric.name, each), pair)
        else:
            noise, losses_there = known.loss_noise(read, runs[0], against[0]), at.losses
            pair = GroupPair(runs, against, noise, level, speed_noise.sd if at.axis == "seconds" else 0.0)
            found = decide_loss(metric.name, lambda each: losses_there.get(each.name), (at.axis, at.at), pair)
        reason = _contradiction(metric.name, (*runs, *against))
        if found is None or found.effect is None or reason is None:
            return found
        if found.reason not in (None, "unrecorded-difference"):
            return found
        effect = replace(found.effect, low=None, high=None)
        return replace(found, call="not-comparable", reason=reason, effect=effect)

    return decide


OF_TOKENS = (
    "tokens_per_second", "achieved_flops_per_second", "mfu",
    "val_loss_at_equal_tokens", "val_loss_at_equal_flops",
)  # fmt: skip
OF_TIMES = (
    "iteration_seconds", "tokens_per_second", "achieved_flops_per_second", "mfu", "val_loss_at_equal_seconds",
    "train_loss_at_equal_seconds",
)  # fmt: skip


def _contradiction(metric: str, accounts: Sequence[Account]) -> NotComparable | None:
    """Why a figure of one of them cannot be so, by its audit."""
    codes = {finding.code for each in accounts for finding in audit(each)}
    if metric in OF_TOKENS and "tokens-contradict" in codes:
        return "tokens-contradict"
    impossible = codes & {*IMPOSSIBLE[: None if metric == "mfu" else 1]}
    return "rate-impossible" if metric in OF_TIMES and impossible else None


def _per_second(metric: str, account: Account) -> Interval | None:
    """A figure of speed that is the higher the better."""
    figure: Interval | None = getattr(account.speed, metric)
    return figure.inverse() if figure is not None and metric == "iteration_seconds" else figure


def _decide_memory(runs: RunGroup, against: RunGroup) -> Decision | None:
    """A peak is the same in every run of a config."""
    peaks = [[each.peak_allocated_bytes for each in group] for group in (runs, against)]
    one, other = (max((peak for peak in group if peak), default=None) for group in peaks)
    if one is None or other is None:
        return None
    ratio = one / other
    call: Call = "no-significant-difference"
    if abs(ratio - 1) > SAME_MEMORY:
        call = "better" if ratio < 1 else "worse"
    names = [tuple(each.name for each in group) for group in (runs, against)]
    return Decision(
        "peak_allocated_bytes", names[0], names[1], call, Interval(ratio, None, None, LEVEL, 1), None
    )


def _settled(
    metric: ComparedMetric, groups: Sequence[RunGroup], decide: Decide
) -> tuple[Decision | None, ...]:
    """Whether the best group is better than each other one."""
    sign = -1 if metric.better == "higher" else 1
    means = [
        (sign * metric.mean(names), group)
        for group in groups
        if (names := [each.name for each in group if each.name in metric.values])
    ]
    if metric.better is None or len(means) < 2:
        return ()
    best, *others = (group for _, group in sorted(means, key=lambda each: each[0]))
    return tuple(decide(best, other) for other in others)


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


def _of_losses(found: LossesAt, accounts: Sequence[Account], known: Replicates) -> ComparedMetric:
    values: dict[str, Interval] = {}
    for account in accounts:
        loss = found.losses.get(account.name)
        if loss is not None:
            noise = known.loss_noise(lambda each: _loss_of(each, found), account, account)
            values[account.name] = loss_interval(account, loss, noise)
    return ComparedMetric(loss_metric(found), "lower", values)


def loss_metric(found: LossesAt) -> str:
    return f"{found.kind}_loss_at_equal_{found.axis}"


def _known(value: float | None) -> Interval | None:
    """A fact, which has no interval."""
    return None if value is None else Interval(value, None, None, 0.95, 1)
