"""The page in a real browser: what it does when it is opened, pressed, and read from the right."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.accounts import account
from tests.chromium import MISSING, Browser, NoAnswer, chromium, found_chromium
from tests.report.html.test_drawing import EVERY

from nanodyno.analysis.account import AccountStep
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.messages.language import LANGUAGES
from nanodyno.report.html.document import to_html
from nanodyno.report.page import Page, Section
from nanodyno.report.pages.attribute import attribution_report
from nanodyno.report.pages.compare import comparison_report

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="Chromium is driven over a pipe of POSIX"),
    pytest.mark.skipif(found_chromium() is None, reason=MISSING),
]
NAMES = ("<b>a</b>", "ב\u202e1")
NARROW, PHONE, DESK = 320, 360, 1280


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(chromium(tmp_path_factory.mktemp("chromium")))
        except NoAnswer as error:
            pytest.skip(f"{found_chromium()} does not start here ({error}): name another one in CHROMIUM")
        yield found


def written(folder: Path, code: str, steps: int = 20_000, names: tuple[str, ...] = NAMES) -> Path:
    long = tuple(AccountStep(n, 11 / (1 + n) ** 0.2, 1.0 + n % 3 / 1000) for n in range(steps))
    comparison = compare([account(name, steps=long) for name in names])
    page = comparison_report(comparison, conclusions(comparison), LANGUAGES[code])
    path = folder / f"{code}.html"
    path.write_text(to_html(page, LANGUAGES[code], datetime(2026, 1, 1, tzinfo=UTC)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), "en")


def test_it_opens_without_a_word_on_the_console_and_without_the_network(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.complaints == []
    assert browser.loaded == [page.as_uri()]
    assert browser.evaluate("document.querySelectorAll('b').length") == 1  # ours: no name became markup


def test_the_theme_follows_the_system_until_it_is_pressed(browser: Browser, page: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    pressed = "document.getElementById('theme').getAttribute('aria-pressed')"
    browser.open(page)
    assert (browser.evaluate(ground), browser.evaluate(pressed)) == ("rgb(255, 255, 255)", "false")
    browser.open(page, dark=True)
    assert (browser.evaluate(ground), browser.evaluate(pressed)) == ("rgb(20, 23, 27)", "true")
    browser.evaluate("document.getElementById('theme').click()")
    assert (browser.evaluate(ground), browser.evaluate(pressed)) == ("rgb(255, 255, 255)", "false")
    assert browser.complaints == []


def test_one_curve_is_shown_and_the_others_when_they_are_asked_for(browser: Browser, page: Path) -> None:
    browser.open(page)
    shown = "[...document.querySelectorAll('.choice figure')].map((each) => each.offsetHeight > 0)"
    assert browser.evaluate(shown) == [True, False, False]
    browser.evaluate("document.querySelectorAll('.choice button')[1].click()")
    assert browser.evaluate(shown) == [False, True, False]
    pressed = "[...document.querySelectorAll('.choice button')].map((each) => each.ariaPressed)"
    assert browser.evaluate(pressed) == ["false", "true", "false"]


def test_what_is_folded_opens(browser: Browser, page: Path) -> None:
    browser.open(page)
    height = "document.querySelector('details.folded .inside').offsetHeight"
    browser.evaluate("document.querySelector('details.folded summary').click()")
    assert browser.evaluate(height) > 50


@pytest.mark.parametrize("width", [NARROW, PHONE, 600, DESK])
def test_nothing_is_wider_than_the_window(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    slim = browser.evaluate("document.querySelector('.picture .slim').offsetHeight > 0")
    assert slim == (width <= 560)


@pytest.mark.parametrize("width", [PHONE, 600, DESK])
def test_names_without_an_end_make_nothing_wider(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.open(written(tmp_path, "en", 50, ("x" * 150, "y" * 150)), width=width)
    browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("code", ["en", "ja"])
def test_the_widest_table_is_never_scrolled(
    browser: Browser, tmp_path: Path, attributions: Any, code: str
) -> None:
    """Every combination of an attribution, in nine columns; below 640 pixels a card each."""
    found, _ = attributions.measure(attributions.inquiry(), tmp_path)
    path, language = tmp_path / "page.html", LANGUAGES[code]
    page = attribution_report(found, language)
    path.write_text(to_html(page, language, datetime(2026, 1, 1, tzinfo=UTC)), encoding="utf-8")
    boxes = "[...document.querySelectorAll('.scroll')]"
    for width in (561, 639, 640, 720, 761):
        browser.open(path, width=width)
        scrolled = f"{boxes}.filter((each) => getComputedStyle(each).overflowX === 'auto'"
        assert browser.evaluate(f"{scrolled} && each.scrollWidth > each.clientWidth).length") == 0
        assert browser.evaluate("document.documentElement.scrollWidth") == width


def test_letters_in_pictures_stay_as_large_on_a_phone(browser: Browser, page: Path) -> None:
    sizes = []
    for width in (PHONE, DESK):
        browser.open(page, width=width)
        sizes.append(
            browser.evaluate(
                "(() => { const all = [...document.querySelectorAll('svg')];"
                "const svg = all.find((each) => each.clientWidth > 0);"
                "return 12.5 * svg.clientWidth / svg.viewBox.baseVal.width; })()"
            )
        )
    assert sizes == [pytest.approx(12.5, abs=0.1)] * 2


def test_everything_that_can_be_pressed_is_reached_by_the_keyboard_and_named(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    unnamed = (
        "[...document.querySelectorAll('button, summary')].filter((each) => !each.textContent.trim()).length"
    )
    assert browser.evaluate(unnamed) == 0
    browser.evaluate("document.body.focus()")
    for _ in range(2):
        for kind in ("keyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    focused = "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
    assert browser.evaluate(focused)[1] == "solid"


def test_arabic_runs_from_the_right_and_its_pictures_do_not(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, "ar", steps=50)
    for width in (PHONE, DESK):
        browser.open(path, width=width)
        assert browser.complaints == []
        assert browser.evaluate("getComputedStyle(document.body).direction") == "rtl"
        assert browser.evaluate("getComputedStyle(document.querySelector('svg')).direction") == "ltr"
        brand = "document.querySelector('header b').getBoundingClientRect().left"
        assert browser.evaluate(f"{brand} > document.getElementById('theme').getBoundingClientRect().right")
        assert browser.evaluate("document.documentElement.scrollWidth") == width


def test_it_prints_light_and_without_what_is_only_to_be_pressed(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    browser.ask(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.getElementById('theme')).display") == "none"
    assert browser.evaluate("document.querySelector('.picture .wide').offsetHeight") > 0
    browser.ask("Emulation.setEmulatedMedia", media="")


def drawn_page(folder: Path) -> Path:
    """Every kind of picture."""
    page = Page("test", (Section("answer", ("words",)), Section("pictures", tuple(EVERY))))
    path = folder / "pictures.html"
    path.write_text(to_html(page, LANGUAGES["en"], datetime(2026, 1, 1, tzinfo=UTC)), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_no_label_of_a_picture_is_cut_off_or_lies_on_another(
    browser: Browser, page: Path, tmp_path: Path, width: int
) -> None:
    """By a font's own measure; ours is a guess, and the reader's font is another."""
    boxes = (
        "[...document.querySelectorAll('svg')].filter((svg) => svg.clientWidth > 0).map((svg) =>"
        " [svg.viewBox.baseVal.width, [...svg.querySelectorAll('text')].map((each) => {"
        " const box = each.getBBox(); return [each.textContent, box.x, box.y, box.width, box.height]; })])"
    )
    for each in (page, drawn_page(tmp_path)):
        browser.open(each, width=width)
        for room, labels in browser.evaluate(boxes):
            assert [label for label, x, _, wide, _ in labels if x < -12 or x + wide > room + 12] == []
            pairs = itertools.combinations(labels, 2)
            assert [(one[0], other[0]) for one, other in pairs if overlap(one, other)] == []


def overlap(one: list[Any], other: list[Any]) -> bool:
    """By more than a pixel across, and by half of a line."""
    (_, x, y, wide, high), (_, left, top, across, down) = one, other
    return (
        x + 1 < left + across
        and left + 1 < x + wide
        and y + high / 2 < top + down
        and top + down / 2 < y + high
    )
