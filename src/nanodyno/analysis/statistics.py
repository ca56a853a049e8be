"""Medians with distribution-free intervals. Pure Python, no assumption about the shape of the samples."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that covers the true value with at least the probability `level`."""

    value: float
    low: float | None
    """None, as is high, when there are too few samples for any interval at this level."""
    high: float | None
    level: float
    n: int

    def document(self) -> dict[str, float | None]:
        """As every JSON document has an estimate."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}

    def inverse(self, amount: float = 1.0) -> "Interval":
        """Of amount / value: a rate where this is a time."""
        low = None if self.high is None else amount / self.high
        high = None if self.low is None else amount / self.low
        return replace(self, value=amount / self.value, low=low, high=high)

    def times(self, amount: float) -> "Interval":
        """The same in another unit."""
        low = None if self.low is None else amount * self.low
        high = None if self.high is None else amount * self.high
        return replace(self, value=amount * self.value, low=low, high=high)


def median_interval(samples: Sequence[float], level: float = 0.95) -> Interval | None:
    """The sample median between two order statistics; None without samples.

    The number of samples below the true median is binomial (n, 1/2) whatever their distribution, so the k-th
    smallest and the k-th largest enclose it with the probability that this number lies between k and n - k.
    The narrowest such pair is taken. At 95% there is none below 6 samples: even the extremes of 5 enclose the
    median in 93.75% only. Samples are taken as independent: the steps of one run tell about that run, and not
    about how its next repetition would fare.
    """
    if not samples:
        return None
    ordered = sorted(samples)
    count = len(ordered)
    rank = _rank(count, level)
    low, high = (ordered[rank - 1], ordered[count - rank]) if rank else (None, None)
    return Interval(statistics.median(ordered), low, high, level, count)


def _rank(count: int, level: float) -> int:
    """The largest k with P(k <= B <= count - k) of at least the level, B binomial (count, 1/2); 0 if none.

    Sums from the middle outwards, so that the work stays small for long runs.
    """
    rank = count // 2
    chance = math.prod((2 * i - 1) / (2 * i) for i in range(1, (count + 1) // 2 + 1))  # P(B = rank)
    covered = chance if count % 2 == 0 else 2 * chance
    while rank > 0 and covered < level:
        chance *= rank / (count - rank + 1)
        rank -= 1
        covered += 2 * chance
    return rank
