import math
import random

import pytest

from nanodyno.analysis.statistics import Interval, median_interval


def test_six_samples_are_enclosed_by_their_extremes():
    # 1 - 2 / 64 = 96.9%; the next pair inwards covers 1 - 14 / 64 = 78%.
    assert median_interval([6.0, 1.0, 5.0, 2.0, 4.0, 3.0]) == Interval(3.5, 1.0, 6.0, 0.95, 6)


def test_five_samples_have_a_median_and_no_interval():
    assert median_interval([5.0, 1.0, 4.0, 2.0, 3.0]) == Interval(3.0, None, None, 0.95, 5)


@pytest.mark.parametrize("samples", [[7.0], [7.0, 9.0]])
def test_one_or_two_samples_have_no_interval(samples):
    interval = median_interval(samples)
    assert interval is not None
    assert (interval.low, interval.high, interval.n) == (None, None, len(samples))


def test_no_samples_have_no_median():
    assert median_interval([]) is None


# With n = 10, P(2 <= B <= 8) = 97.9% and P(3 <= B <= 7) = 89.1%.
@pytest.mark.parametrize(("n", "rank"), [(8, 1), (9, 2), (10, 2), (20, 6), (25, 8), (50, 18), (100, 40)])
def test_ranks_at_95_percent_are_those_of_the_sign_test(n, rank):
    interval = median_interval([float(i) for i in range(1, n + 1)])
    assert interval is not None
    assert (interval.low, interval.high) == (rank, n + 1 - rank)


@pytest.mark.parametrize("n", [2, 3, 11, 60, 333])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_the_interval_is_the_narrowest_that_reaches_its_level(n, level):
    def coverage(rank: int) -> float:
        return sum(math.comb(n, below) for below in range(rank, n - rank + 1)) / 2**n

    ranks = [rank for rank in range(1, n // 2 + 1) if coverage(rank) >= level]
    interval = median_interval([float(i) for i in range(1, n + 1)], level)
    assert interval is not None
    assert interval.low == (max(ranks) if ranks else None)


def test_the_interval_of_a_skewed_sample_covers_the_median_as_often_as_it_says():
    dice = random.Random(7)
    covered = 0
    for _ in range(2000):
        interval = median_interval([dice.expovariate(1.0) for _ in range(30)])
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        covered += interval.low <= math.log(2) <= interval.high
    assert 0.94 < covered / 2000 < 0.98  # exactly 95.7% with ranks 10 and 21


def test_a_long_run_is_quick_and_narrow():
    interval = median_interval([float(i) for i in range(100_001)])
    assert interval is not None
    assert interval.value == 50_000
    # The normal approximation puts the ends 1.96 x sqrt(n) / 2 = 310 away.
    assert interval.low == pytest.approx(50_000 - 310, abs=2)
    assert interval.high == pytest.approx(50_000 + 310, abs=2)
