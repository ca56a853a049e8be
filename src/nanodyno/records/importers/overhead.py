"""Which iterations took longer than training does, by their neighbours' times."""

from collections.abc import Sequence

import numpy as np

GROUP = 64
"""Iterations whose median is the measure: a card that throttles for longer is slow, not disturbed."""
LEAST_EXCESS = 0.05
"""Of the median: less than any evaluation or save of note adds."""
SPREADS = 8.0
FEWEST = 5


def much_longer(seconds: Sequence[float | None]) -> list[bool]:
    """Of times in their order; False where there is none.

    Each group of 64 has a limit: its median and 5%, or eight standard deviations where its times scatter more
    (taken from the median deviation, which the slow ones themselves do not move). An iteration has to exceed
    the limits of its own group and of both next to it, so that no step of a run that changes its pace is
    taken for a disturbance.
    """
    rows = -(-len(seconds) // GROUP) or 1
    times = np.full(rows * GROUP, np.nan)
    times[: len(seconds)] = [np.nan if each is None else each for each in seconds]
    groups = times.reshape(rows, GROUP)
    medians = _medians(groups)
    deviations = 1.4826 * _medians(np.abs(groups - medians))
    limits = medians + np.maximum(LEAST_EXCESS * medians, SPREADS * deviations)
    limits[np.isfinite(groups).sum(axis=1) < FEWEST] = np.inf
    around = np.maximum.reduce([limits, np.roll(limits, 1, axis=0), np.roll(limits, -1, axis=0)])
    return (groups > around).ravel()[: len(seconds)].tolist()


def _medians(groups: "np.ndarray") -> "np.ndarray":
    """Of each row, as a column; of an even number the lower one. NaN is passed over."""
    ordered = np.sort(groups, axis=1)  # with NaN last
    middle = np.maximum(0, (np.isfinite(groups).sum(axis=1, keepdims=True) - 1) // 2)
    return np.take_along_axis(ordered, middle, axis=1)
