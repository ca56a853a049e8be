from nanodyno.report.plot import Labels, PlotSeries, line_plot


def canvas(series: list[PlotSeries], width: int = 28, height: int = 4) -> list[str]:
    """The rows of dots alone, without legend, ticks and the x axis."""
    lines = line_plot(series, width, height, Labels("x", "y")).plain.split("\n")
    return [line.split("│")[1] for line in lines[1 : 1 + height]]


def test_a_falling_line_goes_from_the_first_combination_to_the_last() -> None:
    rows = canvas([PlotSeries("a", [0, 1], [1, 0])])
    assert rows[0][0] != " "
    assert rows[-1][-1] != " "
    assert rows[0][-1] == rows[-1][0] == " "


def test_a_level_line_lies_in_one_row() -> None:
    rows = canvas([PlotSeries("a", [0, 10], [2, 2])])
    assert [row.strip() != "" for row in rows].count(True) == 1


def test_every_column_between_two_points_has_a_dot() -> None:
    rows = canvas([PlotSeries("a", [0, 100], [5, 1])])
    assert all(any(row[column] != " " for row in rows) for column in range(len(rows[0])))


def test_no_line_is_wider_than_asked() -> None:
    text = line_plot([PlotSeries("loss", [0, 20_000], [11, 3])], 60, 8, Labels("iterations", "loss")).plain
    assert max(len(line) for line in text.split("\n")) <= 60


def test_the_axes_carry_the_ends_of_the_data() -> None:
    text = line_plot([PlotSeries("a", [0, 250], [5.5, 2.0])], 60, 8, Labels("iterations", "loss")).plain
    assert "5.5" in text
    assert "250" in text


def test_nothing_to_plot_is_said() -> None:
    assert "nothing to plot" in line_plot([PlotSeries("a", [], [])], 60, 8, Labels("x", "y")).plain


def test_a_single_point_is_drawn() -> None:
    assert any(row.strip() for row in canvas([PlotSeries("a", [3], [7])]))


def test_the_second_line_is_dashed_and_the_third_is_not() -> None:
    levels = [PlotSeries(str(y), [0, 1], [y, y]) for y in (2, 1, 0)]
    rows = [row for row in canvas(levels, width=28, height=12) if row.strip()]
    assert [" " in row for row in rows] == [False, True, False]
    # 20 columns: the first is drawn, the next is not, and so on.
    assert [column for column in range(20) if rows[1][column] != " "] == list(range(0, 20, 2))


def test_the_legend_tells_solid_from_dashed() -> None:
    legend = line_plot(
        [PlotSeries("train", [0], [1]), PlotSeries("val", [0], [2])], 60, 8, Labels("x", "y")
    ).plain
    assert "━━ train   ╍╍ val" in legend


def test_a_legend_is_broken_between_its_entries_and_never_in_one() -> None:
    """80 columns hold 9 of label and gap, two entries of 30 and 3 between them: 72, and not a third."""
    runs = [PlotSeries(f"a-run-with-a-name-{n}: so far", [0, 1], [n, n]) for n in range(4)]
    lines = line_plot(runs, 80, 8, Labels("iterations", "loss")).plain.split("\n")
    assert lines[0] == "   loss  ━━ a-run-with-a-name-0: so far   ╍╍ a-run-with-a-name-1: so far"
    assert lines[1] == "         ━━ a-run-with-a-name-2: so far   ╍╍ a-run-with-a-name-3: so far"
    narrow = line_plot(runs, 30, 8, Labels("iterations", "loss")).plain.split("\n")
    assert narrow[0] == "   loss  ━━ a-run-with-a-name…"
    assert max(map(len, narrow)) == 30


def test_a_single_point_of_a_dashed_series_is_drawn() -> None:
    # With x from 0 to 19 over 40 dots, x=5 lies at dot 10 and x=6 at 12: columns 5 and 6.
    for x, column in ((5, 5), (6, 6)):
        rows = canvas([PlotSeries("a", [0, 19], [1, 1]), PlotSeries("b", [x], [0])])
        assert rows[-1][column] != " "
