"""Text whose lines break where its script allows, and by the width that terminals give it.

Chinese and Japanese have no blanks between words. The vowel signs of Devanagari have a cell of their own in
most terminals (as in glibc's wcwidth) and none for rich: a line that is too short is the smaller evil.
"""

import unicodedata
from itertools import pairwise

from rich.cells import cell_len
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.containers import Lines
from rich.measure import Measurement
from rich.text import Text

NEVER_FIRST = frozenset("、。，．・：；？！）」』】〕〉》ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ,.:;?!)]}%")  # noqa: RUF001
"""Of a line."""
NO_BREAK = frozenset("\u00a0\u202f")
NEVER_LAST = frozenset("（「『【〔〈《([{")  # noqa: RUF001


class Prose(Text):
    """A rich Text; where each letter has one cell it breaks as any other.

    It belongs into a Group or a table: `console.print` makes a plain Text of a lone one.
    """

    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        if no_wrap or _is_plain(self.plain):
            return super().wrap(
                console, width, justify=justify, overflow=overflow, tab_size=tab_size, no_wrap=no_wrap
            )
        lines = Lines()
        for line in self.split("\n", allow_blank=True):
            lines.extend(line.divide(_breaks(line.plain, width)))
        for line in lines:
            line.rstrip()
        if justify == "right":
            lines.justify(console, width, justify=justify)
        return lines

    def __rich_measure__(self, console: Console, options: object) -> Measurement:
        """The least is the longest piece that does not break."""
        if _is_plain(self.plain):
            return super().__rich_measure__(console, options)  # pyright: ignore[reportArgumentType]
        least = max(map(width_of, _pieces(self.plain)), default=0)
        return Measurement(least, max(map(width_of, self.plain.split("\n"))))


def _is_plain(text: str) -> bool:
    """A letter a cell, and no blank but those that lines break at: rich would break at all of them."""
    return cell_len(text) == len(text) and NO_BREAK.isdisjoint(text)


def width_of(text: str) -> int:
    return cell_len(text) + sum(unicodedata.category(letter) == "Mc" for letter in text)


def _pieces(text: str) -> list[str]:
    """That a line never breaks in."""
    pieces = [text[:1]]
    for before, after in pairwise(text):
        if _may_break(before, after):
            pieces.append(after)
        else:
            pieces[-1] += after
    return pieces


def _may_break(before: str, after: str) -> bool:
    if after == " " or after in NEVER_FIRST or before in NEVER_LAST:
        return False
    return before == " " or cell_len(before) == 2 or cell_len(after) == 2


def _breaks(text: str, width: int) -> list[int]:
    """Where lines begin, but for the first; a piece that is wider than a line is cut."""
    breaks: list[int] = []
    place, used = 0, 0
    for piece in _pieces(text):
        if used and used + width_of(piece.rstrip()) > width:
            breaks.append(place)
            used = 0
        for letter in piece:
            size = width_of(letter)
            if used + size > width and letter != " ":
                breaks.append(place)
                used = 0
            used += size
            place += 1
    return breaks
