"""Student's t: the interval of a mean of a few independent values. scipy is loaded when first used."""

import importlib
import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, cast

from nanodyno.analysis.statistics import Interval


class _Special(Protocol):
    """What is used of scipy.special, which has no type stubs of its own."""

    def stdtrit(self, df: float, p: float) -> float: ...
    def nctdtr(self, df: float, nc: float, t: float) -> float: ...


def _special() -> _Special:
    return cast(_Special, importlib.import_module("scipy.special"))


@lru_cache(maxsize=1024)
def t_quantile(degrees: int, level: float) -> float:
    """The t that encloses `level` of Student's distribution between -t and t: 12.71 at 1 degree and 95%."""
    return float(_special().stdtrit(degrees, (1 + level) / 2))


def t_power(degrees: int, shift: float, level: float) -> float:
    """The chance that |T| exceeds `t_quantile` when T has the mean `shift` in units of its standard error."""
    limit, below = t_quantile(degrees, level), _special().nctdtr
    return float(1 - below(degrees, shift, limit) + below(degrees, shift, -limit))


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample; statistics.stdev computes with fractions and takes far longer."""
    mean = statistics.fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """The mean with Student's interval; None without values, no bounds with a single one."""
    if not values:
        return None
    count, mean = len(values), statistics.fmean(values)
    if count < 2:
        return Interval(mean, None, None, level, count)
    half = t_quantile(count - 1, level) * deviation(values) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, level, count)


def exponential(interval: Interval) -> Interval:
    """An interval of logarithms as one of the values themselves."""
    low, high = interval.low, interval.high
    return Interval(
        math.exp(interval.value),
        None if low is None else math.exp(low),
        None if high is None else math.exp(high),
        interval.level,
        interval.n,
    )
