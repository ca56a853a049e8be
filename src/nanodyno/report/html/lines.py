"""Curves over a common axis, and a forecast's band: drawn."""

from collections.abc import Sequence
from dataclasses import replace

from nanodyno.report.figures import BandFigure, Lines, Point, Series
from nanodyno.report.html.frame import Drawing, Frame, Label, Space, end_labels, framed, label_room, legend
from nanodyno.report.html.scales import spanning
from nanodyno.report.html.svg import element, line, path, shown, text
from nanodyno.report.html.thinning import thinned

COLOURS = 5
MOST_MARKED = 40
"""Points of a curve: more would be a string of beads."""
BEGINNING = 0.04
"""Of the x axis: the fall from an untrained loss is let run out of the picture, so that the rest is seen."""
LONG_BEGINNING = 0.2
"""Of a forecast, where the end is what is looked at."""
RAISED = 13.0
"""Pixels: where what was measured ends, the line of what is expected begins."""
STRETCH = 3.0
"""How far above the usual values the picture goes, in their range; what is higher is marked at its edge."""


def draw_lines(figure: Lines, width: float, key: str) -> Drawing:
    series = [each for each in figure.series if each.points]
    assert series, "a picture without points is a sentence"
    x_range = spanning([x for each in series for x, _ in each.points])
    y_range = _seen(series, x_range, BEGINNING)
    above, space = _labelled(series, width)
    frame = framed(figure.x, figure.y, x_range, y_range, space)
    content = [*frame.content, above, _clip(frame, key)]
    content.append(
        element("g", *(_drawn(each, frame) for each in series), clip_path=f"url(#{key}-clip)", class_="lines")
    )
    content.append(_beyond(series, frame))
    if not space.is_narrow:
        content.append(end_labels(_ends(series, frame), frame.y))
    return Drawing("".join(content), frame.height)


def draw_band(figure: BandFigure, width: float, key: str) -> Drawing:
    low, high = figure.low, figure.high
    places = [x for x, _ in figure.median.points]
    median = replace(figure.median, manner="median")
    series = [each for each in (*figure.beside, median, figure.measured) if each.points]
    goals = [] if figure.target is None else [figure.target]
    x_range = spanning([x for each in series for x, _ in each.points])
    y_range = _seen(series, x_range, LONG_BEGINNING, [*low, *high, *goals])
    above, space = _labelled(series, width, (figure.band_label, "swatch"))
    frame = framed(figure.x, figure.y, x_range, y_range, space)
    around = [*zip(places, high, strict=True), *reversed(list(zip(places, low, strict=True)))]
    band = path([(frame.x.at(x), frame.y.within(y)) for x, y in around], "band", closed=True)
    drawn = [band, *(_drawn(each, frame) for each in series)]
    content = [*frame.content, above, _clip(frame, key)]
    content.append(element("g", *drawn, clip_path=f"url(#{key}-clip)"))
    if figure.target is not None:
        at = frame.y.at(figure.target)
        content.append(line(frame.x.begin, at, frame.x.end, at, "limit"))
        content.append(text(figure.target_label, frame.x.begin + 6, at - 5, "name"))
    if not space.is_narrow:
        measured = [figure.measured] if figure.measured.points else []
        ends = _ends([each for each in series if each not in measured], frame)
        ends += [replace(each, y=each.y - RAISED) for each in _ends(measured, frame)]
        if places:
            middle = frame.y.within((figure.median.points[-1][1] + high[-1]) / 2)
            ends.append(Label(figure.band_label, frame.x.at(places[-1]), middle - 14, "quiet"))
        content.append(end_labels(ends, frame.y))
    return Drawing("".join(content), frame.height)


def _labelled(series: Sequence[Series], width: float, *more: tuple[str, str]) -> tuple[str, Space]:
    """What stands above the picture, and what it is to leave free."""
    labels = [(each.label, _swatch(each)) for each in series if each.label] + list(more)
    room = label_room([words for words, _ in labels], width)
    if not Space(width).is_narrow:
        return "", Space(width, room)
    above, rows = legend(labels, width)
    return above, Space(width, room, rows)


def _swatch(series: Series) -> str:
    """Samples are drawn faint; their label is not."""
    return _kind(replace(series, manner="curve") if series.manner == "samples" else series)


def _kind(series: Series) -> str:
    number = series.colour % COLOURS
    dashed = " dashed" if series.colour % 2 and series.manner == "curve" else ""
    return f"line {series.manner} c{number}{dashed}"


def _seen(
    series: Sequence[Series], x_range: tuple[float, float], beginning: float, more: Sequence[float] = ()
) -> tuple[float, float]:
    """The range that shows most: without the first fall, and without what lies far above all else."""
    begin = x_range[0] + beginning * (x_range[1] - x_range[0])
    values = [y for each in series for x, y in each.points if x >= begin] or [
        y for each in series for _, y in each.points
    ]
    ordered = sorted([*values, *more])
    usual = ordered[int(0.98 * (len(ordered) - 1))]
    low = ordered[0]
    return spanning([low, min(ordered[-1], usual + STRETCH * (usual - low))])


def _placed(points: Sequence[Point], frame: Frame) -> list[Point]:
    return [(frame.x.at(x), frame.y.at(y)) for x, y in thinned(points, frame.columns)]


def _drawn(series: Series, frame: Frame) -> str:
    points = _placed(series.points, frame)
    kind = _kind(series)
    drawn = path(points, kind) if len(points) > 1 else ""
    if len(points) == 1 or (series.manner == "curve" and len(points) <= MOST_MARKED):
        drawn += "".join(
            element("circle", cx=x, cy=y, r=2.6, class_=f"point c{series.colour % COLOURS}")
            for x, y in points
        )
    return drawn


def _ends(series: Sequence[Series], frame: Frame) -> list[Label]:
    ends = ((each, *each.points[-1]) for each in series if each.label)
    return [
        Label(
            each.label,
            frame.x.at(x),
            frame.y.within(y),
            "quiet" if each.manner == "beside" else f"t{each.colour % COLOURS}",
        )
        for each, x, y in ends
    ]


def _beyond(series: Sequence[Series], frame: Frame) -> str:
    """An arrow for each stretch of points above the picture, with the highest value in words."""
    marks: list[str] = []
    for each in series:
        stretch: list[Point] = []
        for point in [*each.points, (0.0, float("-inf"))]:
            if point[1] > frame.y.high:
                stretch.append(point)
            elif stretch and stretch[0] == each.points[0] and len(stretch) < len(each.points):
                stretch = []  # its first fall, which is seen to come from above
            elif stretch:
                x, y = max(stretch, key=lambda found: found[1])
                marks.append(_arrow(frame.x.at(x), frame.y.end, f"c{each.colour % COLOURS}", f"{y:.4g}"))
                stretch = []
    return "".join(marks)


def _arrow(x: float, y: float, kind: str, words: str) -> str:
    outline = f"M{x - 4:.1f} {y - 1:.1f}L{x:.1f} {y - 8:.1f}L{x + 4:.1f} {y - 1:.1f}Z"
    return element("path", element("title", shown(words)), d=outline, class_=f"arrow {kind}")


def _clip(frame: Frame, key: str) -> str:
    x, y = frame.x, frame.y
    inside = element("rect", x=x.begin, y=y.end - 1, width=x.end - x.begin + 4, height=y.begin - y.end + 4)
    return element("clipPath", inside, id=f"{key}-clip")
