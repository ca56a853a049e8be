"""Runs in order of loss at equal tokens, of speed and of the share of their cards' peak, where that follows.

A run gets a place among those that it can be compared with, and else the reason why it has none. Runs that
are not shown to be behind the first of a place share it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.analysis.account import OF_GPT2, Account, AccountEval
from nanodyno.analysis.audit import audit
from nanodyno.analysis.compare import is_ahead, loss_value, names_apart
from nanodyno.analysis.curves import last_of_stretches, loss_at
from nanodyno.analysis.statistics import Interval
from nanodyno.costs.parameters import parameters

LeaderboardMetric = Literal["val_loss_at_equal_tokens", "tokens_per_second", "mfu"]
LOSS, SPEED, SHARE = METRICS = ("val_loss_at_equal_tokens", "tokens_per_second", "mfu")
BETTER: dict[LeaderboardMetric, Literal["higher", "lower"]] = {
    LOSS: "lower",
    SPEED: "higher",
    SHARE: "higher",
}
UnrankedReason = Literal[
    "no-evaluation",
    "tokens-unknown",
    "tokens-contradict",
    "text-unknown",
    "only-one-of-its-text",
    "not-evaluated-there",
    "perplexity-as-loss",
    "noise-unknown",
    "times-unknown",
    "too-few-times",
    "model-unknown",
    "gpu-unknown",
    "rate-impossible",
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
    """All that is asked of one run; its steps need not be kept."""

    run: str
    parameters: float | None
    """All of them; by the log's own count where that is all there is."""
    gpu: str | None
    speed: Interval | None
    share: Interval | None
    tokens_per_iter: int | None
    evals: tuple[AccountEval, ...]
    """By iterations of so many tokens."""
    text: EvalText | None
    flaws: frozenset[str]
    """Codes of an audit's findings."""

    @property
    def furthest(self) -> float:
        """The last iteration at which it has a loss."""
        return max(last_of_stretches(self.evals), default=0.0)


@dataclass(frozen=True)
class Entry:
    run: str
    rank: int | None
    """None where its interval is not known, so that nothing can be said about its place."""
    value: Interval
    parameters: float | None
    gpu: str | None


@dataclass(frozen=True)
class Board:
    metric: LeaderboardMetric
    entries: tuple[Entry, ...]
    """Best first; those without a place at the end."""
    text: EvalText | None = None
    at_tokens: float | None = None


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
    shape = account.shape
    return LeaderboardRun(
        run=account.name,
        parameters=account.reported_parameters if shape is None else parameters(shape).total,
        gpu=None if account.gpu is None else account.gpu.label,
        speed=account.speed.tokens_per_second,
        share=account.speed.mfu,
        tokens_per_iter=account.tokens_per_iter,
        evals=account.even_evals,
        text=text_of(account),
        flaws=frozenset(finding.code for finding in audit(account)),
    )


def text_of(account: Account) -> EvalText | None:
    """None where the text or the tokenizer is not told: then no other run is known to have the same."""
    if (data := account.data) is not None:
        return EvalText(data.dataset, data.tokenizer or _tokens(data.vocab_size), data.fingerprint)
    dataset, tokenizer = account.settings.get("dataset"), account.settings.get("tokenizer")
    size = account.vocabulary
    tokens = tokenizer if isinstance(tokenizer, str) else None if size is None else _tokens(size)
    if not isinstance(dataset, str) or tokens is None:
        return None
    return EvalText(dataset.replace("\\", "/").rstrip("/").rpartition("/")[2], tokens)


def _tokens(vocab_size: int) -> str:
    """By the size of the vocabulary: GPT-2's own, or nanoGPT's for it, or one without a name."""
    known = vocab_size in OF_GPT2
    return "gpt2" if known else f"a vocabulary of {vocab_size:,}"


def leaderboard(standings: Sequence[LeaderboardRun]) -> Leaderboard:
    names = names_apart([each.run for each in standings])
    standings = [replace(each, run=name) for each, name in zip(standings, names, strict=True)]
    boards: list[Board] = []
    unranked: list[Unranked] = []
    for found in (*_by_loss(standings), *_by_rate(standings, SPEED), *_by_rate(standings, SHARE)):
        if isinstance(found, Unranked):
            unranked.append(found)
        else:
            boards.append(found)
    return Leaderboard(tuple(boards), tuple(unranked), tuple(_held_back(standings, boards)))


