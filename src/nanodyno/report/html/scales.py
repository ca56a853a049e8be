"""Where a value stands in a picture, and at which round values an axis has ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Scale:
    """From values to pixels; `end` may be above `begin` in value and below it in pixels."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def leaves(self, value: float) -> bool:
        return not self.low <= value <= self.high

    def within(self, value: float) -> float:
        """Kept to the picture."""
        return self.at(min(self.high, max(self.low, value)))


def spanning(values: Sequence[float], from_zero: bool = False) -> tuple[float, float]:
    """The least and the greatest, never the same."""
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high > low:
        return low, high
    margin = abs(low) * 0.05 or 1.0
    return low - margin, high + margin


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most so many steps of round values, from low to high."""
    step = _step(low, high, most)
    return _multiples(step, math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9))


def covering(low: float, high: float, most: int) -> list[float]:
    """The same, from the last round value below low to the first above high."""
    step = _step(low, high, most)
    return _multiples(step, math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9))


def _step(low: float, high: float, most: int) -> float:
    rough = (high - low) / max(1, most)
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * each for each in STEPS if size * each >= rough * (1 - 1e-9))


def _multiples(step: float, first: int, last: int) -> list[float]:
    digits = 12 - math.floor(math.log10(step))
    return [round(step * number, digits) for number in range(first, last + 1)]
