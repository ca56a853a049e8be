"""Runs in order of loss at equal tokens, of speed on one device and of MFU.

A run is ranked among those that it can be compared with, else the reason why not is given. Runs that are not
shown to be worse than the first of a rank share it, by the decisions that `compare` makes.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, get_args

from nanodyno.analysis.account import OF_GPT2, Account
from nanodyno.analysis.audit import IMPOSSIBLE, audit
from nanodyno.analysis.changes import dataset_name
from nanodyno.analysis.compare import names_apart
from nanodyno.analysis.curves import LossAt, last_of_stretches, loss_on
from nanodyno.analysis.decisions import (
    LEVEL,
    Decision,
    DisturbedBy,
    GroupPair,
    Replicates,
    RunGroup,
    at_one_stage,
    decide_loss,
    decide_speed,
    disturbed_by,
    groups_of,
    loss_interval,
)
from nanodyno.analysis.forecast_overfit import death_of
from nanodyno.analysis.forecast_plan import curve_of
from nanodyno.analysis.statistics import Interval
from nanodyno.costs.parameters import parameters

LeaderboardMetric = Literal["val_loss_at_equal_tokens", "tokens_per_second", "mfu"]
LOSS, SPEED, SHARE = ("val_loss_at_equal_tokens", "tokens_per_second", "mfu")
UnrankedReason = Literal[
    "no-evaluation",
    "tokens-unknown",
    "tokens-contradict",
    "text-unknown",
    "only-one-of-its-text",
    "not-evaluated-there",
    "perplexity-as-loss",
    "dead",
    "other-schedule",
    "times-unknown",
    "too-few-iterations",
    "speed-uncertain",
    DisturbedBy,
    "other-data",
    "unrecorded-difference",
    "model-unknown",
    "gpu-unknown",
    "on-cpu",
    "rate-impossible",
    "only-one-of-its-device",
    "only-one",
]


@dataclass(frozen=True)
class EvalText:
    """What a loss is of: per token of one tokenizer, on one text."""

    dataset: str
    tokens: str
    """The tokenizer, or where that is not told the size of its vocabulary."""
    fingerprint: str | None = None


@dataclass(frozen=True)
class LeaderboardRun:
    """A run whose iterations need not be kept, since all that they tell was derived."""

    account: Account
    flaws: frozenset[str]
    """Codes of an audit's findings."""
    is_dead: bool = False
    """Its latest losses are no number, or those of an untrained model."""

    @property
    def run(self) -> str:
        return self.account.name

    @property
    def parameters(self) -> float | None:
        """All of them; by the log's own count where that is all there is."""
        shape = None if self.account.shape_found else self.account.shape  # then the log's own, as in `runs`
        return self.account.reported_parameters if shape is None else parameters(shape).total

    @property
    def text(self) -> EvalText | None:
        return text_of(self.account)

    @property
    def furthest(self) -> float:
        """The last iteration at which it has a loss."""
        return max(last_of_stretches(self.account.even_evals), default=0.0)

    @property
    def device(self) -> str | None:
        """What its speed is of: the GPU and how many of them, or the CPU; None where it is not known."""
        account = self.account
        name = account.device_name if account.gpu is None else account.gpu.label
        if name is None:
            return None
        return f"{account.processes} x {name}" if account.processes > 1 else name

    def speed(self, metric: LeaderboardMetric) -> Interval | None:
        speed = self.account.speed
        return speed.tokens_per_second if metric == SPEED else speed.mfu


@dataclass(frozen=True)
class Entry:
    run: str
    rank: int | None
    """None where it cannot be compared with the others."""
    value: Interval
    parameters: float | None
    device: str | None


@dataclass(frozen=True)
class Board:
    metric: LeaderboardMetric
    entries: tuple[Entry, ...]
    """Best first, whether ranked or not."""
    text: EvalText | None = None
    at_tokens: float | None = None
    device: str | None = None
    """Of speeds, which compare on one device alone."""


@dataclass(frozen=True)
class Unranked:
    run: str
    metric: LeaderboardMetric
    reason: UnrankedReason


