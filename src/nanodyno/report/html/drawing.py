"""A figure as SVG, at a given width: for a page, whose style it takes, or as a file of its own."""

from functools import partial
from importlib.resources import files

from nanodyno.report.figures import BandFigure, Bars, Figure, Intervals, Lines, Stacks, Waterfall
from nanodyno.report.html.frame import Drawing
from nanodyno.report.html.lines import draw_band, draw_lines
from nanodyno.report.html.palette import LIGHT, variables
from nanodyno.report.html.rows import draw_bars, draw_intervals, draw_stacks
from nanodyno.report.html.svg import element, shown
from nanodyno.report.html.waterfall import draw_waterfall

WIDE, SLIM = 720, 328
"""A page's column, and that of a phone 360 pixels wide."""
MARGIN = 16


def svg(figure: Figure, width: int, key: str) -> str:
    """`key` is the beginning of every id in it."""
    drawn = _drawn(figure, width, key)
    return _element(figure, drawn, key, f"0 0 {width} {drawn.height:.0f}", (width, drawn.height))


def svg_file(figure: Figure) -> str:
    """With its own style, on a white ground, since a page that shows it may be dark or light."""
    key = "figure"
    drawn = _drawn(figure, WIDE, key)
    width, height = WIDE + 2 * MARGIN, drawn.height + 2 * MARGIN
    ground = element("rect", x=-MARGIN, y=-MARGIN, width=width, height=height, fill="#ffffff")
    rules = files("nanodyno.report.html").joinpath("figure.css").read_text(encoding="utf-8")
    style = element("style", f"svg {{{variables(LIGHT)}}}\n{rules}")
    framed = Drawing(style + ground + drawn.content, height)
    box = f"{-MARGIN} {-MARGIN} {width} {height:.0f}"
    return _element(figure, framed, key, box, (width, height), xmlns="http://www.w3.org/2000/svg") + "\n"


def _drawn(figure: Figure, width: int, key: str) -> Drawing:
    match figure:
        case Lines():
            draw = partial(draw_lines, figure)
        case BandFigure():
            draw = partial(draw_band, figure)
        case Intervals():
            draw = partial(draw_intervals, figure)
        case Bars():
            draw = partial(draw_bars, figure)
        case Stacks():
            draw = partial(draw_stacks, figure)
        case Waterfall():
            draw = partial(draw_waterfall, figure)
    return draw(width, key)


def _element(
    figure: Figure, drawn: Drawing, key: str, box: str, size: tuple[float, float], **more: str
) -> str:
    return element(
        "svg",
        element("title", shown(figure.title), id=f"{key}-title"),
        element("desc", shown(figure.description), id=f"{key}-desc"),
        drawn.content,
        viewBox=box,
        width=size[0],
        height=size[1],
        class_="figure",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        direction="ltr",
        **more,
    )
