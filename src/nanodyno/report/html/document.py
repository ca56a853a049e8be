"""A page as one HTML file that needs nothing else: no network, no font, no script but its few lines."""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import count
from string import Template

from nanodyno import __version__
from nanodyno.messages.language import Language
from nanodyno.report.figures import Figure
from nanodyno.report.html.drawing import SLIM, WIDE, svg
from nanodyno.report.html.palette import DARK, LIGHT, variables
from nanodyno.report.html.svg import shown
from nanodyno.report.page import (
    BulletList,
    FigureChoice,
    Folded,
    Page,
    PageElement,
    Section,
    Table,
    Tiles,
    Verbatim,
    is_figure,
)

MANY = 8
"""Columns for which a window has to be wider."""
CARDS = (("table.cards", 560), ("table.many", 639))
ALONE = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"
"""What a browser is to hold the page to: it loads nothing."""
_FROM_THE_RIGHT = re.compile(r"[\u0590-\u08ff]")
_COMMAND = r"`([^`]+)`"
_CODE = re.compile(
    rf"{_COMMAND}"
    r"|(?<![A-Za-z0-9_-])(--?[a-z][\w-]*(?:=[^\s,;)]+)?|[a-z]+(?:_[a-z0-9]+)+(?:=[^\s,;)]+)?)(?![A-Za-z0-9_])"
)
"""Letters of other scripts may touch it: in Arabic, "and" is written onto the next word."""
_LETTER_BEFORE = r"(?<![^\Wو])"
"""A word's other than that "and"."""


def to_html(page: Page, language: Language, made_at: datetime) -> str:
    writer = _Writer(page.names, language)
    first, *others = page.sections
    return Template(_file("page.html")).substitute(
        lang=language.code,
        direction=language.direction,
        alone=ALONE,
        version=__version__,
        title=shown(f"{page.title} · nanodyno"),
        style=_style(),
        kind=shown(page.kind),
        dark=shown(language.say("page.theme.dark")),
        main="\n".join([writer.answer(first), *(writer.section(each) for each in others)]),
        made=shown(language.say("page.footer", version=__version__, moment=language.moment(made_at))),
        script=_file("page.js"),
    )