@dataclass(frozen=True)
class Leaderboard:
    boards: tuple[Board, ...]
    unranked: tuple[Unranked, ...]
    compared_early: tuple[str, ...] = ()
    """Runs that went more than twice as far as where their losses are compared."""


def standing_of(account: Account) -> LeaderboardRun:
    flaws = frozenset(finding.code for finding in audit(account))
    return LeaderboardRun(account.without_steps(), flaws, death_of(account, curve_of(account)) is not None)


def text_of(account: Account) -> EvalText | None:
    """None where the text or the tokenizer is not told: then no other run is known to have the same."""
    if (data := account.data) is not None:
        return EvalText(data.dataset, data.tokenizer or _tokens(data.vocab_size), data.fingerprint)
    dataset, tokenizer = account.settings.get("dataset"), account.settings.get("tokenizer")
    size = account.vocabulary
    tokens = tokenizer if isinstance(tokenizer, str) else None if size is None else _tokens(size)
    if not isinstance(dataset, str) or tokens is None:
        return None
    return EvalText(dataset_name(dataset), tokens)


def _tokens(vocab_size: int) -> str:
    """By the size of the vocabulary: GPT-2's own, or nanoGPT's for it, or one without a name."""
    known = vocab_size in OF_GPT2
    return "gpt2" if known else f"a vocabulary of {vocab_size:,}"


def leaderboard(standings: Sequence[LeaderboardRun]) -> Leaderboard:
    names = names_apart([each.run for each in standings])
    standings = [
        replace(each, account=each.account.renamed(name)) for each, name in zip(standings, names, strict=True)
    ]
    known = Replicates([each.account for each in standings])
    boards: list[Board] = []
    unranked: list[Unranked] = []
    by_speed = [*_by_speed(standings, SPEED, known), *_by_speed(standings, SHARE, known)]
    for found in (*_by_loss(standings, known), *by_speed):
        if isinstance(found, Unranked):
            unranked.append(found)
        else:
            boards.append(found)
    return Leaderboard(tuple(boards), tuple(unranked), tuple(_held_back(standings, boards)))


def _by_loss(standings: Sequence[LeaderboardRun], known: Replicates) -> Iterator[Board | Unranked]:
    groups: dict[EvalText, list[LeaderboardRun]] = {}
    for standing in standings:
        reason = _no_loss(standing)
        if reason is not None:
            yield Unranked(standing.run, LOSS, reason)
        elif standing.text is not None:
            groups.setdefault(_group(standing.text, standings), []).append(standing)
    for text, members in groups.items():
        yield from _board_of_losses(text, members, known)


def _group(text: EvalText, standings: Sequence[LeaderboardRun]) -> EvalText:
    """A text whose files are not known is the one of its name, unless there are several."""
    prints = {
        other.text.fingerprint
        for other in standings
        if other.text is not None and (other.text.dataset, other.text.tokens) == (text.dataset, text.tokens)
    }
    known = prints - {None}
    return EvalText(text.dataset, text.tokens) if len(known) < 2 else text


def _no_loss(standing: LeaderboardRun) -> UnrankedReason | None:
    return _first(
        (standing.furthest == 0, "no-evaluation"),
        ("perplexity-as-loss" in standing.flaws, "perplexity-as-loss"),
        (standing.is_dead, "dead"),
        (standing.account.tokens_per_iter is None, "tokens-unknown"),
        ("tokens-contradict" in standing.flaws, "tokens-contradict"),
        (standing.text is None, "text-unknown"),
    )


def _first(*reasons: tuple[bool, UnrankedReason]) -> UnrankedReason | None:
    return next((reason for holds, reason in reasons if holds), None)


