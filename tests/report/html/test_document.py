"""A page as one file: well-formed, alone, legible, safe from what users name their runs."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.analysis.accounts import AFTER, BEFORE, account
from tests.report.html.static import Checked

from nanodyno.analysis.account import Account, AccountStep
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.messages.language import ENGLISH, LANGUAGES, Language
from nanodyno.report.figures import Bar, Bars
from nanodyno.report.html.document import to_html
from nanodyno.report.html.palette import DARK, LIGHT
from nanodyno.report.page import BulletList, FigureChoice, Folded, Page, Section, Table, Tile, Tiles, Verbatim
from nanodyno.report.pages.compare import comparison_report

NOW = datetime(2026, 11, 16, 7, 30, tzinfo=UTC)
ARABIC = LANGUAGES["ar"]
BARS = Bars("Time", "shares", (Bar("x", (1.0,), ("100%",)),))
EVERYTHING = Page(
    "test",
    (
        Section("the answer", ("It is so.", Tiles((Tile("speed", "1,234", "tokens"),)))),
        Section("pictures", (BARS, FigureChoice("over", (("tokens", BARS), ("time", BARS))))),
        Section(
            "tables",
            (
                Table(("run", "speed", "note"), (("a", "1", ""), ("b", "2", "x")), 1),
                Table(("", ""), (("k", "v"),)),
            ),
        ),
        Section("why", (BulletList(("because", "therefore"), (Table(("", ""), (("`ratio`", "2"),)), None)),)),
        Section(None, (Folded("more", ("inside",)), Verbatim("<code>\n  here"))),
    ),
)


def compared(*accounts: Account, language: Language = ENGLISH) -> str:
    comparison = compare([with_found_shape(each) for each in accounts])
    return to_html(comparison_report(comparison, conclusions(comparison), language), language, NOW)


@pytest.fixture(scope="module")
def case() -> str:
    return compared(BEFORE, AFTER)


def test_a_page_with_everything_is_well_formed_and_loads_nothing() -> None:
    page = Checked(to_html(EVERYTHING, ENGLISH, NOW))
    assert page.faults == []
    assert len(page.all_of("details")) == 2
    assert len(page.all_of("h1")) == 1
    assert "<code> here" in page.text


def test_the_case_is_well_formed_and_small(case: str) -> None:
    page = Checked(case)
    assert page.faults == []
    assert len(case.encode()) < 100_000
    assert "default-src 'none'" in case
    assert re.findall(r"https?://[^\s\"']+", case) == []


def test_every_picture_has_a_name_and_every_head_of_a_table_a_scope(case: str) -> None:
    page = Checked(case)
    pictures = page.all_of("svg")
    assert len(pictures) == 2 * 5  # tokens/s, rate of work, loss over three axes; each wide and slim
    assert {each["role"] for each in pictures} == {"img"}
    assert {each.get("scope") for each in page.all_of("th")} == {"col", "row"}
    assert len(page.all_of("caption")) == len(page.all_of("table"))
    assert all(each.get("type") == "button" for each in page.all_of("button"))


def test_the_answer_comes_first_then_pictures_then_tables_then_the_arithmetic(case: str) -> None:
    places = [
        case.index(each)
        for each in (
            "2.4x",
            "<svg",
            ENGLISH.say("compare.table.can-move"),
            ENGLISH.say("page.derivation.title"),
        )
    ]
    assert places == sorted(places)
    text = Checked(case).text
    assert "524,288 / 9.34 s = 56,134" in text
    assert "6 x 12 layers x 768 x (1024 + 1) = 797.9 MFLOP" in text


def test_names_of_runs_are_text_and_keep_their_direction_to_themselves() -> None:
    evil = '</title><script>alert("1")</script>\u202e&'
    text = compared(replace(BEFORE, name=evil), replace(AFTER, name="run_b"))
    page = Checked(text)
    assert page.faults == []
    assert len(page.all_of("script")) == 1
    isolated = "<bdi>&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;\u202e&amp;</bdi>"
    assert f"<h1>{isolated} and <bdi>run_b</bdi></h1>" in text
    assert '<p class="lead"><bdi>run_b</bdi> ' in text


def test_characters_that_a_document_may_not_have_are_replaced() -> None:
    assert "\x00" not in compared(replace(BEFORE, name="a\x00b"), AFTER)


def test_code_in_sentences_is_set_as_code() -> None:
    page = to_html(
        Page("k", (Section("t", ("give --gpu NAME or n_embd=768, see `nanodyno runs`.",)),)), ENGLISH, NOW
    )
    assert "give <code>--gpu</code> NAME or <code>n_embd=768</code>, see <code>nanodyno runs</code>." in page


def test_a_command_that_names_a_run_is_code_as_a_whole() -> None:
    sentence = "bg stopped: `nanodyno train --resume runs/bg` goes on; it lies in runs/bg."
    page = to_html(Page("k", (Section("t", (sentence,)),), ("bg", "runs/bg")), ENGLISH, NOW)
    assert (
        "<bdi>bg</bdi> stopped: <code>nanodyno train --resume runs/bg</code> goes on; it lies in "
        "<bdi>runs/bg</bdi>."
    ) in page


def test_arabic_reads_from_the_right_and_pictures_from_the_left() -> None:
    text = compared(BEFORE, AFTER, language=ARABIC)
    page = Checked(text)
    assert page.faults == []
    assert page.all_of("html") == [{"lang": "ar", "dir": "rtl"}]
    assert {each["dir"] for each in page.all_of("div") if each.get("class") == "picture"} == {"ltr"}
    assert {each["direction"] for each in page.all_of("svg")} == {"ltr"}


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_page_says_its_language(code: str) -> None:
    assert f'<html lang="{code}"' in to_html(EVERYTHING, LANGUAGES[code], NOW)


def test_a_metric_that_nobody_tells_is_a_sentence_and_no_empty_picture() -> None:
    silent = [account(name, steps=(), evals=()) for name in ("a", "b")]
    text = compared(*silent)
    page = Checked(text)
    assert ENGLISH.say("losses.none-known") in page.text
    assert ENGLISH.say("compare.picture.no-tokens-per-second") in page.text
    assert page.all_of("svg") == []


def test_a_metric_that_one_run_lacks_is_said_beside_the_picture() -> None:
    text = Checked(compared(account("a"), account("mute", steps=()))).text
    assert ENGLISH.say("compare.picture.unknown-for-runs", runs="mute") in text
    assert ENGLISH.say("losses.note.runs-left-out", runs="mute") in text  # over time


def test_losses_that_are_no_numbers_leave_the_rest_to_be_drawn() -> None:
    broken = account(
        "a",
        steps=(
            AccountStep(0, float("nan"), 1.0),
            AccountStep(1, 5.0, 1.0),
            AccountStep(2, float("inf"), 1.0),
        ),
    )
    text = compared(broken, account("b"))
    assert Checked(text).faults == []
    assert not re.search(r'="[^"]*\b(nan|inf)\b[^"]*"', text)


def test_twenty_thousand_steps_make_a_small_page() -> None:
    long = tuple(AccountStep(n, 11 / (1 + n) ** 0.2, 1.0) for n in range(20_000))
    text = compared(account("a", steps=long), account("b", steps=long))
    assert len(text.encode()) < 400_000


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_both_grounds(theme: dict[str, str]) -> None:
    """WCAG AA: 4.5 to 1 for text; lines and bars are as dark, since labels have their colours."""
    written = [name for name in theme if name not in ("ground", "raised", "rule")]
    for ground in ("ground", "raised"):
        low = {name: round(contrast(theme[name], theme[ground]), 2) for name in written}
        assert {name: value for name, value in low.items() if value < 4.5} == {}


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_reckoned_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_what_an_arabic_and_is_written_onto_is_code_or_a_name_all_the_same() -> None:
    said = Section("run_a وrun_b", ("كلٌّ من n_embd وbatch_size",))
    page = to_html(Page("k", (said,), ("run_a", "run_b")), LANGUAGES["ar"], NOW)
    assert "<bdi>run_a</bdi> و<bdi>run_b</bdi>" in page
    assert "<code>n_embd</code> و<code>batch_size</code>" in page


def test_arabic_words_that_begin_with_a_number_go_from_the_right() -> None:
    """By the first letter alone, the M of 81.4M, a browser would set them from the left."""
    facts = Table(("", ""), (("النموذج", "81.4M من المعاملات"), ("run", "9 GiB")))
    page = to_html(Page("k", (Section("s", (facts,)),)), LANGUAGES["ar"], NOW)
    assert '<td><bdi dir="rtl">\u206881.4M\u2069 من المعاملات</bdi></td>' in page
    assert "<td><bdi>\u20689 GiB\u2069</bdi></td>" in page
