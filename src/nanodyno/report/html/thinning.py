"""Many points made few without losing a spike: the first, lowest, highest and last of each column."""

from collections.abc import Sequence

from nanodyno.report.figures import Point


def thinned(points: Sequence[Point], columns: int) -> list[Point]:
    """At most four points a column, in order of x; every extreme of every column is among them."""
    if len(points) <= 4 * columns:
        return list(points)
    first, last = points[0][0], points[-1][0]
    width = (last - first) / columns or 1.0
    kept: list[Point] = []
    column: list[Point] = []
    number = 0
    for point in points:
        at = min(columns - 1, int((point[0] - first) / width))
        if at != number and column:
            kept += _outline(column)
            column = []
        number = at
        column.append(point)
    return kept + _outline(column)


def _outline(column: Sequence[Point]) -> list[Point]:
    places = range(len(column))
    lowest = min(places, key=lambda place: column[place][1])
    highest = max(places, key=lambda place: column[place][1])
    return [column[place] for place in sorted({0, lowest, highest, len(column) - 1})]
