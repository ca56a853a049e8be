"""A leaderboard on one page: what is ranked, and why the rest is not."""

from collections.abc import Sequence

from nanodyno.analysis.leaderboard import (
    Board,
    Entry,
    Leaderboard,
    LeaderboardMetric,
    Unranked,
    UnrankedReason,
)
from nanodyno.messages import quantities as q
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.document import as_document
from nanodyno.report.page import BulletList, Section, Table

TITLES: dict[LeaderboardMetric, str] = {
    "val_loss_at_equal_tokens": "common.val-loss",
    "tokens_per_second": "common.tokens-per-second",
    "mfu": "compare.metric.mfu",
}
REASONS: dict[UnrankedReason, str] = {
    "dead": "compare.leaderboard.reason.dead",
    "gpu-shared": "compare.leaderboard.reason.gpu-shared",
    "gpu-throttled": "compare.leaderboard.reason.gpu-throttled",
    "gpu-unknown": "compare.leaderboard.reason.gpu-unknown",
    "machine-busy": "compare.leaderboard.reason.machine-busy",
    "model-unknown": "compare.leaderboard.reason.model-unknown",
    "no-evaluation": "compare.leaderboard.reason.no-evaluation",
    "not-evaluated-there": "compare.leaderboard.reason.not-evaluated-there",
    "on-cpu": "compare.leaderboard.reason.on-cpu",
    "only-one": "compare.leaderboard.reason.only-one",
    "only-one-of-its-device": "compare.leaderboard.reason.only-one-of-its-device",
    "only-one-of-its-text": "compare.leaderboard.reason.only-one-of-its-text",
    "other-data": "compare.leaderboard.reason.other-data",
    "other-schedule": "compare.leaderboard.reason.other-schedule",
    "perplexity-as-loss": "compare.leaderboard.reason.perplexity-as-loss",
    "rate-impossible": "compare.leaderboard.reason.rate-impossible",
    "speed-uncertain": "compare.leaderboard.reason.speed-uncertain",
    "text-unknown": "compare.leaderboard.reason.text-unknown",
    "times-unknown": "compare.leaderboard.reason.times-unknown",
    "tokens-contradict": "compare.leaderboard.reason.tokens-contradict",
    "tokens-unknown": "compare.leaderboard.reason.tokens-unknown",
    "too-few-iterations": "compare.leaderboard.reason.too-few-iterations",
    "unrecorded-difference": "compare.leaderboard.reason.unrecorded-difference",
}


def leaderboard_page(found: Leaderboard, language: Language = ENGLISH) -> list[Section]:
    sections = [Section(_title(board, language), (_table(board, language),)) for board in found.boards]
    if any(_is_shared(board) for board in found.boards):
        sections.append(Section(None, (language.say("compare.leaderboard.shared"),)))
    if found.compared_early:
        names = language.joined(found.compared_early)
        sections.append(Section(None, (language.say("compare.leaderboard.compared-early", runs=names),)))
    if found.unranked:
        sections.append(
            Section(
                language.say("compare.leaderboard.not-ranked"),
                (BulletList(_reasons(found.unranked, language)),),
            )
        )
    return sections


def leaderboard_document(found: Leaderboard) -> dict[str, object]:
    return as_document(found)


def _title(board: Board, language: Language) -> str:
    title = language.say(TITLES[board.metric])
    if board.device is not None:
        return language.say("compare.leaderboard.title.on-device", metric=title, device=board.device)
    if board.text is None or board.at_tokens is None:
        return title
    return language.say(
        "compare.leaderboard.title.on-text",
        metric=title,
        dataset=board.text.dataset,
        tokens_of=board.text.tokens,
        tokens=q.count(board.at_tokens, language),
    )


def _table(board: Board, language: Language) -> Table:
    named = board.device is None and any(entry.device for entry in board.entries)
    of_loss = board.metric == "val_loss_at_equal_tokens"
    headers = (
        "",
        language.say("common.run"),
        language.say("compare.leaderboard.column.parameters"),
        language.say(TITLES[board.metric]),
        language.say("compare.leaderboard.column.ci" if of_loss else "compare.leaderboard.column.ci-of-run"),
        language.say("compare.leaderboard.column.device") if named else "",
    )
    rows = tuple(_row(board.metric, entry, named, language) for entry in board.entries)
    return Table(headers, rows, figures_from=2)


def _row(metric: LeaderboardMetric, entry: Entry, named: bool, language: Language) -> tuple[str, ...]:
    value = entry.value
    within = "-"
    if value.low is not None and value.high is not None:
        bounds = (_shown(metric, each, language) for each in (value.low, value.high))
        within = language.say("common.range", **dict(zip(("low", "high"), bounds, strict=True)))
    return (
        "-" if entry.rank is None else str(entry.rank),
        entry.run,
        "-" if entry.parameters is None else q.count(entry.parameters, language),
        _shown(metric, value.value, language),
        within,
        (entry.device or "-") if named else "",
    )


def _shown(metric: LeaderboardMetric, value: float, language: Language) -> str:
    if metric == "val_loss_at_equal_tokens":
        return language.number(value, ".4f")
    return q.rate(value, language) if metric == "tokens_per_second" else q.percent(value, language)


def _is_shared(board: Board) -> bool:
    places = [entry.rank for entry in board.entries if entry.rank is not None]
    return len(set(places)) < len(places)


def _reasons(unranked: Sequence[Unranked], language: Language) -> tuple[str, ...]:
    """Runs with the same gap in one line."""
    runs: dict[tuple[LeaderboardMetric, UnrankedReason], list[str]] = {}
    for each in unranked:
        runs.setdefault((each.metric, each.reason), []).append(each.run)
    return tuple(
        language.say(
            "compare.leaderboard.skipped",
            metric=language.say(TITLES[metric]),
            runs=language.joined(names),
            reason=language.say(REASONS[reason]),
        )
        for (metric, reason), names in runs.items()
    )
