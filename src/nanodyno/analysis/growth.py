"""Tokens over iterations of a run whose effective batch may grow on the way."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nanodyno.config.ramp import NoRamp, Ramp, read_ramp

FAR = 10**18
"""More iterations than anybody makes."""


@dataclass(frozen=True)
class BatchGrowth:
    unit: int
    """The config's tokens_per_iter, which is the first size."""
    stages: tuple[tuple[int, int], ...] = ()
    """The first iteration of each other size, and the size."""

    def size_at(self, iteration: int) -> int:
        """Of the iteration with that number, counted from 0."""
        number = bisect_right(self.stages, (iteration, FAR))
        return self.stages[number - 1][1] if number else self.unit

    def tokens(self, iterations: int) -> int:
        """Of the first so many."""
        return sum(size * max(0, min(iterations, end) - since) for since, end, size in self._spans())

    def even(self, iterations: int) -> float:
        """As many tokens in iterations of the first size."""
        return self.tokens(iterations) / self.unit

    def iterations(self, tokens: float) -> int:
        """The fewest that see so many."""
        done = 0
        for since, end, size in self._spans():
            number = min(end - since, max(0, math.ceil(tokens / size)))
            done, tokens = done + number, tokens - number * size
        return done

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        begins = (0, *(since for since, _ in self.stages))
        sizes = (self.unit, *(size for _, size in self.stages))
        return zip(begins, (*begins[1:], FAR), sizes, strict=True)


def growth_of(unit: int, recorded: Iterable[tuple[int, int]], ramp: object) -> BatchGrowth:
    """As it was by the iterations whose tokens are recorded, and from there on by the schedule.

    Where the measured noise decides nobody knows what is ahead, and the last size is taken to stay.
    """
    stages: list[tuple[int, int]] = []
    size, last = unit, -1
    for iteration, tokens in recorded:
        if tokens != size:
            stages.append((iteration, tokens))
        size, last = tokens, iteration
    seen = BatchGrowth(unit, tuple(stages)).tokens(last + 1)
    for since, larger in _read(ramp, unit).steps:
        if larger > size:
            at = BatchGrowth(unit, tuple(stages)).iterations(max(since, seen))
            stages.append((at, larger))
    return BatchGrowth(unit, tuple(stages))


def is_by_noise(ramp: object) -> bool:
    return _read(ramp, 1).most is not None


def _read(ramp: object, first: int) -> Ramp:
    """Of a setting that may come from anywhere."""
    try:
        return read_ramp(ramp, first) if isinstance(ramp, str) else Ramp(first)
    except NoRamp:
        return Ramp(first)
