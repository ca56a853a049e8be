"""A report of a long run is small, and shows every spike that it had."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nanodyno.report.html.thinning import thinned


def test_a_spike_of_one_iteration_among_twenty_thousand_stays() -> None:
    points = [(float(x), 3.0) for x in range(20_000)]
    points[12_345] = (12_345.0, 9.0)
    points[777] = (777.0, 1.0)
    few = thinned(points, 600)
    assert len(few) <= 2400
    assert (12_345.0, 9.0) in few
    assert (777.0, 1.0) in few
    assert (few[0], few[-1]) == (points[0], points[-1])


def test_few_points_are_left_as_they_are() -> None:
    points = [(0.0, 1.0), (1.0, 5.0), (2.0, 2.0)]
    assert thinned(points, 600) == points


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=50, max_size=400), st.integers(1, 12))
def test_of_each_column_the_lowest_and_the_highest_are_kept_in_order(
    values: list[float], columns: int
) -> None:
    points = [(float(x), y) for x, y in enumerate(values)]
    few = thinned(points, columns)
    assert few == sorted(few)
    assert set(few) <= set(points)
    width = (len(points) - 1) / columns
    for column in range(columns):
        inside = [y for x, y in points if min(columns - 1, int(x / width)) == column]
        kept = [y for x, y in few if min(columns - 1, int(x / width)) == column]
        assert (min(kept), max(kept)) == (min(inside), max(inside))
