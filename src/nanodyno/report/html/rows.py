"""Pictures that are rows under each other: figures with intervals, bars, stacks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nanodyno.report.figures import Bars, Estimate, Intervals, Stacks
from nanodyno.report.html.frame import LINE_HEIGHT, NARROW, TOP, Drawing, legend
from nanodyno.report.html.scales import Scale, spanning, ticks
from nanodyno.report.html.svg import EM, cut, element, line, path, rectangle, shown, text, width_of

BAR = 16.0
ROW, TALL_ROW = 32.0, 48.0
LONGEST_LABEL = 190.0
GAP = 12.0
BESIDE_BAR = 90.0
ARROW = 8.0


@dataclass(frozen=True)
class Layout:
    """Where labels, bars and words of rows stand: beside each other, or the words above the bar."""

    width: float
    left: float
    right: float
    """Of the bars."""
    words_end: float
    narrow: bool

    @property
    def row(self) -> float:
        return TALL_ROW if self.narrow else ROW

    def label(self, words: str, y: float, kind: str) -> str:
        if self.narrow:
            return text(cut(words, self.width * 0.62), 0, y + EM, kind)
        return text(cut(words, LONGEST_LABEL), self.left - GAP, y + BAR / 2 + 4.5, kind, "end")

    def words(self, words: str, y: float, kind: str = "value") -> str:
        if self.narrow:
            return text(words, self.width, y + EM, kind, "end")
        return text(words, self.words_end, y + BAR / 2 + 4.5, kind, "end")

    def bar_y(self, y: float) -> float:
        return y + 20 if self.narrow else y


def layout_of(labels: Sequence[str], words: Sequence[str], width: float, beside: float = 0.0) -> Layout:
    if width < NARROW:
        return Layout(width, 0, width, width, True)
    left = min(LONGEST_LABEL, max(map(width_of, labels), default=0)) + GAP
    room = max(map(width_of, words), default=0) + GAP
    end = width - beside
    return Layout(width, left, end - room, end, False)


def draw_intervals(figure: Intervals, width: float, key: str) -> Drawing:
    del key
    rows = figure.rows
    has_beside = any(row.beside is not None for row in rows) and width >= NARROW
    amounts = max((width_of(row.beside_words) for row in rows), default=0)
    beside = BESIDE_BAR + amounts + 3 * GAP if has_beside else 0.0
    layout = layout_of([row.label for row in rows], [row.words for row in rows], width, beside)
    x = Scale(*_range(figure), layout.left, layout.right)
    content = [text(figure.label, 0, EM, "axis")] if figure.label else []
    if has_beside:
        content.append(text(figure.beside_label, layout.words_end + 2 * GAP, EM, "axis"))
    y = TOP if content else 2.0
    for row in rows:
        content.append(layout.label(row.label, y, "name strong" if row.chosen else "name"))
        content.append(layout.words(_narrow_words(row, layout), y, "value strong" if row.chosen else "value"))
        content += _estimate(row, x, layout.bar_y(y), figure)
        if has_beside and row.beside is not None:
            most = max(each.beside or 0 for each in rows) or 1
            begin = layout.words_end + 2 * GAP
            content.append(
                rectangle(begin, y + 3, begin + BESIDE_BAR * row.beside / most, BAR - 6, "quiet-bar")
            )
            content.append(text(row.beside_words, width, y + BAR / 2 + 4.5, "value", "end"))
        y += layout.row
    if not figure.from_zero:
        content += _ruler(figure, x, y)
        y += 30
    return Drawing("".join(content), y)


def _narrow_words(row: Estimate, layout: Layout) -> str:
    return f"{row.words} · {row.beside_words}" if layout.narrow and row.beside_words else row.words


def _range(figure: Intervals) -> tuple[float, float]:
    bounds = [bound for row in figure.rows for bound in (row.low, row.value, row.high) if bound is not None]
    if figure.from_zero:
        return spanning(bounds, from_zero=True)
    low, high = spanning([row.value for row in figure.rows])
    margin = 0.25 * (high - low)
    least, most = max(min(bounds), low - margin), min(max(bounds), high + margin)
    edge = 0.04 * (most - least)
    return least - edge, most + edge


def _estimate(row: Estimate, x: Scale, y: float, figure: Intervals) -> list[str]:
    """A bar or a point, and its interval across it."""
    kind, from_zero = f"c{row.colour % 5}", figure.from_zero
    middle = y + BAR / 2
    drawn = [rectangle(x.at(0), y, x.at(row.value), BAR, f"bar {kind}")] if from_zero else []
    if not from_zero:
        drawn.append(line(x.begin, middle, x.end, middle, "grid"))
    if row.low is not None and row.high is not None:
        bounds = row.low, row.high
        drawn += whisker(x, bounds, middle, "whisker" if from_zero else f"line {kind}")
        drawn += [_goes_on(x, each, middle, kind, figure.words) for each in bounds if x.leaves(each)]
    if not from_zero:
        point = "point chosen" if row.chosen else "point open"
        drawn.append(element("circle", cx=x.at(row.value), cy=middle, r=5, class_=f"{point} {kind}"))
    return drawn


def whisker(x: Scale, bounds: tuple[float, float], y: float, kind: str) -> list[str]:
    """A bound beyond the picture has no end mark: the line runs out of it."""
    low, high = map(x.within, bounds)
    ends = [line(x.at(each), y - 4, x.at(each), y + 4, kind) for each in bounds if not x.leaves(each)]
    return [line(low, y, high, y, kind), *ends]


def _goes_on(x: Scale, bound: float, y: float, kind: str, words: Callable[[float], str]) -> str:
    """An arrow at the edge, with the bound in words."""
    tip, back = (x.end, x.end - ARROW) if bound > x.high else (x.begin, x.begin + ARROW)
    outline = f"M{back:.1f} {y - 5:.1f}L{tip:.1f} {y:.1f}L{back:.1f} {y + 5:.1f}Z"
    return element("path", element("title", shown(words(bound))), d=outline, class_=f"arrow {kind}")


def _ruler(figure: Intervals, x: Scale, y: float) -> list[str]:
    drawn = [line(x.begin, y, x.end, y, "base")]
    room = max(width_of(figure.words(each)) for each in (x.low, x.high)) + 24
    for mark in ticks(x.low, x.high, max(2, int((x.end - x.begin) / room))):
        drawn.append(line(x.at(mark), y, x.at(mark), y + 4, "base"))
        drawn.append(text(figure.words(mark), x.at(mark), y + 18, "tick", "middle"))
    return drawn


def draw_bars(figure: Bars, width: float, key: str) -> Drawing:
    """Of several groups, a bar each under the other, with its words beside it also on a phone."""
    del key
    words = [each for row in figure.rows for each in row.words]
    layout = layout_of([row.label for row in figure.rows], words, width)
    several = max((len(row.values) for row in figure.rows), default=0) > 1
    if layout.narrow and several:
        layout = replace(layout, right=width - max(map(width_of, words)) - GAP)
    values = [value for row in figure.rows for value in row.values]
    x = Scale(*spanning(values, from_zero=True), layout.left, layout.right)
    groups = [(name, f"swatch-bar c{number % 5}") for number, name in enumerate(figure.groups)]
    above, lines = legend(groups, width, EM)
    content = [above]
    y = 4.0 + (LINE_HEIGHT * lines + 8 if lines else 0.0)
    for row in figure.rows:
        content.append(layout.label(row.label, y, "name"))
        for number, (value, said) in enumerate(zip(row.values, row.words, strict=True)):
            at = layout.bar_y(y)
            content.append(rectangle(x.at(0), at, x.at(value), BAR, f"bar c{(number or row.colour) % 5}"))
            beside = replace(layout, narrow=False) if several else layout
            content.append(beside.words(said, at if several else y))
            y += BAR + 3
        y += layout.row - BAR - 3
    return Drawing("".join(content), y)


def draw_stacks(figure: Stacks, width: float, key: str) -> Drawing:
    del key
    layout = layout_of([row.label for row in figure.rows], [row.words for row in figure.rows], width)
    largest = max(sum(row.sizes) for row in figure.rows)
    end = largest if figure.limit is None else max(figure.limit, min(largest, 1.3 * figure.limit))
    x = Scale(0, end, layout.left, layout.right)
    parts = [(name, f"swatch-bar c{number % 5}") for number, name in enumerate(figure.parts)]
    above, lines = legend(parts, width)
    content = [text(figure.label, 0, EM, "axis"), above]
    first = y = TOP + LINE_HEIGHT * lines + (18.0 if figure.limit is not None else 0.0)
    for row in figure.rows:
        content.append(layout.label(row.label, y, "name strong" if row.chosen else "name"))
        content.append(layout.words(row.words, y, "value strong" if row.chosen else "value"))
        reached = 0.0
        for number, size in enumerate(row.sizes):
            begin, reached = reached, reached + size
            if size > 0 and begin < end:
                at = layout.bar_y(y)
                content.append(rectangle(x.at(begin), at, x.within(reached), BAR, f"bar part c{number % 5}"))
        if reached > end * 1.0001:
            content.append(_cut_off(x.end, layout.bar_y(y)))
        y += layout.row
    if figure.limit is not None:
        at = x.at(figure.limit)
        content.append(line(at, first - 6, at, y - layout.row + layout.bar_y(0) + BAR + 6, "limit"))
        content.append(text(figure.limit_words, at, first - 10, "name", "end"))
    return Drawing("".join(content), y)


def _cut_off(x: float, y: float) -> str:
    """That a bar goes on beyond the picture."""
    return path([(x - 9, y - 3), (x - 3, y + BAR / 2), (x - 9, y + BAR + 3)], "cut")