def _by_loss(standings: Sequence[LeaderboardRun]) -> Iterator[Board | Unranked]:
    groups: dict[EvalText, list[LeaderboardRun]] = {}
    for standing in standings:
        reason = _no_loss(standing)
        if reason is not None:
            yield Unranked(standing.run, LOSS, reason)
        elif standing.text is not None:
            groups.setdefault(_group(standing.text, standings), []).append(standing)
    for text, members in groups.items():
        yield from _board_of_losses(text, members)


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
        (standing.tokens_per_iter is None, "tokens-unknown"),
        ("tokens-contradict" in standing.flaws, "tokens-contradict"),
        (standing.text is None, "text-unknown"),
    )


def _first(*reasons: tuple[bool, UnrankedReason]) -> UnrankedReason | None:
    return next((reason for holds, reason in reasons if holds), None)


def _board_of_losses(text: EvalText, members: Sequence[LeaderboardRun]) -> Iterator[Board | Unranked]:
    """At the place that most of them can be read at, and of such the furthest."""
    if len(members) < 2:
        yield from (Unranked(each.run, LOSS, "only-one-of-its-text") for each in members)
        return
    paces = {each.run: each.tokens_per_iter or 1 for each in members}
    places = {end * paces[each.run] for each in members for end in last_of_stretches(each.evals) if end > 0}
    read = {
        at: {each.run: loss for each in members if (loss := loss_at(each.evals, at / paces[each.run]))}
        for at in places
    }
    at = max(read, key=lambda place: (len(read[place]), place))
    values = {name: loss_value(loss) for name, loss in read[at].items()}
    yield from (Unranked(each.run, LOSS, "not-evaluated-there") for each in members if each.run not in values)
    if len(values) < 2:
        yield from (Unranked(name, LOSS, "not-evaluated-there") for name in values)
        return
    yield Board(LOSS, _entries(LOSS, values, members), text, at)
    yield from (Unranked(name, LOSS, "noise-unknown") for name, value in values.items() if value.low is None)


def _by_rate(standings: Sequence[LeaderboardRun], metric: LeaderboardMetric) -> Iterator[Board | Unranked]:
    reasons: dict[str, UnrankedReason | None] = {each.run: _no_rate(each, metric) for each in standings}
    values = {
        each.run: value
        for each in standings
        if reasons[each.run] is None and (value := each.speed if metric == SPEED else each.share) is not None
    }
    for each in standings:
        if (reason := reasons[each.run]) is not None:
            yield Unranked(each.run, metric, reason)
        elif len(values) < 2:
            yield Unranked(each.run, metric, "only-one")
    if len(values) < 2:
        return
    yield Board(metric, _entries(metric, values, standings))
    yield from (
        Unranked(name, metric, "too-few-times") for name, value in values.items() if value.low is None
    )


def _no_rate(standing: LeaderboardRun, metric: LeaderboardMetric) -> UnrankedReason | None:
    of_share = metric == SHARE
    return _first(
        (standing.tokens_per_iter is None, "tokens-unknown"),
        ("tokens-contradict" in standing.flaws, "tokens-contradict"),
        (standing.speed is None, "times-unknown"),
        (of_share and standing.gpu is None, "gpu-unknown"),
        (of_share and standing.share is None, "model-unknown"),
        (
            of_share and not standing.flaws.isdisjoint(("rate-impossible", "more-than-one-gpu")),
            "rate-impossible",
        ),
    )


def _entries(
    metric: LeaderboardMetric, values: Mapping[str, Interval], standings: Sequence[LeaderboardRun]
) -> tuple[Entry, ...]:
    better = BETTER[metric]
    sign = 1 if better == "lower" else -1
    ranked = sorted(values, key=lambda name: (values[name].low is None, sign * values[name].value))
    about = {each.run: each for each in standings}
    entries: list[Entry] = []
    place, first = 1, values[ranked[0]]
    for position, name in enumerate(ranked, start=1):
        value = values[name]
        if is_ahead(metric, better, first, value):
            place, first = position, value
        judged = None if value.low is None else place
        entries.append(Entry(name, judged, value, about[name].parameters, about[name].gpu))
    return tuple(entries)


def _held_back(standings: Sequence[LeaderboardRun], boards: Sequence[Board]) -> Iterator[str]:
    ends = {each.run: (each.tokens_per_iter or 0) * each.furthest for each in standings}
    for board in boards:
        if board.at_tokens is not None:
            yield from (each.run for each in board.entries if ends[each.run] > 2 * board.at_tokens)
