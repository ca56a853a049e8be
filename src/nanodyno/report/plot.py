"""A line plot in braille dots: two columns and four rows of dots in every character."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from nanodyno.messages.language import ENGLISH, Language

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
BRAILLE = 0x2800
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
AXIS_WIDTH = 7
SOLID, DASHED = "━━", "╍╍"
GAP, BETWEEN = "  ", "   "


@dataclass(frozen=True)
class PlotSeries:
    """Points in order of x, all finite."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Labels:
    x: str
    y: str
    language: Language = ENGLISH


def line_plot(series: Sequence[PlotSeries], width: int, height: int, labels: Labels) -> Text:
    """All series on common axes; where two share a character the later one gives its colour.

    Every second series is dashed, so that neighbours are told apart without colour too.
    """
    drawn = [entry for entry in series if entry.x]
    if not drawn:
        return Text(labels.language.say("losses.plot.empty"), style="dim")
    columns = max(10, width - AXIS_WIDTH - 1)
    x_low, x_high = _range([x for entry in drawn for x in entry.x])
    y_low, y_high = _range([y for entry in drawn for y in entry.y])
    cells: dict[tuple[int, int], tuple[int, str]] = {}
    for number, entry in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        points = [
            (
                round((x - x_low) / (x_high - x_low) * (columns * 2 - 1)),
                round((y_high - y) / (y_high - y_low) * (height * 4 - 1)),
            )
            for x, y in zip(entry.x, entry.y, strict=True)
        ]
        for column, row in _stroke(points, dashed=number % 2 == 1):
            place = (row // 4, column // 2)
            dots = cells.get(place, (0, colour))[0]
            cells[place] = (dots | DOTS[row % 4][column % 2], colour)
    text = _legend(drawn, labels.y, width)
    for row in range(height):
        text.append(labels.language.marks(_tick(row, height, y_low, y_high)) + "│", style="dim")
        for column in range(columns):
            dots, colour = cells.get((row, column), (0, ""))
            text.append(chr(BRAILLE + dots) if dots else " ", style=colour)
        text.append("\n")
    text.append(" " * AXIS_WIDTH + "└" + "─" * columns + "\n", style="dim")
    left, right = (labels.language.number(bound, "g") for bound in (x_low, x_high))
    room = columns - len(left) - len(right)
    before = " " * max(0, (room - cell_len(labels.x)) // 2)
    middle = set_cell_size(before + labels.x, max(room, cell_len(labels.x)))
    text.append(" " * (AXIS_WIDTH + 1) + left + middle + right, style="dim")
    return text


def _legend(series: Sequence[PlotSeries], y_label: str, width: int) -> Text:
    """As many entries on a line as it has room for; one is never broken, and cut where no line holds it."""
    begin = AXIS_WIDTH + len(GAP)
    text = Text()
    text.append(" " * (AXIS_WIDTH - cell_len(y_label)) + y_label + GAP, style="dim")
    taken = begin
    for number, entry in enumerate(series):
        label = _cut(entry.label, max(width, begin + 2 * len(SOLID)) - begin - len(SOLID) - 1)
        long = len(SOLID) + 1 + cell_len(label)
        if taken > begin and taken + len(BETWEEN) + long > width:
            text.append("\n" + " " * begin)
            taken = begin
        if taken > begin:
            text.append(BETWEEN)
            taken += len(BETWEEN)
        text.append(f"{DASHED if number % 2 else SOLID} ", style=COLOURS[number % len(COLOURS)])
        text.append(label)
        taken += long
    text.append("\n")
    return text


def _cut(label: str, room: int) -> str:
    return label if cell_len(label) <= room else set_cell_size(label, room - 1) + "…"


def _tick(row: int, height: int, low: float, high: float) -> str:
    """A value at the top, the middle and the bottom row."""
    if row not in (0, height // 2, height - 1):
        return " " * AXIS_WIDTH
    value = high - (high - low) * row / (height - 1)
    words = next(text for digits in (3, 2, 1, 0) if len(text := f"{value:.{digits}g}") < AXIS_WIDTH)
    return f"{words:>{AXIS_WIDTH - 1}} "


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = max(0.5, abs(low) * 1e-6)
    return (low, high) if high > low else (low - margin, high + margin)


def _stroke(points: Sequence[tuple[int, int]], dashed: bool) -> list[tuple[int, int]]:
    """The dots of a line; a dashed one leaves out every second character, never the one it begins in."""
    dots = _joined(points)
    begin = dots[0][0] // 2
    return [dot for dot in dots if not dashed or (dot[0] // 2 - begin) % 2 == 0]


def _joined(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every dot on the straight lines between neighbouring points."""
    dots = list(points[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        steps = max(abs(x1 - x0), abs(y1 - y0))
        dots += [
            (round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps))
            for step in range(1, steps + 1)
        ]
    return dots
