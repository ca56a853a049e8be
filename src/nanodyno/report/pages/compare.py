"""A comparison as a page to open: the answer, pictures, tables, and the arithmetic behind it."""

from collections.abc import Callable, Sequence

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.compare import ComparedMetric, RunComparison
from nanodyno.analysis.findings import Finding
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.report.attribute import measured_apart
from nanodyno.report.behind import derivations, numbers_table
from nanodyno.report.compare import answering, comparison_page
from nanodyno.report.figures import Estimate, Intervals
from nanodyno.report.page import Folded, Page, PageElement, Section
from nanodyno.report.pages.losses import loss_pictures

RATES: tuple[tuple[str, str, str, Callable[[float, Language], str]], ...] = (
    (
        "tokens_per_second",
        "common.tokens-per-second",
        "compare.picture.no-tokens-per-second",
        q.rate,
    ),
    (
        "achieved_flops_per_second",
        "common.work-rate-exact",
        "compare.picture.no-work-rate",
        q.flop_rate,
    ),
)


def comparison_report(
    comparison: RunComparison,
    findings: Sequence[Finding],
    language: Language,
    attributions: Sequence[Attribution] = (),
) -> Page:
    answer, changed, *rest = comparison_page(comparison, findings, language, attributions)
    said = answering(findings) if len(comparison.groups) == 2 else []
    tables = [table for each in said if (table := numbers_table(each.numbers)) is not None]
    behind = (Folded(language.say("page.numbers-behind"), tuple(tables)),) if tables else ()
    answer = Section(answer.title, (*answer.parts, *behind))
    names = tuple(account.name for account in comparison.accounts)
    speed = tuple(_rates(comparison, *each, language) for each in RATES)
    pictures = [
        Section(language.say("common.speed"), speed),
        Section(language.say("common.loss"), (loss_pictures(comparison.accounts, language),)),
    ]
    memory = _memory(comparison, language)
    if memory is not None:
        pictures.append(Section(language.say("common.memory"), (memory,)))
    folded = derivations(comparison.accounts, language)
    more = [] if folded is None else [Section(None, (folded,))]
    apart = measured_apart(attributions, language)
    return Page(language.say("compare.page-title"), (answer, *pictures, changed, *apart, *rest, *more), names)


def _rates(
    comparison: RunComparison,
    name: str,
    title: str,
    missing: str,
    words: Callable[[float, Language], str],
    language: Language,
) -> PageElement:
    metric = _metric(comparison, name)
    if metric is None:
        return language.say(missing)
    rows = tuple(
        Estimate(account.name, found.value, words(found.value, language), found.low, found.high, number)
        for number, account in enumerate(comparison.accounts)
        if (found := metric.values.get(account.name)) is not None
    )
    description = language.say("compare.picture.speed-note")
    absent = [each.name for each in comparison.accounts if each.name not in metric.values]
    if absent:
        missing = language.say("compare.picture.unknown-for-runs", runs=language.joined(absent))
        description = language.together([description, missing])
    return Intervals(language.say(title), description, "", lambda value: words(value, language), rows)


def _memory(comparison: RunComparison, language: Language) -> Intervals | None:
    metric = _metric(comparison, "peak_allocated_bytes")
    if metric is None:
        return None
    rows = tuple(
        Estimate(account.name, found.value, q.gib(int(found.value), language), colour=number)
        for number, account in enumerate(comparison.accounts)
        if (found := metric.values.get(account.name)) is not None
    )
    description = language.say("compare.picture.memory-note")
    return Intervals(
        language.say("common.peak-memory"), description, "", lambda value: q.gib(int(value), language), rows
    )


def _metric(comparison: RunComparison, name: str) -> ComparedMetric | None:
    return next((metric for metric in comparison.metrics if metric.name == name), None)
