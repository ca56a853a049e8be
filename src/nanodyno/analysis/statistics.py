"""An estimate with its interval."""

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
