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
    times = np.array([np.nan if each is None else each for each in seconds], dtype=np.float64)
    groups = max(1, round(len(times) / GROUP))
    parts = np.array_split(times, groups)
    limits = [_limit(part[np.isfinite(part)]) for part in parts]
    flags: list[bool] = []
    for number, part in enumerate(parts):
        limit = max(limits[max(0, number - 1) : number + 2])
        flags += (part > limit).tolist()
    return flags


def _limit(times: "np.ndarray") -> float:
    if len(times) < FEWEST:
        return float("inf")
    median = float(np.median(times))
    deviation = 1.4826 * float(np.median(np.abs(times - median)))
    return median + max(LEAST_EXCESS * median, SPREADS * deviation)
