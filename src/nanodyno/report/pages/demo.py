"""The demo as a page to open: its two runs compared, what tuning found, what the better one writes."""

from collections.abc import Sequence

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.compare import RunComparison
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.tuning import Tuning
from nanodyno.messages.language import Language
from nanodyno.report.page import Page, Section, Verbatim
from nanodyno.report.pages.compare import comparison_report
from nanodyno.report.pages.tune import speed_section


def demo_report(
    comparison: RunComparison,
    findings: Sequence[Finding],
    tuning: Tuning | None,
    written: tuple[str, str],
    language: Language,
    attributions: Sequence[Attribution] = (),
) -> Page:
    """`written`: by which run, and the text."""
    compared = comparison_report(comparison, findings, language, attributions)
    answer, *rest = compared.sections
    name, text = written
    sample = Section(language.say("demo.sample.title", name=name), (Verbatim(text),))
    tuned = () if tuning is None else (speed_section(tuning, language),)
    return Page(language.say("demo.page-title"), (answer, sample, *tuned, *rest), compared.names)
