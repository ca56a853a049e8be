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
from nanodyno.report.document import as_document
from nanodyno.report.page import BulletList, Section, Table

TITLES: dict[LeaderboardMetric, str] = {
    "val_loss_at_equal_tokens": "val loss",
    "tokens_per_second": "tokens per second",
    "mfu": "MFU",
}
REASONS: dict[UnrankedReason, str] = {
    "no-evaluation": "no evaluation of a trained model",
    "tokens-unknown": "tokens per iteration not known (--set tokens_per_iter=...)",
    "tokens-contradict": "the tokens per iteration that it prints are not those of its settings",
    "text-unknown": "text or tokenizer not reported (import with --set dataset=... --set tokenizer=...)",
    "only-one-of-its-text": "no other run has the same text and tokenizer; other losses do not compare",
    "not-evaluated-there": "no evaluation near the same number of tokens as the others",
    "dead": "its latest losses are NaN/inf, or not below those of an untrained model",
    "perplexity-as-loss": "what is called a val loss is a perplexity",
    "other-schedule": "its learning rate is at another stage of its schedule there than the others'",
    "times-unknown": "no times reported",
    "too-few-iterations": "too few undisturbed iterations for an interval",
    "speed-uncertain": "its speed does not fit the time that it took",
    "machine-busy": "the machine was busy, or its GPU was throttled or shared",
    "other-data": "its text is not that of the best run",
    "unrecorded-difference": "no recorded setting explains how far it lies from the best run",
    "model-unknown": "the model, or the GPU's peak at this precision, is not known",
    "gpu-unknown": "GPU not known (import with --gpu NAME)",
    "on-cpu": "trained on a CPU, which has no datasheet peak",
    "rate-impossible": "more than the GPU can do: the GPU, the model or the times are not as reported",
    "only-one-of-its-device": "no other run on the same device",
    "only-one": "no other run to rank it with",
}
SHARED = "Runs share a rank where no significant difference is shown: another start or seed differs as much."


def leaderboard_page(found: Leaderboard) -> list[Section]:
    sections = [Section(_title(board), (_table(board),)) for board in found.boards]
    if any(_is_shared(board) for board in found.boards):
        sections.append(Section(None, (SHARED,)))
    if found.compared_early:
        names = ", ".join(found.compared_early)
        words = f"Losses are compared where most runs were evaluated; {names} went more than twice as far."
        sections.append(Section(None, (f"{words} Name runs to rank those alone.",)))
    if found.unranked:
        sections.append(Section("not ranked", (BulletList(_reasons(found.unranked)),)))
    return sections


def leaderboard_document(found: Leaderboard) -> dict[str, object]:
    return as_document(found)


def _title(board: Board) -> str:
    title = TITLES[board.metric]
    if board.device is not None:
        return f"{title} on {board.device}"
    if board.text is None or board.at_tokens is None:
        return title
    return f"{title} on {board.text.dataset} ({board.text.tokens}) after {q.count(board.at_tokens)} tokens"


def _table(board: Board) -> Table:
    named = board.device is None and any(entry.device for entry in board.entries)
    within = "95% CI" if board.metric == "val_loss_at_equal_tokens" else "95% CI of the run itself"
    headers = ("", "run", "params", TITLES[board.metric], within, "device" if named else "")
    rows = tuple(_row(board.metric, entry, named) for entry in board.entries)
    return Table(headers, rows, figures_from=2)


def _row(metric: LeaderboardMetric, entry: Entry, named: bool) -> tuple[str, ...]:
    value = entry.value
    within = "-"
    if value.low is not None and value.high is not None:
        within = f"{_shown(metric, value.low)} to {_shown(metric, value.high)}"
    return (
        "-" if entry.rank is None else str(entry.rank),
        entry.run,
        "-" if entry.parameters is None else q.count(entry.parameters),
        _shown(metric, value.value),
        within,
        (entry.device or "-") if named else "",
    )


def _shown(metric: LeaderboardMetric, value: float) -> str:
    if metric == "val_loss_at_equal_tokens":
        return f"{value:.4f}"
    return q.rate(value) if metric == "tokens_per_second" else q.percent(value)


def _is_shared(board: Board) -> bool:
    places = [entry.rank for entry in board.entries if entry.rank is not None]
    return len(set(places)) < len(places)


def _reasons(unranked: Sequence[Unranked]) -> tuple[str, ...]:
    """Runs with the same gap in one sentence."""
    runs: dict[tuple[LeaderboardMetric, UnrankedReason], list[str]] = {}
    for each in unranked:
        runs.setdefault((each.metric, each.reason), []).append(each.run)
    return tuple(
        f"{TITLES[metric]}: {', '.join(names)}: {REASONS[reason]}" for (metric, reason), names in runs.items()
    )