def _board_of_losses(
    text: EvalText, members: Sequence[LeaderboardRun], known: Replicates
) -> Iterator[Board | Unranked]:
    """At the place that most of them can be read at, and of such the furthest."""
    if len(members) < 2:
        yield from (Unranked(each.run, LOSS, "only-one-of-its-text") for each in members)
        return
    paces = {each.run: each.account.tokens_per_iter or 1 for each in members}
    ends = {each.run: last_of_stretches(each.account.even_evals) for each in members}
    places = {end * paces[run] for run, found in ends.items() for end in found if end > 0}
    read = {
        at: {each.run: loss for each in members if (loss := loss_on(each.account, "tokens", at))}
        for at in places
    }
    at = max(read, key=lambda place: (len(read[place]), place))
    losses = read[at]
    yield from (Unranked(each.run, LOSS, "not-evaluated-there") for each in members if each.run not in losses)
    there = [each for each in members if each.run in losses]
    if len(there) < 2:
        yield from (Unranked(each.run, LOSS, "not-evaluated-there") for each in there)
        return
    stage = _largest_stage([each.account for each in there], at)
    early = {each.run for each in there if each.run not in stage}
    yield from (Unranked(name, LOSS, "other-schedule") for name in early)

    def read_there(account: Account) -> LossAt | None:
        return loss_on(account, "tokens", at)

    def interval(each: LeaderboardRun) -> Interval:
        noise = known.loss_noise(read_there, each.account, each.account)
        return loss_interval(each.account, losses[each.run], noise)

    def decide(runs: RunGroup, against: RunGroup, level: float) -> Decision | None:
        pair = GroupPair(runs, against, known.loss_noise(read_there, runs[0], against[0]), level)
        return decide_loss(LOSS, lambda each: losses[each.name], ("tokens", at), pair)

    ordered = sorted(there, key=lambda each: losses[each.run].loss)
    entries, unlike = _entries([(each, interval(each)) for each in ordered], early, decide)
    yield Board(LOSS, entries, text, at)
    yield from (Unranked(name, LOSS, reason) for name, reason in unlike.items())


def _largest_stage(accounts: Sequence[Account], at: float) -> set[str]:
    """Names of the most runs that stand at one stage of their schedules there; the finished ones of two."""
    stages: list[list[Account]] = []
    for account in sorted(accounts, key=lambda each: each.iterations * (each.tokens_per_iter or 1)):
        home = next((stage for stage in stages if at_one_stage(stage[0], account, "tokens", at)), None)
        if home is None:
            stages.append([account])
        else:
            home.append(account)
    return {account.name for account in max(stages, key=len)}


def _by_speed(
    standings: Sequence[LeaderboardRun], metric: LeaderboardMetric, known: Replicates
) -> Iterator[Board | Unranked]:
    """Tokens per second on each device apart; MFU, which is of each GPU's own peak, of all together."""
    groups: dict[str | None, list[tuple[LeaderboardRun, Interval]]] = {}
    reasons: dict[str, UnrankedReason | None] = {each.run: _no_speed(each, metric) for each in standings}
    for each in standings:
        value, reason = each.speed(metric), reasons[each.run]
        if value is None or reason in UNKNOWN:
            yield Unranked(each.run, metric, reason or "times-unknown")
        else:
            groups.setdefault(each.device if metric == SPEED else None, []).append((each, value))

    def decide(runs: RunGroup, against: RunGroup, level: float) -> Decision | None:
        pair = GroupPair(runs, against, known.speed_noise(runs[0], against[0]), level)
        return decide_speed(metric, lambda each: getattr(each.speed, metric), pair)

    for device, members in groups.items():
        if len(members) < 2:
            alone: UnrankedReason = "only-one" if len(groups) == 1 else "only-one-of-its-device"
            yield from (Unranked(each.run, metric, alone) for each, _ in members)
            continue
        out: dict[str, UnrankedReason] = {
            each.run: reason for each, _ in members if (reason := reasons[each.run]) is not None
        }
        yield from (Unranked(name, metric, reason) for name, reason in out.items())
        ordered = sorted(members, key=lambda member: -member[1].value)
        entries, unlike = _entries(ordered, set(out), decide)
        yield Board(metric, entries, device=device)
        yield from (Unranked(name, metric, reason) for name, reason in unlike.items())


UNKNOWN: tuple[UnrankedReason, ...] = (
    "tokens-unknown", "tokens-contradict", "times-unknown", "on-cpu", "gpu-unknown", "model-unknown",
    "rate-impossible",
)  # fmt: skip
"""Reasons for which there is no figure to show, or a false one."""


