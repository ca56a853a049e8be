"""Micro-batch against tokens per second with intervals, and memory beside it: a row a micro-batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import set_cell_size
from rich.text import Text

from nanodyno.analysis.tuning import TuneRow
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language

LABEL_WIDTH = 6
RATE_WIDTH = 11
MEMORY_WIDTH = 10
AMOUNT_WIDTH = 11
MOST_WIDTH = 120
LEAST_ROOM = 16
BEYOND = 0.2
"""How far the picture goes beyond the points: an interval of two rounds is cut off there."""
POINT, CHOSEN, LEFT, RIGHT, LINE, BAR = "o", "●", "├", "┤", "─", "▇"


def tune_picture(
    curve: Sequence[TuneRow], chosen: str | None, width: int, language: Language = ENGLISH
) -> Text:
    """A point for the rate, its interval around it where there is one; the chosen one is filled."""
    room = min(width, MOST_WIDTH) - LABEL_WIDTH - RATE_WIDTH - MEMORY_WIDTH - AMOUNT_WIDTH - 4
    room = max(LEAST_ROOM, room)
    low, high = _range(curve)
    most = max((row.peak_bytes or 0 for row in curve), default=0)
    text = Text()
    title = language.say("tune.plot.title")
    text.append(set_cell_size(title, LABEL_WIDTH + room + RATE_WIDTH + 4), style="bold")
    text.append(language.say("common.memory") + "\n", style="bold")
    pen = _Pen(_Scale(low, high, room), most, language)
    for row in curve:
        _draw(text, row, row.name == chosen, pen)
    left, right = quantities.rate(low, language), quantities.rate(high, language)
    text.append(" " * LABEL_WIDTH + "└" + LINE * room + "\n", style="dim")
    text.append(" " * (LABEL_WIDTH + 1) + left + right.rjust(room - len(left)), style="dim")
    return text


class _Scale:
    def __init__(self, low: float, high: float, room: int) -> None:
        self._low, self._high, self.room = low, high, room

    def place(self, rate: float) -> int:
        share = (rate - self._low) / (self._high - self._low)
        return min(self.room - 1, max(0, round(share * (self.room - 1))))


def _range(curve: Sequence[TuneRow]) -> tuple[float, float]:
    rates = [row.tokens_per_second for row in curve if row.tokens_per_second is not None]
    slowest = min((rate.value for rate in rates), default=0.0)
    fastest = max((rate.value for rate in rates), default=1.0)
    low = max(min((rate.low or rate.value for rate in rates), default=0.0), slowest * (1 - BEYOND))
    high = min(max((rate.high or rate.value for rate in rates), default=1.0), fastest * (1 + BEYOND))
    return (low, high) if high > low else (0.99 * low, 1.01 * high)


@dataclass(frozen=True)
class _Pen:
    scale: _Scale
    most: int
    """Bytes of the longest bar."""
    language: Language


def _draw(text: Text, row: TuneRow, chosen: bool, pen: _Pen) -> None:
    rate = row.tokens_per_second
    assert rate is not None, "only what was measured is drawn"
    mark = CHOSEN if chosen else POINT
    style = "bold green" if chosen else "dim" if row.reason else "cyan"
    text.append(f"{row.candidate.batch_size:>{LABEL_WIDTH - 1}} ", style="bold" if chosen else "")
    text.append("│", style="dim")
    text.append(_whisker(rate.value, rate.low, rate.high, pen.scale, mark), style=style)
    text.append(
        f"{quantities.rate(rate.value, pen.language):>{RATE_WIDTH}}  ", style="bold" if chosen else ""
    )
    peak = row.peak_bytes or 0
    bar = BAR * max(1 if peak else 0, round(MEMORY_WIDTH * peak / pen.most)) if pen.most else ""
    text.append(bar.ljust(MEMORY_WIDTH), style="magenta")
    text.append(f"{quantities.gib(peak, pen.language):>{AMOUNT_WIDTH}}\n" if peak else "\n")


def _whisker(estimate: float, low: float | None, high: float | None, scale: _Scale, point: str) -> str:
    cells = [" "] * scale.room
    if low is not None and high is not None:
        begin, end = scale.place(low), scale.place(high)
        cells[begin : end + 1] = LINE * (end - begin + 1)
        cells[begin], cells[end] = LEFT, RIGHT
    cells[scale.place(estimate)] = point
    return "".join(cells)
