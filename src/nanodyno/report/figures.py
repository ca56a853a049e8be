"""Pictures as plain data: what is to be seen, in finished words, and nothing of how it is drawn."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float]
Manner = Literal["curve", "samples", "beside", "median"]
"""curve: few points, each to be seen; samples: many and noisy; beside: for comparison; median: a forecast."""


def plain(value: float) -> str:
    return f"{value:g}"


@dataclass(frozen=True)
class Axis:
    label: str
    words: Callable[[float], str] = plain
    """Of a tick, in units of `unit`."""
    unit: float = 1.0
    """What is called one on this axis: 3600 where seconds are shown as hours."""


@dataclass(frozen=True)
class Series:
    """Finite points in order of x."""

    label: str
    points: tuple[Point, ...]
    colour: int = 0
    """The same for all that is of one run."""
    manner: Manner = "curve"


@dataclass(frozen=True)
class Lines:
    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Estimate:
    """A row: a figure with its interval where there is one, and what stands beside it."""

    label: str
    value: float
    words: str
    low: float | None = None
    high: float | None = None
    colour: int = 0
    chosen: bool = False
    beside: float | None = None
    beside_words: str = ""


@dataclass(frozen=True)
class Intervals:
    title: str
    description: str
    label: str
    """Of what the rows are."""
    words: Callable[[float], str]
    """Of a tick."""
    rows: tuple[Estimate, ...]
    from_zero: bool = True
    """Bars from zero; otherwise points on an axis that shows their differences."""
    beside_label: str = ""


@dataclass(frozen=True)
class Bar:
    label: str
    values: tuple[float, ...]
    """One for each group."""
    words: tuple[str, ...]
    colour: int = 0
    """Where there is one group."""


@dataclass(frozen=True)
class Bars:
    title: str
    description: str
    rows: tuple[Bar, ...]
    groups: tuple[str, ...] = ()
    """Empty where there is one."""


@dataclass(frozen=True)
class Stack:
    label: str
    sizes: tuple[float, ...]
    """One for each part."""
    words: str
    chosen: bool = False


@dataclass(frozen=True)
class Stacks:
    title: str
    description: str
    label: str
    """Of what the rows are."""
    parts: tuple[str, ...]
    rows: tuple[Stack, ...]
    limit: float | None = None
    limit_words: str = ""


@dataclass(frozen=True)
class Total:
    label: str
    value: float
    words: str


@dataclass(frozen=True)
class WaterfallChange:
    label: str
    change: float
    words: str
    low: float | None = None
    high: float | None = None
    """Bounds of the change itself."""


@dataclass(frozen=True)
class Waterfall:
    """From a total before, over parts that add up to the difference, to the total after."""

    title: str
    description: str
    axis: Axis
    before: Total
    parts: tuple[WaterfallChange, ...]
    after: Total
    more_is_better: bool = True

    def __post_init__(self) -> None:
        reached = self.before.value + sum(part.change for part in self.parts)
        scale = max(abs(self.before.value), abs(self.after.value))
        assert math.isclose(reached, self.after.value, abs_tol=1e-6 * scale), (
            "what is left over is a part too"
        )


@dataclass(frozen=True)
class BandFigure:
    """What was measured, and how it may go on: a median between two bounds, at the same places."""

    title: str
    description: str
    x: Axis
    y: Axis
    measured: Series
    median: Series
    low: tuple[float, ...]
    high: tuple[float, ...]
    band_label: str
    beside: tuple[Series, ...] = ()
    target: float | None = None
    target_label: str = ""

    def __post_init__(self) -> None:
        assert len(self.low) == len(self.high) == len(self.median.points), "a bound for each place"


Figure = Lines | Intervals | Bars | Stacks | Waterfall | BandFigure


def finite(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those that can be drawn, in order of x."""
    return tuple(sorted(point for point in points if all(math.isfinite(value) for value in point)))