UNCERTAIN = "speed-without-disturbances", "speed-not-elapsed"
"""Findings of a speed that does not agree with the time that the run took."""


def _no_speed(standing: LeaderboardRun, metric: LeaderboardMetric) -> UnrankedReason | None:
    account, of_share = standing.account, metric == SHARE
    speed = account.speed.tokens_per_second
    return _first(
        (account.tokens_per_iter is None, "tokens-unknown"),
        ("tokens-contradict" in standing.flaws, "tokens-contradict"),
        (speed is None, "times-unknown"),
        (of_share and account.device_kind == "cpu", "on-cpu"),
        (account.gpu is None if of_share else standing.device is None, "gpu-unknown"),
        (of_share and account.speed.mfu is None, "model-unknown"),
        (
            not standing.flaws.isdisjoint(IMPOSSIBLE),
            "rate-impossible",
        ),
        *((disturbed_by(account) == each, each) for each in get_args(DisturbedBy)),
        (not standing.flaws.isdisjoint(UNCERTAIN), "speed-uncertain"),
        (speed is not None and speed.low is None, "too-few-iterations"),
    )


def _entries(
    ordered: Sequence[tuple[LeaderboardRun, Interval]],
    out: Set[str],
    decide: Callable[[RunGroup, RunGroup, float], Decision | None],
) -> tuple[tuple[Entry, ...], dict[str, UnrankedReason]]:
    """Best first, from runs in the order of their values; runs of one config have one rank, by their mean.

    Also which of them cannot be compared with those that they would be ranked with, and why.
    """
    values = {each.run: value.value for each, value in ordered}
    groups = groups_of([each.account for each, _ in ordered if each.run not in out])
    falling = ordered[0][1].value > ordered[-1][1].value
    ranks, unlike = _ranks(groups, values, is_falling=falling, has_others=bool(out), decide=decide)
    entries = [
        Entry(each.run, ranks.get(each.run), value, each.parameters, each.device) for each, value in ordered
    ]
    ranked = sorted((each for each in entries if each.rank), key=lambda each: each.rank or 0)
    for entry in (each for each in entries if each.rank is None):
        worse = {each.run for each in entries[entries.index(entry) :]}
        place = next((at for at, each in enumerate(ranked) if each.run in worse), len(ranked))
        ranked.insert(place, entry)
    return tuple(ranked), unlike


def _ranks(
    groups: Sequence[RunGroup],
    values: Mapping[str, float],
    is_falling: bool,
    has_others: bool,
    decide: Callable[[RunGroup, RunGroup, float], Decision | None],
) -> tuple[dict[str, int], dict[str, UnrankedReason]]:
    """The best of many is partly luck, so that each of k decisions gets a k-th of the error.

    A group that is not comparable with the first of a rank has none, nor has one that is left alone by that.
    """

    def mean(group: RunGroup) -> float:
        return statistics.fmean(values[each.name] for each in group)

    level = 1 - (1 - LEVEL) / max(1, len(groups) - 1)
    ranks: dict[str, int] = {}
    unlike: dict[str, UnrankedReason] = {}
    rank, first = 1, None
    for group in sorted(groups, key=mean, reverse=is_falling):
        decision = None if first is None else decide(group, first, level)
        names = [each.name for each in group]
        if decision is not None and decision.reason is not None:
            unlike |= dict.fromkeys(names, decision.reason)
            continue
        if first is None or (decision is not None and decision.call == "worse"):
            rank, first = len(ranks) + 1, group
        ranks |= dict.fromkeys(names, rank)
    if (unlike or has_others) and first is not None and len(ranks) == len(first):
        unlike |= dict.fromkeys(ranks, "only-one")
        ranks = {}
    return ranks, unlike


def _held_back(standings: Sequence[LeaderboardRun], boards: Sequence[Board]) -> Iterator[str]:
    ends = {each.run: (each.account.tokens_per_iter or 0) * each.furthest for each in standings}
    for board in boards:
        if board.at_tokens is not None:
            yield from (each.run for each in board.entries if ends[each.run] > 2 * board.at_tokens)
