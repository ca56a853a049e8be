"""A judgement as a page for people and as a document for programs, and the history of what was kept."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.judging import JudgeCall, Judged, JudgeRules, NoiseFloor, target_of
from nanodyno.analysis.statistics import Interval
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.judging import JudgeMetric, VerdictLine
from nanodyno.report.prose import Prose

CALLS: dict[JudgeCall, str] = {
    "keep": "judge.call.keep",
    "discard": "judge.call.discard",
    "undecided": "judge.call.undecided",
}
COLOURS: dict[JudgeCall, str] = {"keep": "green", "discard": "red", "undecided": "yellow"}
MOST_PAIRS = 64
"""As --pairs of cli/judge.py takes them."""
EXIT_CODES: dict[JudgeCall, int] = {"keep": 0, "discard": 3, "undecided": 4}
BAR = 12


@dataclass(frozen=True)
class JudgePage:
    """One judgement: of a base and its candidates, at one size."""

    base: str
    judged: Sequence[Judged]
    floor: NoiseFloor | None
    rules: JudgeRules
    metric: JudgeMetric
    equal: str
    minutes: float
    iterations: Mapping[str, int]
    spent_seconds: float
    reused: int
    notes: Sequence[str] = ()
    interrupted: bool = False
    size: int | None = None
    """Depth, where a question is asked at several."""
    typed: Sequence[str] = ()
    """Options and settings of the command that are not as by default, for the next one."""


def judge_page(pages: Sequence[JudgePage], language: Language = ENGLISH) -> RenderableType:
    """The verdicts first, then a table, then what they rest on and what to do next."""
    pieces: list[RenderableType] = []
    for page in pages:
        if page.size is not None:
            pieces.append(Prose(language.say("judge.at-depth", depth=str(page.size)), style="bold"))
        pieces += [Prose(verdict_words(each, page, language)) for each in page.judged]
        pieces += [Text(), _table(page, language), Text()]
        pieces += [Prose(each, style="dim") for each in (*_rests_on(page, language), *page.notes)]
        if (command := next_command(page)) is not None:
            pieces.append(Prose(language.say("judge.next", command=command)))
    return Group(*pieces)


def verdict_words(judged: Judged, page: JudgePage, language: Language) -> str:
    """The verdict of one candidate in a sentence or two."""
    name = judged.name
    if judged.reason == "failed":
        return language.say("judge.verdict.failed", name=name, words=judged.failure or "")
    if judged.reason == "clear-loser":
        iteration = language.number(judged.stopped_at_iteration or 0, ",")
        return language.say("judge.verdict.clear-loser", name=name, iteration=iteration)
    if judged.reason == "behind-others":
        return language.say("judge.verdict.behind-others", name=name)
    if judged.improvement is None or judged.reason == "interrupted":
        return language.say("judge.verdict.interrupted", name=name)
    interval = _bounds(judged.improvement, page.metric, language)
    if judged.call == "keep":
        size = _size(judged.improvement.value, page.metric, language, sign="")
        words = "judge.verdict.keep-loss" if page.metric == "val_loss" else "judge.verdict.keep-speed"
        return language.say(words, name=name, size=size, interval=interval)
    assert page.floor is not None
    size = _size(judged.improvement.value, page.metric, language)
    target = _size(target_of(page.floor, page.rules), page.metric, language, sign="")
    words = "judge.verdict.discard" if judged.call == "discard" else "judge.verdict.undecided"
    return language.say(words, name=name, target=target, size=size, interval=interval)


def _table(page: JudgePage, language: Language) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("judge.column.candidate", "judge.column.verdict"):
        table.add_column(language.say(title), overflow="fold")
    for title in ("judge.column.improvement", "judge.column.interval", "judge.column.pairs", "common.time"):
        table.add_column(language.say(title), justify="right", no_wrap=True)
    for each in page.judged:
        found = each.improvement
        table.add_row(
            _foldable(each.name),
            Text(language.say(CALLS[each.call]), style=COLOURS[each.call]),
            "-" if found is None else _size(found.value, page.metric, language),
            "-" if found is None else _bounds(found, page.metric, language),
            str(each.pairs),
            quantities.duration(each.cost_seconds, language) if each.cost_seconds else "-",
        )
    return table


def _rests_on(page: JudgePage, language: Language) -> Sequence[str]:
    found = [
        language.say_plural(
            "judge.trainings",
            page.iterations.get(page.base, 0),
            base=page.base,
            duration=quantities.duration(60 * page.minutes, language),
        )
    ]
    if page.floor is not None:
        found.append(
            language.say_plural(
                "judge.noise-floor",
                page.floor.degrees + 1,
                size=_size(page.floor.sd, page.metric, language, sign=""),
            )
        )
        found.append(
            language.say(
                "judge.error-rates",
                false_keep=quantities.share(page.rules.false_keep, ".0f", language),
                missed=quantities.share(page.rules.missed, ".0f", language),
                target=_size(target_of(page.floor, page.rules), page.metric, language, sign=""),
            )
        )
    spent = quantities.duration(page.spent_seconds, language)
    found.append(language.say_plural("judge.cost", page.reused, duration=spent))
    return found


def next_command(page: JudgePage) -> str | None:
    """Return the command that builds on the best one that is kept, or asks again with twice the pairs.

    It does not ask again about some of several candidates: their own data would have chosen them.
    """
    kept = [each for each in page.judged if each.call == "keep" and each.improvement is not None]
    if kept:
        best = max(kept, key=lambda each: each.improvement.value if each.improvement else 0.0)
        return shlex.join(["nanodyno", "judge", source_of(page.base, best.name), "CANDIDATE", *page.typed])
    spent = [each.name for each in page.judged if each.reason == "pairs-spent"]
    if len(spent) == len(page.judged) and 2 * page.rules.pairs <= MOST_PAIRS:
        more = ["--pairs", str(2 * page.rules.pairs)]
        return shlex.join(["nanodyno", "judge", page.base, *spent, *page.typed, *more])
    return None


def source_of(base: str, typed: str) -> str:
    """Return a candidate as a source of its own: settings alone change the base."""
    return f"{base},{typed}" if "=" in typed.partition(",")[0] else typed


def judge_document(pages: Sequence[JudgePage]) -> dict[str, object]:
    """Of one size its own keys; of several also a list `sizes`."""
    documents = [_document(page) for page in pages]
    return documents[0] if len(documents) == 1 else {"sizes": documents}


def _document(page: JudgePage) -> dict[str, object]:
    floor = page.floor
    return {
        "base": page.base,
        "n_layer": page.size,
        "metric": page.metric,
        "equal": page.equal,
        "minutes": page.minutes,
        "false_keep": page.rules.false_keep,
        "noise_floor": None if floor is None else {"sd": floor.sd, "degrees_of_freedom": floor.degrees},
        "target": None if floor is None else target_of(floor, page.rules),
        "candidates": [
            {
                "name": each.name,
                "verdict": each.call,
                "reason": each.reason,
                "effect": None if each.improvement is None else each.improvement.document(),
                "pairs": each.pairs,
                "cost_seconds": each.cost_seconds,
                "failure": each.failure,
                "stopped_at_iteration": each.stopped_at_iteration,
            }
            for each in page.judged
        ],
        "cost_seconds": page.spent_seconds,
        "trainings_reused": page.reused,
        "interrupted": page.interrupted,
        "next": next_command(page),
    }


def exit_code(pages: Sequence[JudgePage]) -> int:
    """Keep before undecided before discard."""
    calls = {each.call for page in pages for each in page.judged}
    return next(
        EXIT_CODES[call] for call in ("keep", "undecided", "discard") if call in calls or call == "discard"
    )


def history_page(verdicts: Sequence[VerdictLine], language: Language = ENGLISH) -> RenderableType:
    """What was kept, the oldest first, with a bar of what it adds up to.

    Changes of one base are alternatives, of which the best counts.
    """
    kept = [each for each in verdicts if each.call == "keep" and each.improvement is not None]
    said = language.say_plural("judge.history.count", len(verdicts), kept=language.number(len(kept), ","))
    if not kept:
        return Prose(said)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("judge.column.day", "judge.column.base", "judge.column.candidate"):
        table.add_column(language.say(title), overflow="fold")
    table.add_column(language.say("judge.column.improvement"), justify="right", no_wrap=True)
    table.add_column(language.say("judge.column.total"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    totals = [_total(kept[: place + 1], each.metric) for place, each in enumerate(kept)]
    whole = {each.metric: _total(kept, each.metric) for each in kept}
    for each, total in zip(kept, totals, strict=True):
        filled = round(BAR * total / whole[each.metric]) if whole[each.metric] > 0 else 0
        day = datetime.fromtimestamp(each.at, UTC).date().isoformat()
        table.add_row(
            day,
            _foldable(each.base),
            _foldable(_named(each)),
            _size(each.improvement or 0.0, each.metric, language),
            _size(total, each.metric, language),
            "█" * filled,
        )
    return Group(Prose(said), Text(), table)


def _total(kept: Sequence[VerdictLine], metric: JudgeMetric) -> float:
    best: dict[tuple[str | None, int | None], float] = {}
    for each in kept:
        if each.metric == metric:
            place = each.base_digest or each.base, each.n_layer
            best[place] = max(best.get(place, 0.0), each.improvement or 0.0)
    return sum(best.values())


def _named(verdict: VerdictLine) -> str:
    """Return a candidate with its changes, where its name does not tell them."""
    if "=" in verdict.candidate:
        return verdict.candidate
    changes = ",".join(f"{key}={value}" for key, value in verdict.changes.items())
    return f"{verdict.candidate} ({changes})"


def _foldable(name: str) -> str:
    """Return a name that a narrow column folds between its settings."""
    return name.replace(",", ", ")


def history_document(verdicts: Sequence[VerdictLine]) -> list[dict[str, object]]:
    return [each.model_dump(mode="json", exclude={"kind"}) for each in verdicts]


def _size(value: float, metric: JudgeMetric, language: Language, sign: str = "+") -> str:
    """Nats of loss, or percent of speed, of which improvements are logarithms."""
    if metric == "val_loss":
        return language.number(value, f"{sign}.4f")
    return quantities.share(math.expm1(value), f"{sign}.1f", language)


def _bounds(found: Interval, metric: JudgeMetric, language: Language) -> str:
    assert found.low is not None
    assert found.high is not None
    low, high = (_size(each, metric, language) for each in (found.low, found.high))
    return language.say("judge.interval", low=low, high=high)
