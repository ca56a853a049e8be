"""Which language a reader gets, and how it writes numbers, dates and lists."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from nanodyno.messages.language import ENGLISH, LANGUAGES, language_for, not_quite


@pytest.mark.parametrize(
    ("wanted", "environment", "code"),
    [
        ("ja", {"LANG": "fr_FR.UTF-8"}, "ja"),
        (None, {"LANG": "fr_FR.UTF-8"}, "fr"),
        (None, {"LC_ALL": "ar_EG.UTF-8", "LC_MESSAGES": "fr", "LANG": "hi_IN"}, "ar"),
        (None, {"LC_ALL": "", "LC_MESSAGES": "hi_IN.UTF-8", "LANG": "fr"}, "hi"),
        ("zh_TW", {}, "zh-Hant"),
        ("zh-Hant-HK", {}, "zh-Hant"),
        ("zh", {}, "zh-Hant"),
        ("fr_CA@euro", {}, "fr"),
        ("FR", {}, "fr"),
        (None, {}, "en"),
        (None, {"LANG": "C.UTF-8"}, "en"),
        (None, {"LANG": "POSIX"}, "en"),
        ("en-GB", {}, "en"),
    ],
)
def test_the_option_comes_before_the_locale_and_a_place_counts_for_its_language(
    wanted: str | None, environment: dict[str, str], code: str
) -> None:
    assert language_for(wanted, environment).code == code
    assert not_quite(wanted, environment) is None


@pytest.mark.parametrize(
    ("wanted", "code"),
    [("de", "en"), ("zh-Hans", "zh-Hant"), ("zh_CN", "zh-Hant"), ("klingon", "en"), ("../../x", "en")],
)
def test_a_language_that_is_lacking_gives_the_nearest_and_says_so(wanted: str, code: str) -> None:
    assert language_for(wanted, {}).code == code
    reported = not_quite(wanted, {})
    assert reported is not None
    assert f"in {code};" in reported
    assert not_quite(None, {"LANG": wanted}) == reported


def test_only_arabic_is_written_from_the_right() -> None:
    assert [code for code, each in LANGUAGES.items() if each.direction == "rtl"] == ["ar"]


def test_numbers_are_rounded_alike_and_marked_as_each_language_does() -> None:
    assert {code: each.number(1234567.891, ",.2f") for code, each in LANGUAGES.items()} == {
        "en": "1,234,567.89",
        "zh-Hant": "1,234,567.89",
        "ja": "1,234,567.89",
        "hi": "1,234,567.89",
        "fr": "1\u202f234\u202f567,89",
        "ar": "1,234,567.89",
    }


def test_an_exponent_is_as_programs_write_it() -> None:
    assert LANGUAGES["ar"].number(3e-05, "g") == "3e-05"
    assert LANGUAGES["fr"].number(-1.5e-05, "g") == "-1,5e-05"


def test_a_date_is_written_out_but_in_english_as_programs_write_it() -> None:
    moment = datetime(2026, 11, 16, 7, 5, tzinfo=UTC)
    assert ENGLISH.moment(moment) == "2026-11-16 07:05 UTC"
    assert LANGUAGES["fr"].date(moment) == "16 novembre 2026"
    assert LANGUAGES["ja"].date(moment) == "2026年11月16日"
    assert LANGUAGES["ar"].date(moment) == "16 نوفمبر 2026"


def test_lists_have_one_and() -> None:
    assert ENGLISH.listed(["a"]) == "a"
    assert ENGLISH.listed(["a", "b", "c"]) == "a, b and c"


def test_values_are_not_read_as_messages() -> None:
    assert ENGLISH.say("list.sentence-end", sentence="{odd} 100%") == "{odd} 100%."


@pytest.mark.parametrize(
    ("text", "isolated"),
    [
        ("هو (44.8 TFLOP/s)، و --lang ar.", "هو (<44.8 TFLOP/s>)، و <--lang ar>."),
        ("أقل بنسبة 58.1% (56,131 مقابل 134,099)", "أقل بنسبة <58.1%> (<56,131> مقابل <134,099>)"),
        ("بحسب nanoGPT (A100): 3", "بحسب <nanoGPT (A100)>: <3>"),
        ("الأمر `kill 12` يحفظ", "الأمر <`kill 12`> يحفظ"),
        ("قدرها 3.269 (من 3) و", "قدرها <3.269> (من <3>) و"),
        ("(7 مقابل 36.4 TFLOP/s): ف", "(<7> مقابل <36.4 TFLOP/s>): ف"),
        ("الفرق -0.0134؛ ±1.6%", "الفرق <-0.0134>؛ <±1.6%>"),
    ],
)
def test_latin_in_arabic_is_isolated_with_its_own_signs_but_not_the_sentences(
    text: str, isolated: str
) -> None:
    marked = isolated.replace("<", "\u2068").replace(">", "\u2069")
    assert LANGUAGES["ar"].isolated(text) == marked
    assert LANGUAGES["fr"].isolated(text) == text


def test_sentences_follow_each_other_without_a_blank_where_none_is_written() -> None:
    assert LANGUAGES["ja"].together(["あ。", "い。"]) == "あ。い。"
    assert LANGUAGES["fr"].together(["Oui.", "Non."]) == "Oui. Non."


def test_english_needs_no_babel() -> None:
    code = (
        "import sys\n"
        "from nanodyno.report.compare import comparison_page\n"
        "from nanodyno.messages.language import language_for\n"
        "english = language_for(None, {'LANG': 'en_US.UTF-8'})\n"
        "print(english.say_plural('common.thread-count', 2), 'babel' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 threads False\n"


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("GPU の負荷", "GPU の負荷"),
        ("速度 の負荷", "速度の負荷"),
        ("GPUの3%と", "GPU の 3% と"),
        ("「a」の、b", "「a」の、b"),
    ],
)
def test_a_space_parts_latin_from_japanese_whatever_fills_a_place(text: str, spaced: str) -> None:
    assert LANGUAGES["ja"].spaced(text) == spaced
