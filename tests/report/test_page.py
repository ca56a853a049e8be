"""One page, three ways to read it."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.report.figures import Bar, Bars
from nanodyno.report.jekyll import document, documents
from nanodyno.report.page import (
    BulletList,
    FigureChoice,
    Folded,
    Page,
    Section,
    Table,
    Tile,
    Tiles,
    Verbatim,
    from_terminal,
    to_markdown,
    to_terminal,
)

NOW = datetime(2026, 11, 16, 7, 30, tzinfo=UTC)
BARS = Bars("Time | of it", "shares", (Bar("x", (1.0,), ("100%",)),))
PAGE = Page(
    "test",
    (
        Section('a "run": {{ x }} {% y %}', ("It is so.", Tiles((Tile("speed", "5"),)))),
        Section("pictures", (BARS, FigureChoice("over", (("a", BARS), ("b", BARS))))),
        Section("table", (Table(("", "a|b"), (("k", "v"),)), Verbatim("def f():\n    pass"))),
        Section(
            "why", (BulletList(("because",), (Table(("", ""), (("n", "1"),)),)), Folded("more", ("inside",)))
        ),
    ),
)


def screen(sections: tuple[Section, ...]) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(to_terminal(sections))
    return captured.get()


def test_a_terminal_has_neither_pictures_nor_what_is_folded_nor_their_titles() -> None:
    shown = screen(PAGE.sections)
    assert "It is so." in shown
    assert "- because" in shown
    assert "def f():" in shown
    assert "pictures" not in shown
    assert "inside" not in shown


def test_markdown_on_stdout_has_no_place_for_pictures() -> None:
    text = to_markdown(PAGE.sections)
    assert "![" not in text
    assert "## pictures" not in text
    assert '<details markdown="1">\n<summary>more</summary>\n\ninside\n\n</details>' in text
    assert "|  | a\\|b |\n| --- | --- |\n| k | v |" in text
    assert "    def f():\n        pass" in text


def test_in_markdown_code_stays_code_and_names_stay_names() -> None:
    text = to_markdown([Section("t", ("see `n_embd=4` of a_b*c* and `<b>`",))])
    assert text == "## t\n\nsee `n_embd=4` of a\\_b\\*c\\* and \\`\\<b\\>\\`\n"


def test_pictures_lie_beside_the_file_that_shows_them(tmp_path: Path) -> None:
    files = documents(PAGE, "markdown", ENGLISH, NOW, tmp_path / "my notes.md")
    page, *pictures = files
    assert page == tmp_path / "my notes.md"
    assert [each.name for each in pictures] == ["my-notes-1.svg", "my-notes-2.svg", "my-notes-3.svg"]
    assert re.findall(r"!\[Time \\\| of it\]\((.*?)\)", files[page]) == [each.name for each in pictures]
    assert {ElementTree.fromstring(files[each]).tag for each in pictures} == {
        "{http://www.w3.org/2000/svg}svg"
    }


def test_jekyll_gets_its_front_matter_and_none_of_its_tags() -> None:
    text = document(PAGE, "jekyll", LANGUAGES["fr"], NOW)
    _, front, body = text.split("---\n", 2)
    assert front.splitlines() == [
        "layout: page",
        'title: "a \\"run\\": {{ x }} {% y %}"',
        "lang: fr",
        "date: 2026-11-16 07:30:00 +0000",
    ]
    assert not re.search(r"\{[{%]", body)
    assert "&#123;{ x }} &#123;% y %}" in body


def test_pictures_of_a_post_go_where_jekyll_publishes_them(tmp_path: Path) -> None:
    files = documents(PAGE, "jekyll", ENGLISH, NOW, tmp_path / "_posts" / "2026-11-16-case.md")
    page, first, *_ = files
    assert first == tmp_path / "assets" / "2026-11-16-case" / "2026-11-16-case-1.svg"
    assert '({{ "/assets/2026-11-16-case/2026-11-16-case-1.svg" | relative_url }})' in files[page]
    assert "layout: post" in files[page]


def test_arabic_markdown_reads_from_the_right() -> None:
    assert document(PAGE, "markdown", LANGUAGES["ar"], NOW).startswith('<div dir="rtl" markdown="1">\n\n## ')


def test_what_was_made_for_a_terminal_becomes_tables_and_sentences() -> None:
    table = RichTable("name", "size")
    table.columns[1].justify = "right"
    table.add_row("a", Text("3"))
    found = from_terminal(Group(table, Text("and so on")))
    assert found == (Table(("name", "size"), (("a", "3"),), flush_right=frozenset({1})), "and so on")


def test_the_name_of_a_setting_is_not_parted_in_80_columns() -> None:
    row = (
        "gradient_accumulation_steps",
        "32",
        "64",
        "memory, and how well the card is filled",
        "tokens " * 6,
    )
    table = Table(("setting", "before", "after", "can move", "leaves alone"), (row,))
    console = Console(file=io.StringIO(), width=80)
    console.print(to_terminal([Section(None, (table,))]))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "gradient_accumulation_steps" in text
    assert text.count("tokens") == 6  # and nothing is cut off


def test_a_page_without_a_title_is_called_by_its_kind() -> None:
    assert Page("plan", (Section(None, ("words",)),)).title == "plan"
