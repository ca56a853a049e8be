"""What stands on the page of an attribution, and on that of a comparison which has one."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.accounts import AFTER, BEFORE
from tests.report.html.static import Checked

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH, LANGUAGES, Language
from nanodyno.report.attribute import title_words
from nanodyno.report.compare import first_page
from nanodyno.report.figures import Waterfall
from nanodyno.report.html.document import to_html
from nanodyno.report.page import Page, Table
from nanodyno.report.pages.attribute import attribution_report
from nanodyno.report.pages.compare import comparison_report

PARTS = ("attribute.parts.title", "attribute.section.combinations", "attribute.section.findings")
RATE = 16_384 / 100
"""Tokens per second of the made-up card: 308, 427, 172 and 396 of these."""


@pytest.fixture
def found(attributions: Any, tmp_path: Path) -> Attribution:
    asked = attributions.inquiry(names=("train2", "train1"))
    return attributions.measure(asked, tmp_path, attributions.surface(noise=0.0001))[0]


def waterfalls(page: Page) -> list[Waterfall]:
    return [part for section in page.sections for part in section.parts if isinstance(part, Waterfall)]


def text(page: Page, language: Language = ENGLISH) -> str:
    checked = Checked(to_html(page, language, datetime(2026, 1, 1, tzinfo=UTC)))
    assert checked.faults == []
    return checked.text


def test_the_page_goes_from_the_answer_over_the_parts_to_every_combination(found: Attribution) -> None:
    page = attribution_report(found, ENGLISH)
    titles = [section.title for section in page.sections]
    assert titles[1:4] == [ENGLISH.say(each) for each in PARTS]
    (difference,) = [words(each) for each in attribution_findings(found) if each.code == "difference"]
    parts = [part for section in page.sections for part in section.parts]
    assert parts.count(difference) == 1
    text(page)


def test_of_three_changes_a_combination_is_named_by_what_is_changed_in_it(
    attributions: Any, tmp_path: Path
) -> None:
    """A column for each of three settings beside six figures would have to be scrolled sideways."""
    after = {"n_embd": 256, "batch_size": 2, "bias": True}
    page = attribution_report(attributions.measure(attributions.inquiry(after), tmp_path)[0], ENGLISH)
    title = ENGLISH.say("attribute.section.combinations")
    (section,) = [each for each in page.sections if each.title == title]
    (table,) = [part for part in section.parts if isinstance(part, Table)]
    assert len(table.headers) == 7
    assert [row[0] for row in table.rows] == [
        "before", "n_embd=256", "bias=True", "n_embd=256, bias=True", "batch_size=2",
        "n_embd=256, batch_size=2", "bias=True, batch_size=2", "after",
    ]  # fmt: skip


def test_the_waterfall_ends_where_after_is(found: Attribution) -> None:
    """In which n_embd has the mean of its two steps on the scale of logarithms."""
    (picture,) = waterfalls(attribution_report(found, ENGLISH))
    assert picture.before.value == pytest.approx(308 * RATE, rel=0.001)
    assert picture.after.value == pytest.approx(396 * RATE, rel=0.001)
    width, micro_batch = picture.parts
    ratio = (427 / 308 * 396 / 172) ** 0.5
    assert width.change == pytest.approx(308 * RATE * (ratio - 1), rel=0.01)
    assert width.low is not None
    assert width.high is not None
    assert width.low < width.change < width.high
    assert (width.words[0], micro_batch.words[0]) == ("+", "-")
    assert picture.more_is_better


def test_without_a_combination_there_is_no_waterfall(attributions: Any, tmp_path: Path) -> None:
    surface = attributions.surface(too_large=((256, 4),))
    page = attribution_report(attributions.measure(attributions.inquiry(), tmp_path, surface)[0], ENGLISH)
    assert waterfalls(page) == []
    assert ENGLISH.say("common.does-not-fit") in text(page)


def test_a_comparison_shows_what_was_measured_apart(found: Attribution) -> None:
    comparison = compare((BEFORE, AFTER))
    page = comparison_report(comparison, conclusions(comparison), ENGLISH, [found])
    assert len(waterfalls(page)) == 1
    reported = text(page)
    title = title_words(found, ENGLISH)
    assert ENGLISH.say("attribute.embedded.measured-apart", title=title) in reported
    places = [
        reported.index(ENGLISH.say(each))
        for each in ("compare.section.changes", "attribute.parts.title", "compare.section.metrics")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("code", [each for each in LANGUAGES if each != "en"])
def test_it_is_whole_in_every_language(found: Attribution, code: str) -> None:
    page, language = attribution_report(found, LANGUAGES[code]), LANGUAGES[code]
    assert ENGLISH.say("attribute.parts.title") not in text(page, language).lower()
    html = to_html(page, language, datetime(2026, 1, 1, tzinfo=UTC))
    assert "<code>n_embd=128</code>, <code>batch_size=2</code>" in html  # as it is typed


def test_the_first_page_of_a_comparison_has_the_measured_effects(found: Attribution) -> None:
    comparison = compare((BEFORE, AFTER))
    answer, *rest = first_page(comparison, conclusions(comparison), [found], "nanodyno compare a b --all")
    measured = [each for each in answer.parts if isinstance(each, str) and found.machine.device_name in each]
    assert len(measured) == 1
    assert all(factor.name in measured[0] for factor in found.design.factors)
    said = [part for section in rest for part in section.parts if isinstance(part, str)]
    assert not [each for each in said if "nanodyno attribute" in each]
