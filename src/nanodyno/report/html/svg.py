"""Elements of a picture as text. Everything that is shown is escaped here."""

import re
import unicodedata
from collections.abc import Sequence
from html import escape

from nanodyno.messages.language import CLOSE, latin_isolated
from nanodyno.report.figures import Point

EM = 12.5
"""The size of letters in pictures, in pixels, as style.css has it."""
FROM_THE_RIGHT = "\u2067"
NARROW_LETTERS = frozenset(" .,:;'|!iljftI()[]/-")
WIDE_LETTERS = frozenset("mwMW@%→")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")


def shown(text: str) -> str:
    """Of a user's or a program's text: no markup, and no character that a document may not have."""
    return escape(_FORBIDDEN.sub("\ufffd", text))


def element(tag: str, *content: str, **attributes: str | float) -> str:
    """`class_` is class, `font_size` is font-size. Content is markup already: see `shown`."""
    written = "".join(f' {_name(name)}="{_value(value)}"' for name, value in attributes.items())
    inside = "".join(content)
    return f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>"


def text(words: str, x: float, y: float, kind: str = "", anchor: str = "start") -> str:
    return element("text", shown(_directed(words)), x=x, y=y, class_=f"{kind} {anchor}".strip())


def _directed(words: str) -> str:
    """Pictures run from the left, and what has right-to-left letters in them from the right."""
    if not any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in words):
        return words
    return f"{FROM_THE_RIGHT}{latin_isolated(words)}{CLOSE}"


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def rectangle(x1: float, y: float, x2: float, height: float, kind: str) -> str:
    left, right = sorted((x1, x2))
    return element("rect", x=left, y=y, width=max(right - left, 0.5), height=height, class_=kind)


def path(points: Sequence[Point], kind: str, closed: bool = False) -> str:
    drawn = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return element("path", d=f"M{drawn}{'Z' if closed else ''}", class_=kind)


def width_of(words: str) -> float:
    """About how wide it is drawn: no font is asked."""
    return EM * sum(map(_letter, words))


def cut(words: str, room: float) -> str:
    """With an ellipsis where it is wider than the room."""
    if width_of(words) <= room:
        return words
    kept = words
    while kept and width_of(kept + "…") > room:
        kept = kept[:-1]
    return f"{kept}…"


def _letter(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return 0.33 if letter in NARROW_LETTERS else 0.9 if letter in WIDE_LETTERS else 0.6


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
