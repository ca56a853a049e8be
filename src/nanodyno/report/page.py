"""A page of sections, each of sentences, lists, tables and pictures: for a terminal, or as Markdown.

html/ makes a document of the same page. A terminal has pictures of its own, and leaves out what is folded.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.figures import Figure
from nanodyno.report.prose import Prose

WIDEST_NAME = 28
"""Letters of a name in a table's first column that are kept together: gradient_accumulation_steps has 27."""


@dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    """All of them empty for rows of a title and what it is."""
    rows: tuple[tuple[str, ...], ...]
    figures_from: int | None = None
    """The first column that is set flush right, with all after it but the last."""
    flush_right: frozenset[int] = frozenset()
    """Or these columns, each by its place."""


@dataclass(frozen=True)
class BulletList:
    """Sentences that stand one under the other, each with the arithmetic behind it where there is any."""

    sentences: tuple[str, ...]
    behind: tuple[Table | None, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A figure that answers by itself."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Tiles:
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Verbatim:
    text: str


@dataclass(frozen=True)
class FigureChoice:
    """Pictures of the same thing, one of which is looked at: the first, until the reader asks for another."""

    label: str
    figures: tuple[tuple[str, Figure], ...]


@dataclass(frozen=True)
class Folded:
    """What is there for those who open it."""

    title: str
    parts: tuple["PageElement", ...]


PageElement = str | BulletList | Table | Tiles | Verbatim | FigureChoice | Folded | Figure


@dataclass(frozen=True)
class Section:
    title: str | None
    parts: tuple[PageElement, ...]


@dataclass(frozen=True)
class Page:
    """The first section is the answer."""

    kind: str
    """What it is a page of, in a word: a comparison."""
    sections: tuple[Section, ...]
    names: tuple[str, ...] = ()
    """Users' own words among the others: each keeps its own direction."""

    @property
    def title(self) -> str:
        return self.sections[0].title or self.kind


DrawFigure = Callable[[Figure], str]
"""Where a picture lies, for a link to it."""


def to_terminal(sections: Sequence[Section]) -> Group:
    items: list[RenderableType] = []
    for section in sections:
        parts = [
            _on_screen(part)
            for part in section.parts
            if isinstance(part, str | BulletList | Table | Verbatim)
        ]
        if section.parts and not parts:
            continue
        if items:
            items.append(Text())
        if section.title:
            items.append(Text(section.title, style="bold"))
        items += parts
    return Group(*items)


def to_markdown(
    sections: Sequence[Section], language: Language = ENGLISH, pictures: DrawFigure | None = None
) -> str:
    """Without a place for pictures there are none."""
    writer = _Markdown(language, pictures)
    lines: list[str] = []
    for section in sections:
        blocks = [block for part in section.parts if (block := writer.part(part))]
        if section.parts and not blocks:
            continue
        if section.title:
            lines += [f"## {writer.words(section.title)}", ""]
        for block in blocks:
            lines += [*block, ""]
    return "\n".join(lines).rstrip() + "\n"


def from_terminal(shown: RenderableType) -> tuple[PageElement, ...]:
    """What was made for a terminal alone: tables and sentences, and groups of them."""
    if isinstance(shown, Group):
        return tuple(part for each in shown.renderables for part in from_terminal(each))
    return (_from_rich(shown),) if isinstance(shown, RichTable) else (_words(shown),)


def _from_rich(table: RichTable) -> Table:
    columns = [[_words(cell) for cell in column.cells] for column in table.columns]
    headers = tuple(_words(column.header) for column in table.columns)
    right = frozenset(place for place, column in enumerate(table.columns) if column.justify == "right")
    return Table(headers, tuple(zip(*columns, strict=True)), flush_right=right)


def _words(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _on_screen(part: str | BulletList | Table | Verbatim) -> RenderableType:
    if isinstance(part, str):
        return Prose(part)
    if isinstance(part, Verbatim):
        return Text(part.text)
    if isinstance(part, BulletList):
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        for sentence in part.sentences:
            grid.add_row("-", Prose(sentence))
        return grid
    table = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    # Sentences beside it give way before the name of a setting is parted.
    whole = all(len(row[0].split()) == 1 and len(row[0]) <= WIDEST_NAME for row in part.rows)
    for place, header in enumerate(part.headers):
        table.add_column(
            header,
            justify="right" if is_figure(part, place) else "left",
            overflow="fold",
            no_wrap=whole and place == 0,
        )
    for row in part.rows:
        table.add_row(*(Prose(cell) for cell in row))
    return table


class _Markdown:
    def __init__(self, language: Language, pictures: DrawFigure | None) -> None:
        self._language, self._pictures = language, pictures

    def words(self, text: str) -> str:
        return escaped(self._language.isolated(text))

    def part(self, part: PageElement) -> list[str]:
        match part:
            case str():
                return [self.words(part)]
            case BulletList():
                return [f"- {self.words(sentence)}" for sentence in part.sentences]
            case Verbatim():
                return [f"    {line}" for line in part.text.splitlines()]
            case Table():
                return self._table(part)
            case Tiles():
                return [f"- {self.words(f'{tile.label}: {tile.value}')}" for tile in part.tiles]
            case Folded():
                blocks = [block for each in part.parts if (block := self.part(each))]
                inside = [line for block in blocks for line in (*block, "")]
                summary = f"<summary>{self.words(part.title)}</summary>"
                return ['<details markdown="1">', summary, "", *inside, "</details>"]
            case FigureChoice():
                return self._figures([figure for _, figure in part.figures])
            case _:
                return self._figures([part])

    def _table(self, table: Table) -> list[str]:
        rules = ["--:" if is_figure(table, place) else "---" for place in range(len(table.headers))]
        cells = [[self.words(cell) for cell in row] for row in (table.headers, *table.rows)]
        return ["| " + " | ".join(row) + " |" for row in (cells[0], rules, *cells[1:])]

    def _figures(self, figures: Sequence[Figure]) -> list[str]:
        if self._pictures is None:
            return []
        images = [f"![{self.words(each.title)}]({self._pictures(each)})" for each in figures]
        return [line for image in images for line in (image, "")][:-1]


def is_figure(table: Table, place: int) -> bool:
    begin = table.figures_from
    return place in table.flush_right or (begin is not None and begin <= place < len(table.headers) - 1)


def escaped(text: str) -> str:
    """Names are a user's own: nothing in them is to become markup."""
    pieces = re.split(r"(`[\w =./-]+`)", text)  # code of ours, in which there is nothing to escape
    pieces[::2] = [re.sub(r"([\\`*_<>|\[\]])", r"\\\1", piece) for piece in pieces[::2]]
    return re.sub(r"\{(?=[{%])", "&#123;", "".join(pieces))  # Jekyll would take {{ and {% for its own
