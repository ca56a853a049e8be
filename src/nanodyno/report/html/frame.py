"""Two axes with their ticks, and labels at the ends of lines that keep apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanodyno.report.figures import Axis
from nanodyno.report.html.scales import Scale, covering, ticks
from nanodyno.report.html.svg import EM, cut, element, line, text, width_of

NARROW = 480
"""Below it, labels stand above the picture and not beside it."""
TOP, BOTTOM = 26.0, 44.0
LINE_HEIGHT = 17.0
MOST_LABEL = 170.0
TICK_ROOM = 76.0


@dataclass(frozen=True)
class Drawing:
    """Markup of a picture and how high it is."""

    content: str
    height: float


@dataclass(frozen=True)
class Label:
    words: str
    x: float
    y: float
    kind: str
    """Of the line that it belongs to."""


@dataclass(frozen=True)
class Frame:
    x: Scale
    y: Scale
    content: tuple[str, ...]
    height: float

    @property
    def columns(self) -> int:
        return max(1, round(self.x.end - self.x.begin))


@dataclass(frozen=True)
class Space:
    """What a frame is to leave free: so much on the right, so many lines above."""

    width: float
    right: float = 8.0
    legend_lines: int = 0

    @property
    def is_narrow(self) -> bool:
        return self.width < NARROW


Range = tuple[float, float]


def framed(x_axis: Axis, y_axis: Axis, x_range: Range, y_range: Range, space: Space) -> Frame:
    plot_height = 190.0 if space.is_narrow else 250.0
    marks = covering(y_range[0] / y_axis.unit, y_range[1] / y_axis.unit, 5)
    left = max(width_of(y_axis.words(mark)) for mark in marks) + 10
    top = TOP + LINE_HEIGHT * space.legend_lines
    bottom = top + plot_height
    y = Scale(marks[0] * y_axis.unit, marks[-1] * y_axis.unit, bottom, top)
    x = Scale(*x_range, left, space.width - space.right)
    content = [text(y_axis.label, 0, EM, "axis")]
    for mark in marks:
        at = y.at(mark * y_axis.unit)
        content.append(line(left, at, x.end, at, "grid"))
        content.append(text(y_axis.words(mark), left - 8, at + 4, "tick", "end"))
    content += _x_ticks(x_axis, x, bottom)
    return Frame(x, y, tuple(content), bottom + BOTTOM)


def _x_ticks(axis: Axis, x: Scale, bottom: float) -> list[str]:
    content = [line(x.begin, bottom, x.end, bottom, "base")]
    most = max(2, int((x.end - x.begin) / TICK_ROOM))
    for mark in ticks(x.low / axis.unit, x.high / axis.unit, most):
        at, words = x.at(mark * axis.unit), axis.words(mark)
        room = width_of(words) / 2
        anchor = "end" if at + room > x.end + 6 else "middle"
        content.append(line(at, bottom, at, bottom + 4, "base"))
        content.append(text(words, at, bottom + 18, "tick", anchor))
    content.append(text(axis.label, x.end, bottom + 38, "axis", "end"))
    return content


def label_room(words: Sequence[str], width: float) -> float:
    """To the right of the lines, for the longest of their labels."""
    if width < NARROW or not any(words):
        return 8.0
    return min(MOST_LABEL, max(map(width_of, words))) + 14


def end_labels(labels: Sequence[Label], y: Scale) -> str:
    """Each at the end of its line, or as near to it as the others allow."""
    placed: list[str] = []
    taken: list[tuple[float, float, float]] = []
    for label in sorted(labels, key=lambda each: each.y):
        words = cut(label.words, MOST_LABEL)
        left, right, at = label.x + 8, label.x + 8 + width_of(words), max(label.y, y.end)
        while any(
            at - LINE_HEIGHT < other < at + LINE_HEIGHT and left < end and begin < right
            for begin, end, other in taken
        ):
            at += 1
        taken.append((left, right, at))
        placed.append(text(words, left, at + 4, f"name {label.kind}"))
    return "".join(placed)


def legend(labels: Sequence[tuple[str, str]], width: float, top: float = TOP + 4) -> tuple[str, int]:
    """Labels in rows above a narrow picture, each (words, kind of its line); and how many rows they take."""
    placed: list[str] = []
    x, row = 0.0, 0
    for words, kind in labels:
        shown = cut(words, width - 24)
        needed = 24 + width_of(shown) + 14
        if x and x + needed - 14 > width:
            x, row = 0.0, row + 1
        y = top + LINE_HEIGHT * row
        placed.append(element("line", x1=x, y1=y - 4, x2=x + 18, y2=y - 4, class_=kind))
        placed.append(text(shown, x + 24, y, "name"))
        x += needed
    return "".join(placed), row + 1 if labels else 0
