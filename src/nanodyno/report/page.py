"""A page of sections, each of sentences, lists and tables: for a terminal, or as Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from nanodyno.report.language import ENGLISH, Language
from nanodyno.report.prose import Prose


@dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures_from: int | None = None
    """The first column that is set flush right, with all after it but the last."""


@dataclass(frozen=True)
class Points:
    """Sentences that stand one under the other."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    title: str | None
    parts: tuple[str | Points | Table, ...]


def to_terminal(sections: Sequence[Section]) -> Group:
    items: list[RenderableType] = []
    for section in sections:
        if items:
            items.append(Text())
        if section.title:
            items.append(Text(section.title, style="bold"))
        items += [_on_screen(part) for part in section.parts]
    return Group(*items)


def to_markdown(sections: Sequence[Section], language: Language = ENGLISH) -> str:
    lines: list[str] = []
    for section in sections:
        if section.title:
            lines += [f"## {_written(section.title, language)}", ""]
        for part in section.parts:
            lines += [*_in_markdown(part, language), ""]
    return "\n".join(lines).rstrip() + "\n"


def _on_screen(part: str | Points | Table) -> RenderableType:
    if isinstance(part, str):
        return Prose(part)
    if isinstance(part, Points):
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        for sentence in part.sentences:
            grid.add_row("-", Prose(sentence))
        return grid
    table = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for place, header in enumerate(part.headers):
        table.add_column(header, justify="right" if _is_figure(part, place) else "left", overflow="fold")
    for row in part.rows:
        table.add_row(*(Prose(cell) for cell in row))
    return table


def _in_markdown(part: str | Points | Table, language: Language) -> list[str]:
    if isinstance(part, str):
        return [_written(part, language)]
    if isinstance(part, Points):
        return [f"- {_written(sentence, language)}" for sentence in part.sentences]
    rules = ["--:" if _is_figure(part, place) else "---" for place in range(len(part.headers))]
    cells = [[_written(cell, language) for cell in row] for row in (part.headers, *part.rows)]
    return ["| " + " | ".join(row) + " |" for row in (cells[0], rules, *cells[1:])]


def _is_figure(table: Table, place: int) -> bool:
    return table.figures_from is not None and table.figures_from <= place < len(table.headers) - 1


def _written(text: str, language: Language) -> str:
    return _escaped(language.isolated(text))


def _escaped(text: str) -> str:
    """Names are a user's own: nothing in them is to become markup."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)
