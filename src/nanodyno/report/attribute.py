"""An attribution as a page for people."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.analysis.effects import Effect
from nanodyno.analysis.findings import Finding, Severity
from nanodyno.messages import quantities
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import confidence_words, written
from nanodyno.report.attribute_picture import waterfall, waterfall_figure
from nanodyno.report.attribute_tables import combinations_table, factor_words, judged, parts_table, size_words
from nanodyno.report.behind import numbers_table
from nanodyno.report.page import BulletList, PageElement, Section, Table, to_terminal
from nanodyno.report.prose import Prose

TITLED = {
    "tokens_per_second": "common.tokens-per-second",
    "achieved_flops_per_second": "common.work-rate-exact",
    "val_loss": "common.val-loss",
}
METRICS = {
    "tokens_per_second": "common.throughput",
    "achieved_flops_per_second": "common.work-rate",
    "val_loss": "common.val-loss",
}
OF_THE_WHOLE = frozenset({"difference", "difference-tied", "difference-not-shown", "difference-once"})
FIRST_FINDINGS: dict[Severity, int] = {"fact": 2, "wrong": 1, "caution": 3, "next": 1}
"""What the first page has of each at most."""
TOLD_BY_TABLES = frozenset({"part", "part-tied", "part-not-shown", "part-once"})
TITLES: tuple[tuple[str, tuple[Severity, ...]], ...] = (
    ("attribute.section.findings", ("fact",)),
    ("common.section.caveats", ("wrong", "caution")),
    ("common.section.next", ("next",)),
)


def attribution_page(
    found: Attribution, width: int, language: Language = ENGLISH, everything: bool = True
) -> RenderableType:
    """The answer, then the effects, then the rest; the first page has of that only the most important."""
    findings = attribution_findings(found)
    pieces: list[RenderableType] = [Prose(title_words(found, language), style="bold"), Text()]
    if found.interrupted:
        pieces.append(Prose(stopped_words(language), style="yellow"))
    pieces += [Prose(each) for each in answer_words(found, findings, language)]
    if found.look.effects.parts:
        pieces += [Text(), parts_table(found, width, language), Text(), waterfall(found, width, language)]
    if everything or not found.look.effects.parts:
        pieces += [Text(), combinations_table(found, width, language)]
    rest = [each for each in findings if each.code not in OF_THE_WHOLE]
    sections = attribution_sections(rest if everything else _first(rest), language)
    notes = list(remarks(found, language)) if everything else [language.say("attribute.note.more")]
    return Group(
        *pieces, Text(), to_terminal(sections), Text(), *(Prose(each, style="dim") for each in notes)
    )


def _first(findings: Sequence[Finding]) -> list[Finding]:
    """Of each severity the first few, in the order that they have."""
    reported = [each for each in findings if each.code not in TOLD_BY_TABLES]
    kept: list[Finding] = []
    for severity, most in FIRST_FINDINGS.items():
        kept += [each for each in reported if each.severity == severity][:most]
    return [each for each in reported if each in kept]


def answer_words(found: Attribution, findings: Sequence[Finding], language: Language) -> list[str]:
    """Which change has the largest effect, if one has, and the whole difference."""
    whole = [words(each, language) for each in findings if each.code in OF_THE_WHOLE]
    return [*_largest(found, language), *whole]


def _largest(found: Attribution, language: Language) -> Iterator[str]:
    """Called the largest only where its interval lies beyond those of all others."""
    parts = found.look.effects.parts
    if len(parts) < 2:
        return
    order = sorted(range(len(parts)), key=lambda number: -abs(parts[number].interval.value))
    first, *others = (_bounds(parts[number]) for number in order)
    if first is None:
        return
    if all(each.call != "different" for each in parts):
        metric = written("metric", found.metric, {}, language)
        yield language.say("attribute.answer.none", metric=metric)
        return
    apart = all(each is not None and each[1] < first[0] for each in others)
    answer = "attribute.answer.larger" if len(parts) == 2 else "attribute.answer.largest"
    interval = parts[order[0]].interval
    ends = [None if each is None else found.change(each) for each in (interval.low, interval.high)]
    yield language.say(
        answer if apart else "attribute.answer.unclear",
        change=factor_words(found.design.factors[order[0]], language),
        size=size_words(found, parts[order[0]], language),
        metric=written("metric", found.metric, {}, language),
        interval=confidence_words(ends[0], ends[1], found.metric, language),
    )


def _bounds(effect: Effect) -> tuple[float, float] | None:
    """Of its size, whichever way it goes."""
    low, high = effect.interval.low, effect.interval.high
    if low is None or high is None:
        return None
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return least, max(abs(low), abs(high))


def stopped_words(language: Language) -> str:
    return language.say("common.stopped-can-continue")


def title_words(found: Attribution, language: Language = ENGLISH) -> str:
    device, limit = found.machine.device_name, found.memory_limit_bytes
    if limit is not None:
        size = quantities.gib(limit, language)
        device = language.say("common.device-memory-limit", device=device, size=size)
    before, after = found.names
    return language.say(
        "attribute.title",
        before=before,
        after=after,
        device=device,
        metric=language.say(TITLED[found.metric]),
    )


def attribution_sections(findings: Sequence[Finding], language: Language = ENGLISH) -> list[Section]:
    """What stands in the tables is not said again."""
    reported = [each for each in findings if each.code not in TOLD_BY_TABLES]
    by_title = ((title, [each for each in reported if each.severity in kinds]) for title, kinds in TITLES)
    return [Section(language.say(title), (points(each, language),)) for title, each in by_title if each]


def points(findings: Sequence[Finding], language: Language) -> BulletList:
    sentences = tuple(words(each, language) for each in findings)
    return BulletList(sentences, tuple(numbers_table(each.numbers) for each in findings))


def measured_apart(attributions: Sequence[Attribution], language: Language = ENGLISH) -> list[Section]:
    """For the page of a comparison, of which these are attributions."""
    work = next((each for each in attributions if each.metric == "achieved_flops_per_second"), None)
    return [
        _embedded(each, work if each.metric == "tokens_per_second" else None, language)
        for each in attributions
        if each is not work
    ]


def _embedded(found: Attribution, work: Attribution | None, language: Language) -> Section:
    """Which device it was, a row a change, and what was found.

    work: the same measurements as rates of work, where they differ from those of tokens.
    """
    reported: list[PageElement] = [
        language.say("attribute.embedded.measured-apart", title=title_words(found, language))
    ]
    if found.look.effects.parts:
        shown = [found] if work is None else [found, work]
        interval = language.say("common.interval")
        heads = [title for each in shown for title in (language.say(METRICS[each.metric]), interval)]
        rows = tuple(_rows(shown, language))
        reported += [
            *(waterfall_figure(each, language) for each in shown),
            Table((language.say("common.change"), *heads, ""), rows, figures_from=1),
        ]
    findings = [each for each in attribution_findings(found) if each.code not in TOLD_BY_TABLES]
    return Section(language.say("attribute.parts.title"), (*reported, points(findings, language)))


def _rows(shown: Sequence[Attribution], language: Language) -> Iterator[tuple[str, ...]]:
    for number, factor in enumerate(shown[0].design.factors):
        cells: list[str] = []
        for each in shown:
            part = each.look.effects.parts[number]
            cells += [size_words(each, part, language), judged(each, part, language)[0]]
        call = judged(shown[0], shown[0].look.effects.parts[number], language)[1]
        yield factor_words(factor, language), *cells, call


def remarks(found: Attribution, language: Language = ENGLISH) -> Iterator[str]:
    if len(found.look.kept) > 1:
        yield language.say_plural(
            "attribute.note.interval-rounds",
            len(found.look.kept),
            level=quantities.share(found.look.level, ".3g", language),
        )
    if found.budget_seconds is not None:
        yield _spent(found, found.budget_seconds, language)
    yield from found.notes


def _spent(found: Attribution, budget_seconds: float, language: Language) -> str:
    spent, budget = (quantities.clock(each, language) for each in (found.spent_seconds, budget_seconds))
    if not found.reused:
        return language.say("common.measuring-time", spent=spent, budget=budget)
    return language.say_plural(
        "attribute.note.measuring-time-reused",
        found.reused,
        spent=spent,
        budget=budget,
    )
