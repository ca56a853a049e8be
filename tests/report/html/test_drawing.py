"""Pictures: where things stand, worked out by hand."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from nanodyno.report.figures import (
    Axis,
    BandFigure,
    Bar,
    Bars,
    Estimate,
    Figure,
    Intervals,
    Lines,
    Series,
    Stack,
    Stacks,
    Total,
    Waterfall,
    WaterfallChange,
    finite,
)
from nanodyno.report.html.drawing import SLIM, WIDE, svg, svg_file

LOSS = Axis("loss")
LINES = Lines(
    "Loss",
    "of two runs",
    Axis("tokens"),
    LOSS,
    (
        Series("a", tuple((float(x), 5 - x / 100) for x in range(101))),
        Series("b", ((0.0, 5.0), (100.0, 3.0)), 1),
    ),
)
INTERVALS = Intervals(
    "Speed",
    "of two",
    "run",
    str,
    (
        Estimate("a", 100.0, "100", 90.0, 110.0, beside=2.0, beside_words="2 GiB"),
        Estimate("b", 50.0, "50", chosen=True),
    ),
)
BARS = Bars(
    "Time",
    "shares",
    (Bar("x", (0.25, 0.5), ("25%", "50%")), Bar("y", (0.75, 0.5), ("75%", "50%"))),
    ("one", "two"),
)
STACKS = Stacks(
    "Memory",
    "stacked",
    "micro-batch",
    ("p", "q"),
    (Stack("1", (2.0, 2.0), "4"), Stack("2", (2.0, 40.0), "42", True)),
    10.0,
    "limit 10",
)
WATERFALL = Waterfall(
    "Why",
    "from a to b",
    Axis("tokens per second"),
    Total("a", 100.0, "100"),
    (WaterfallChange("wider", -60.0, "-60", -65.0, -55.0), WaterfallChange("batch", 20.0, "+20")),
    Total("b", 60.0, "60"),
)
BAND = BandFigure(
    "Forecast",
    "of one run",
    Axis("tokens"),
    LOSS,
    Series("measured", ((0.0, 5.0), (50.0, 4.0))),
    Series("median", ((50.0, 4.0), (100.0, 3.5))),
    (4.0, 3.4),
    (4.0, 3.7),
    "95 of 100",
    (Series("another", ((0.0, 5.2), (100.0, 3.6)), manner="beside"),),
    3.45,
    "target",
)
EVERY = [LINES, INTERVALS, BARS, STACKS, WATERFALL, BAND]


def drawn(figure: Figure, width: int = WIDE) -> ElementTree.Element:
    return ElementTree.fromstring(svg(figure, width, "f"))


def found(figure: Figure, tag: str, kind: str, width: int = WIDE) -> list[dict[str, str]]:
    return [each.attrib for each in drawn(figure, width).iter(tag) if kind in each.get("class", "").split()]


def words(figure: Figure, width: int = WIDE) -> list[str]:
    return [each.text or "" for each in drawn(figure, width).iter("text")]


@pytest.mark.parametrize("figure", EVERY, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("width", [WIDE, SLIM])
def test_every_picture_is_well_formed_named_and_within_its_frame(figure: Figure, width: int) -> None:
    root = drawn(figure, width)
    assert root.get("role") == "img"
    assert [root.findtext("title"), root.findtext("desc")] == [figure.title, figure.description]
    assert root.get("aria-labelledby") == "f-title f-desc"
    height = float(root.get("height", "0"))
    for each in root.iter("rect"):
        x, y, wide, high = (float(each.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert -1 <= x <= x + wide <= width + 5
        assert -1 <= y <= y + high <= height
    for each in root.iter("text"):
        assert 0 <= float(each.get("x", "-1")) <= width
        assert 0 <= float(each.get("y", "-1")) <= height


@pytest.mark.parametrize("figure", EVERY, ids=lambda each: type(each).__name__)
def test_a_file_of_its_own_has_its_style_and_ground(figure: Figure) -> None:
    text = svg_file(figure)
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--c0:" in text
    assert 'fill="#ffffff"' in text
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_bar_is_as_long_as_its_figure_and_the_interval_lies_across_its_end() -> None:
    long, short = found(INTERVALS, "rect", "bar")
    assert float(short["width"]) == pytest.approx(float(long["width"]) / 2, abs=0.2)
    across, *ends = found(INTERVALS, "line", "whisker")
    end = float(long["x"]) + float(long["width"])
    per_unit = float(long["width"]) / 100
    assert float(across["x1"]) == pytest.approx(end - 10 * per_unit, abs=0.2)
    assert float(across["x2"]) == pytest.approx(end + 10 * per_unit, abs=0.2)
    assert len(ends) == 2


@pytest.mark.parametrize("width", [WIDE, SLIM])
def test_an_interval_that_leaves_the_picture_has_an_arrow_there_in_place_of_its_end(width: int) -> None:
    rows = (replace(INTERVALS.rows[0], low=1.0, high=1e6), INTERVALS.rows[1])
    wide = replace(INTERVALS, rows=rows, from_zero=False)
    across, *ends = found(wide, "line", "line", width)
    assert ends == []
    arrows = [each for each in drawn(wide, width).iter("path") if "arrow" in each.get("class", "")]
    tips = [float(each.get("d", "").split("L")[1].split()[0]) for each in arrows]
    assert tips == [float(across["x1"]), float(across["x2"])]
    assert 0 <= tips[0] < tips[1] <= width
    assert [each.findtext("title") for each in arrows] == ["1.0", "1000000.0"]


def test_an_interval_within_the_picture_has_no_arrow() -> None:
    assert found(replace(INTERVALS, from_zero=False), "path", "arrow") == []


def test_what_is_beside_stands_beside_and_on_a_phone_in_the_same_line() -> None:
    assert "2 GiB" in words(INTERVALS)
    assert "100 · 2 GiB" in words(INTERVALS, SLIM)


def test_bars_of_a_row_are_as_long_as_their_values() -> None:
    widths = [float(each["width"]) for each in found(BARS, "rect", "bar")]
    assert [round(width / widths[0], 2) for width in widths] == [1.0, 2.0, 3.0, 2.0]


def test_a_stack_beyond_the_limit_is_cut_and_says_so() -> None:
    parts = found(STACKS, "rect", "part")
    begins = [float(each["x"]) for each in parts]
    assert begins[0] == begins[2]
    assert begins[1] == pytest.approx(begins[0] + float(parts[0]["width"]), abs=0.1)
    (limit,) = found(STACKS, "line", "limit")
    unit = float(parts[0]["width"]) / 2
    assert float(limit["x1"]) == pytest.approx(begins[0] + 10 * unit, abs=0.2)
    assert len(found(STACKS, "path", "cut")) == 1


def test_a_waterfall_goes_down_and_up_from_total_to_total() -> None:
    before, after = found(WATERFALL, "rect", "total")
    (down,) = found(WATERFALL, "rect", "loss")
    (up,) = found(WATERFALL, "rect", "gain")
    unit = float(before["width"]) / 100
    ends = {name: float(each["x"]) - float(before["x"]) for name, each in (("down", down), ("up", up))}
    assert ends == {"down": pytest.approx(40 * unit, abs=0.2), "up": pytest.approx(40 * unit, abs=0.2)}
    assert float(down["width"]) == pytest.approx(60 * unit, abs=0.2)
    assert float(up["width"]) == pytest.approx(20 * unit, abs=0.2)
    assert float(after["width"]) == pytest.approx(60 * unit, abs=0.2)
    across = found(WATERFALL, "line", "whisker")[0]
    assert float(across["x1"]) - float(before["x"]) == pytest.approx(35 * unit, abs=0.2)


def test_small_changes_of_a_large_total_are_shown_without_bars_from_zero() -> None:
    small = Waterfall(
        "t", "d", LOSS, Total("a", 3.0, "3"), (WaterfallChange("x", 0.01, "+0.01"),), Total("b", 3.01, "3.01")
    )
    assert found(small, "rect", "total") == []
    assert len(found(small, "circle", "point")) == 2


def test_where_less_is_better_a_fall_is_the_gain() -> None:
    less = replace(WATERFALL, more_is_better=False)
    assert found(less, "rect", "gain")[0]["width"] == found(WATERFALL, "rect", "loss")[0]["width"]


def test_parts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(AssertionError, match="left over"):
        replace(WATERFALL, parts=WATERFALL.parts[:1])


def test_a_band_lies_between_its_bounds() -> None:
    (band,) = found(BAND, "path", "band")
    combinations = [tuple(map(float, each.split())) for each in band["d"].strip("MZ").split("L")]
    (begin_high, end_high, end_low, begin_low) = combinations
    assert begin_high == begin_low
    assert end_high[0] == end_low[0]
    assert end_high[1] < end_low[1]  # downwards in a picture is less
    (median,) = found(BAND, "path", "median")
    last = float(median["d"].split("L")[-1].split()[1])
    share = (end_low[1] - last) / (end_low[1] - end_high[1])
    assert share == pytest.approx((3.5 - 3.4) / (3.7 - 3.4), abs=0.02)
    assert "target" in words(BAND)
    with pytest.raises(AssertionError, match="a bound for each place"):
        replace(BAND, low=(1.0,))


def test_lines_are_labelled_at_their_ends_and_above_on_a_phone() -> None:
    ends = {
        each.text: float(each.get("x", "0"))
        for each in drawn(LINES).iter("text")
        if "name" in each.get("class", "")
    }
    assert ends["a"] == ends["b"] > WIDE - 60
    slim = {each.text: float(each.get("y", "0")) for each in drawn(LINES, SLIM).iter("text")}
    assert slim["a"] == slim["b"] < 40


def test_labels_that_end_together_keep_apart() -> None:
    same = replace(
        LINES, series=(LINES.series[0], replace(LINES.series[1], points=((0.0, 5.0), (100.0, 4.0))))
    )
    a, b = (float(each.get("y", "0")) for each in drawn(same).iter("text") if each.text in ("a", "b"))
    assert abs(a - b) >= 16


def test_what_lies_far_above_is_marked_at_the_edge_with_its_value() -> None:
    points = [(float(x), 3.0 + (x % 2) / 10) for x in range(1000)]
    points[500] = (500.0, 1e6)
    spiky = Lines("t", "d", Axis("x"), LOSS, (Series("a", tuple(points), manner="samples"),))
    (arrow,) = [each for each in drawn(spiky).iter("path") if "arrow" in each.get("class", "")]
    assert arrow.findtext("title") == "1e+06"


def test_the_first_fall_is_no_spike() -> None:
    falling = ((0.0, 11.0), (1.0, 8.0), *((float(x), 4.0 + x / 1e4) for x in range(10, 1000)))
    figure = Lines("t", "d", Axis("x"), LOSS, (Series("a", falling, manner="samples"),))
    assert found(figure, "path", "arrow") == []


def test_what_is_not_a_number_is_not_drawn() -> None:
    assert finite([(2.0, 1.0), (1.0, float("nan")), (0.0, 3.0), (3.0, float("inf"))]) == (
        (0.0, 3.0),
        (2.0, 1.0),
    )


def test_words_from_the_right_run_so_in_a_picture_from_the_left() -> None:
    arabic = replace(INTERVALS, rows=(Estimate("logits والخسارة", 1.0, "1"),))
    assert "\u2067\u2068logits\u2069 والخسارة\u2069" in words(arabic)


def test_text_is_escaped_and_cut_where_it_is_too_long() -> None:
    evil = replace(INTERVALS, rows=(Estimate("<b>&" + "x" * 99, 1.0, "</svg>\x00"),))
    labels = words(evil)
    assert any(label.startswith("<b>&xxx") and label.endswith("…") for label in labels)
    assert "</svg>\ufffd" in labels
