"""From one total to another, a row for each change on the way."""

from dataclasses import dataclass
from itertools import accumulate

from nanodyno.report.figures import Waterfall, WaterfallChange
from nanodyno.report.html.frame import TOP, Drawing
from nanodyno.report.html.rows import BAR, Layout, layout_of, whisker
from nanodyno.report.html.scales import Scale, spanning
from nanodyno.report.html.svg import EM, element, line, rectangle, text

ZOOMED = 0.15
"""Where all changes together are a smaller share of the totals, the picture shows the changes only."""
EDGE = 0.06


@dataclass(frozen=True)
class WaterfallRow:
    label: str
    words: str
    begin: float
    change: WaterfallChange | None
    """None for a total."""

    @property
    def end(self) -> float:
        return self.begin + (0.0 if self.change is None else self.change.change)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Where its interval lies."""
        change = self.change
        if change is None or change.low is None or change.high is None:
            return None
        return self.begin + change.low, self.begin + change.high


def draw_waterfall(figure: Waterfall, width: float, key: str) -> Drawing:
    """Each change begins where the one before it ended; whiskers are the bounds of the change itself."""
    del key
    rows = _rows(figure)
    layout = layout_of([row.label for row in rows], [row.words for row in rows], width)
    x, zoomed = _scale(rows, layout)
    content = [text(figure.axis.label, layout.left, EM, "axis")]
    y = TOP
    for row in rows:
        strong = " strong" if row.change is None else ""
        content += [layout.label(row.label, y, f"name{strong}"), layout.words(row.words, y, f"value{strong}")]
        at = layout.bar_y(y)
        content += _total(x, row.begin, at, zoomed) if row.change is None else _step(x, row, at, figure)
        if row is not rows[-1]:
            content.append(line(x.at(row.end), at + BAR, x.at(row.end), at + layout.row, "joint"))
        y += layout.row
    return Drawing("".join(content), y)


def _rows(figure: Waterfall) -> list[WaterfallRow]:
    before, after = figure.before, figure.after
    begins = accumulate((part.change for part in figure.parts), initial=before.value)
    steps = [
        WaterfallRow(part.label, part.words, begin, part)
        for part, begin in zip(figure.parts, begins, strict=False)
    ]
    return [
        WaterfallRow(before.label, before.words, before.value, None),
        *steps,
        WaterfallRow(after.label, after.words, after.value, None),
    ]


def _scale(rows: list[WaterfallRow], layout: Layout) -> tuple[Scale, bool]:
    """From zero, unless the changes would be too small to be seen."""
    reached = [row.end for row in rows] + [bound for row in rows for bound in row.bounds or ()]
    low, high = spanning(reached)
    if high - low >= ZOOMED * max(abs(row.begin) for row in rows if row.change is None):
        return Scale(*spanning([low, high], from_zero=True), layout.left, layout.right), False
    edge = EDGE * (high - low)
    return Scale(low - edge, high + edge, layout.left, layout.right), True


def _step(x: Scale, row: WaterfallRow, y: float, figure: Waterfall) -> list[str]:
    is_gain = (row.end >= row.begin) == figure.more_is_better
    drawn = [rectangle(x.at(row.begin), y, x.at(row.end), BAR, f"bar {'gain' if is_gain else 'loss'}")]
    return drawn if row.bounds is None else [*drawn, *whisker(x, row.bounds, y + BAR / 2, "whisker")]


def _total(x: Scale, value: float, y: float, zoomed: bool) -> list[str]:
    """Where zero is out of the picture a bar would mislead: a mark then."""
    if zoomed:
        return [element("circle", cx=x.at(value), cy=y + BAR / 2, r=5, class_="point chosen c0")]
    return [rectangle(x.at(0), y, x.at(value), BAR, "bar total")]