class _Writer:
    """Holds the numbers of ids, and how this page's words are set."""

    def __init__(self, names: Sequence[str], language: Language) -> None:
        self._language = language
        self._numbers = count(1)
        listed = sorted({name for name in names if name}, key=len, reverse=True)
        pattern = "|".join(map(re.escape, listed))
        # A command that names a run is code as a whole.
        self._names = re.compile(rf"{_LETTER_BEFORE}({pattern})(?!\w)|{_COMMAND}") if pattern else None

    def answer(self, section: Section) -> str:
        title = f"<h1>{self.words(section.title or '')}</h1>"
        lead = ' class="lead"'
        parts: list[str] = []
        for part in section.parts:
            if isinstance(part, str):
                parts.append(f"<p{lead}>{self.words(part)}</p>")
                lead = ""
            else:
                parts.append(self.part(part, section.title or ""))
        return f'<section class="answer">\n{title}\n' + "\n".join(parts) + "\n</section>"

    def section(self, section: Section) -> str:
        title = section.title or ""
        words = self.words(title)
        named = ' class="named"' if words.startswith("<bdi>") else ""  # a name is as its user wrote it
        head = f"<h2{named}>{words}</h2>\n" if title else ""
        return (
            f"<section>\n{head}"
            + "\n".join(self.part(part, title) for part in section.parts)
            + "\n</section>"
        )

    def part(self, part: PageElement, title: str) -> str:
        match part:
            case str():
                return f"<p>{self.words(part)}</p>"
            case BulletList():
                return self._points(part)
            case Table():
                return self._table(part, title)
            case Tiles():
                return self._tiles(part)
            case Verbatim():
                return f"<pre>{shown(part.text)}</pre>"
            case FigureChoice():
                return self._choice(part)
            case Folded():
                inside = "\n".join(self.part(each, part.title) for each in part.parts)
                summary = f"<summary>{self.words(part.title)}</summary>"
                return f'<details class="folded">{summary}<div class="inside">\n{inside}\n</div></details>'
            case _:
                return self._figure(part)

    def words(self, text: str) -> str:
        """Escaped; names and code keep their own direction, whatever the sentence around them has."""
        if self._names is None:
            return self._prose(text)
        pieces: list[str] = []
        at = 0
        for found in self._names.finditer(text):
            marked = f"<bdi>{shown(found[1])}</bdi>" if found[1] else f"<code>{shown(found[2])}</code>"
            pieces += [self._prose(text[at : found.start()]), marked]
            at = found.end()
        return "".join([*pieces, self._prose(text[at:])])

    def _apart(self, text: str) -> str:
        """A name or number goes its own way; words go the page's, also where they begin with a number."""
        direction = ' dir="rtl"' if self._language.direction == "rtl" and _FROM_THE_RIGHT.search(text) else ""
        return f"<bdi{direction}>{self.words(text)}</bdi>"

    def _prose(self, text: str) -> str:
        pieces: list[str] = []
        at = 0
        for found in _CODE.finditer(text):
            before = self._language.isolated(text[at : found.start()])
            pieces += [shown(before), f"<code>{shown(found[1] or found[2])}</code>"]
            at = found.end()
        return "".join([*pieces, shown(self._language.isolated(text[at:]))])

    def _points(self, points: BulletList) -> str:
        behind = points.behind or (None,) * len(points.sentences)
        items: list[str] = []
        told = self._language.say("page.numbers-behind")
        for sentence, table in zip(points.sentences, behind, strict=True):
            words = self.words(sentence)
            if table is None:
                items.append(f"<li>{words}</li>")
                continue
            inside = f'<div class="inside">{self._table(table, told)}</div>'
            items.append(f"<li><details><summary><span>{words}</span></summary>{inside}</details></li>")
        return '<ul class="points">\n' + "\n".join(items) + "\n</ul>"

    def _table(self, table: Table, title: str) -> str:
        is_facts = not any(table.headers)
        heads = "".join(
            f'<th scope="col"{_head(table, place)}>{self.words(head)}</th>'
            if head
            else f"<td{_head(table, place)}></td>"
            for place, head in enumerate(table.headers)
        )
        head = "" if is_facts else f"<thead><tr>{heads}</tr></thead>"
        rows = "\n".join(self._row(table, row) for row in table.rows)
        caption = f"<caption>{self.words(title)}</caption>"
        cards = "cards many" if len(table.headers) >= MANY else "cards"
        kind = ' class="facts"' if is_facts else f' class="{cards}"' if len(table.headers) > 2 else ""
        body = f"<table{kind}>{caption}{head}<tbody>\n{rows}\n</tbody></table>"
        if len(table.headers) < 3:
            return body
        return f'<div class="scroll" role="region" tabindex="0" aria-label="{shown(title)}">{body}</div>'

    def _row(self, table: Table, row: Sequence[str]) -> str:
        cells = [f'<th scope="row">{self.words(row[0])}</th>']
        cells += [
            f"<td{_cell(table, place, cell)}>{self._apart(cell)}</td>"
            for place, cell in enumerate(row)
            if place
        ]
        return f"<tr>{''.join(cells)}</tr>"

    def _tiles(self, tiles: Tiles) -> str:
        items = [
            f"<div><dt>{self.words(tile.label)}</dt><dd>{self._apart(tile.value)}</dd>"
            + (f'<dd class="note">{self.words(tile.note)}</dd>' if tile.note else "")
            + "</div>"
            for tile in tiles.tiles
        ]
        return f'<dl class="tiles">{"".join(items)}</dl>'

    def _choice(self, choice: FigureChoice) -> str:
        buttons = "".join(
            f'<button type="button" aria-pressed="{str(not place).lower()}">{self.words(label)}</button>'
            for place, (label, _) in enumerate(choice.figures)
        )
        group = f'role="group" aria-label="{shown(choice.label)}"'
        tabs = f'<div class="tabs" {group}><span>{self.words(choice.label)}</span>{buttons}</div>'
        return (
            f'<div class="choice">{tabs}\n'
            + "\n".join(self._figure(each) for _, each in choice.figures)
            + "\n</div>"
        )

    def _figure(self, figure: Figure) -> str:
        said = f"{self.words(figure.title)} <span>{self.words(figure.description)}</span>"
        number = next(self._numbers)
        wide, slim = (
            f'<div class="{kind}">{svg(figure, width, f"f{number}-{kind}")}</div>'
            for kind, width in (("wide", WIDE), ("slim", SLIM))
        )
        picture = f'<div class="picture" dir="ltr">{wide}{slim}</div>'
        return f"<figure><figcaption>{said}</figcaption>{picture}</figure>"


def _head(table: Table, place: int) -> str:
    return ' class="figure-cell"' if place and is_figure(table, place) else ""


def _cell(table: Table, place: int, words: str) -> str:
    """On a phone, where a row is a card, each cell says what it is of, and an empty one is left out."""
    kinds = (["figure-cell"] if is_figure(table, place) else []) + ([] if words else ["blank"])
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return kind + (f' data-label="{shown(table.headers[place])}"' if table.headers[place] else "")


@cache
def _style() -> str:
    light, dark = variables(LIGHT), variables(DARK)
    themes = (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f':root[data-theme="light"] {{ {light} color-scheme: light; }}\n'
        f':root[data-theme="dark"] {{ {dark} color-scheme: dark; }}\n'
        f"@media print {{ :root, :root[data-theme] {{ {light} color-scheme: light; }} }}\n"
    )
    return themes + _file("page.css") + "".join(_cards(*each) for each in CARDS) + _file("figure.css")


def _cards(table: str, widest: int) -> str:
    """Rows that become cards where the window is no wider than so many pixels."""
    return f"@media (max-width: {widest}px) {{\n{_file('cards.css').replace('TABLE', table)}}}\n"


def _file(name: str) -> str:
    return files("nanodyno.report.html").joinpath(name).read_text(encoding="utf-8")
