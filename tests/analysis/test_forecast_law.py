"""The shape of a curve under a schedule, against sums worked out by hand."""

import numpy as np
import pytest
from tests.analysis.losses import cosine

from nanodyno.analysis.forecast_law import Schedule, Shape, annealed, elapsed

SHAPE = Shape(pace=0.05, reach=0.5, fading=0.14, bend=0.75)
FLAT = Schedule(np.full(1000, 3e-4))


def places(*updates: float) -> np.ndarray:
    return np.array(updates, dtype=np.float64)


def test_updates_count_by_their_share_of_the_peak() -> None:
    """Rates 1, 2, 4, 4 of a peak of 4: after n updates s is 0.25, 0.75, 1.75, 2.75; never below 1."""
    schedule = Schedule(np.array([1.0, 2.0, 4.0, 4.0]))
    assert schedule.clock.tolist() == [0, 0.25, 0.75, 1.75, 2.75]
    assert elapsed(schedule, places(1, 3, 4)).tolist() == [1.0, 1.75, 2.75]
    assert schedule.peak_at == 3


def test_a_rate_that_is_held_anneals_nothing_and_neither_does_a_warm_up() -> None:
    assert annealed(FLAT, places(1, 500, 1000), SHAPE).tolist() == [0, 0, 0]
    climbing = Schedule(np.minimum(np.arange(1, 1001) / 100, 1.0))
    assert annealed(climbing, places(50, 1000), SHAPE).tolist() == [0, 0]


def test_one_fall_is_worth_the_powers_of_its_rates_over_the_updates_that_follow() -> None:
    """From 1 to 0.5 at update 601: s is 600.5 there and 200 more after 400 updates at the half rate."""
    schedule = Schedule(np.where(np.arange(1000) < 600, 1.0, 0.5))
    shape = Shape(pace=0.02, reach=0.8, fading=0.13, bend=0.75)
    before, after = annealed(schedule, places(600, 1000), shape)
    assert before == 0
    since = (600 + 400 * 0.5) - (600 + 600.5) / 2
    worth = (600.5 / 10_000) ** -0.13
    expected = (1 - 0.5**0.75) * (1 - (1 + 0.02 * since) ** -0.8) * worth
    assert after == pytest.approx(expected, rel=1e-9)


def test_segments_come_to_the_sum_over_every_single_update() -> None:
    """The published sum runs over all updates; 150 pieces of a cosine are within a hundredth of it."""
    schedule = cosine(4000)
    shares, clock = schedule.shares, schedule.clock
    for at in (1000, 2500, 4000):
        k = np.arange(schedule.peak_at + 1, at + 1)
        fallen = shares[k - 1] ** SHAPE.bend - shares[k] ** SHAPE.bend
        since = clock[at] - (clock[k - 1] + clock[k]) / 2
        effect = 1 - (1 + SHAPE.pace * since) ** -SHAPE.reach
        worth = (np.maximum(clock[k], 100) / 10_000) ** -SHAPE.fading
        assert annealed(schedule, places(at), SHAPE)[0] == pytest.approx(
            (fallen * effect * worth).sum(), rel=1e-2
        )


def test_a_higher_rate_that_is_still_to_come_is_no_warm_up() -> None:
    """Taken up again at twice the rate from update 600 on: the climb ended at update 100."""
    rates = np.minimum(np.arange(1, 1001) / 100, 1.0)
    assert Schedule(np.where(np.arange(1000) < 600, rates, 2.0)).peak_at == 100


def test_a_rise_takes_back_what_a_fall_has_brought() -> None:
    rates = np.concatenate([np.full(500, 1.0), np.full(500, 0.1), np.full(2000, 1.0)])
    low, again = annealed(Schedule(rates), places(1000, 3000), SHAPE)
    assert low > 0.5
    assert again < 0.15 * low
