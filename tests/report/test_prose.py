import io

import pytest
from rich.console import Console, Group
from rich.table import Table

from nanodyno.report.prose import NEVER_FIRST, NEVER_LAST, Prose, width_of


def lines(text: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(Group(Prose(text)))  # a lone Text is made another by rich
    return [line.rstrip(" ") for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_english_breaks_at_its_blanks() -> None:
    assert lines("one two three", 8) == ["one two", "three"]


def test_japanese_breaks_between_letters_and_keeps_latin_words_whole() -> None:
    """Wide letters have two cells: ten of them fill twenty."""
    assert lines("学習率を変えた batch_size の影響", 20) == ["学習率を変えた", "batch_size の影響"]


def test_a_line_neither_begins_with_a_mark_nor_ends_with_an_opening_one() -> None:
    text = "速度、記憶體、損失（捨入除外）以及每個token的運算量。"  # noqa: RUF001
    for width in range(6, 40):
        for line in lines(text, width):
            assert line[0] not in NEVER_FIRST
            assert line[-1] not in NEVER_LAST


def test_nothing_is_lost_and_no_line_is_too_wide() -> None:
    text = "gradient_accumulation_steps は勾配累積の回数です。n_embd と batch_size"
    for width in range(4, 60):
        found = lines(text, width)
        assert "".join(found).replace(" ", "") == text.replace(" ", "")
        assert max(map(width_of, found)) <= width


def test_a_number_in_french_stays_with_its_unit() -> None:
    assert lines("un débit de 58,1\u202f% environ", 16) == ["un débit de", "58,1\u202f% environ"]


@pytest.mark.parametrize(("text", "cells"), [("की", 2), ("क्", 1), ("記憶", 4), ("خيطًا", 4), ("abc", 3)])
def test_vowel_signs_that_stand_beside_a_letter_have_a_cell_of_their_own(text: str, cells: int) -> None:
    assert width_of(text) == cells


def test_a_cell_that_is_flush_right_is_so_in_every_script() -> None:
    """An Arabic minus has a mark of no width before it."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", width=8)
    for text in ("-39.3%", "\u200e-39.3%", "未測定"):
        table.add_row(Prose(text))
    console = Console(file=io.StringIO(), width=40)
    console.print(table)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.rstrip(" ") for line in shown] == ["  -39.3%", "  \u200e-39.3%", "  未測定"]
