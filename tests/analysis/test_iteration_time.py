"""Seconds per iteration: which iterations count, and intervals that cover, on series of known truth."""

import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest

from nanodyno.analysis.account import Account, AccountEval, AccountStep, resolution
from nanodyno.analysis.iteration_time import disturbances, mean_seconds, recurring, slow_iterations

DRAWS = 60
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, float]]
"""Times of so many iterations, and their mean in the long run."""


def noise(dice: np.random.Generator, count: int) -> np.ndarray:
    return dice.normal(0, 0.01, count)


def correlated(dice: np.random.Generator, count: int) -> np.ndarray:
    """First-order autoregressive, with a coefficient of 0.7 and a deviation of 0.02."""
    found, last = np.empty(count), 0.02 * dice.normal()
    for place in range(count):
        last = found[place] = 0.7 * last + 0.02 * math.sqrt(1 - 0.49) * dice.normal()
    return found


def periodic(period: int, factor: float, of: Callable[..., np.ndarray] = noise) -> Draw:
    def draw(dice: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
        seconds = np.ones(count)
        seconds[int(dice.integers(period)) :: period] = factor
        return seconds + of(dice, count), 1 + (factor - 1) / period

    return draw


def disturbed(draw: Draw, share: float) -> Draw:
    """Stopped by at least 10 seconds in a random share of the iterations, one at least."""

    def drawn(dice: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
        seconds, truth = draw(dice, count)
        stopped = max(1, int(share * count))
        seconds[dice.choice(count, stopped, replace=False)] += 10 + dice.exponential(20, stopped)
        return seconds, truth

    return drawn


def in_a_burst(dice: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
    seconds, place = 1 + noise(dice, count), int(dice.integers(count - 20))
    seconds[place : place + count // 50] *= 3
    return seconds, 1.0


def rounded_clock(dice: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
    clock = np.round(np.cumsum(1.4003 + 0.002 * noise(dice, count + 1)), 3)
    return np.diff(clock), 1.4003


def drifting(dice: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
    return np.linspace(1, 1.1, count) + noise(dice, count), 1.05


even = periodic(2, 1.0)
SERIES: dict[str, Draw] = {
    "even": even,
    "every 10th": periodic(10, 5.0),
    "every 10th, correlated": periodic(10, 5.0, correlated),
    "alternating": periodic(2, 1.5),
    "every 4th": periodic(4, 2.0),
    "correlated": periodic(2, 1.0, correlated),
    "disturbed": disturbed(even, 0.02),
    "every 10th, disturbed": disturbed(periodic(10, 5.0), 0.01),
    "in a burst": in_a_burst,
    "rounded clock": rounded_clock,
    "drifting": drifting,
}


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize("name", SERIES)
def test_the_mean_is_within_1_percent_and_its_interval_covers_the_truth(name: str, count: int) -> None:
    dice, errors, covered = np.random.default_rng(7), [], 0
    for _ in range(DRAWS):
        seconds, truth = SERIES[name](dice, count)
        found = mean_seconds(range(count), seconds.tolist())
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        errors.append(found.value / truth - 1)
        covered += found.low <= truth <= found.high
    assert abs(statistics.fmean(errors)) < 0.002
    assert statistics.quantiles(map(abs, errors), n=20)[-1] < 0.01
    assert covered >= 0.9 * DRAWS


def test_a_period_of_190_is_found_and_two_that_are_offset() -> None:
    """As logs of modded-nanogpt have them, where files of data are opened."""
    slow = [place % 190 == 0 or place % 189 == 0 for place in range(1, 2000)]
    assert recurring(range(1, 2000), slow) == slow
    assert not any(disturbances(range(1, 2000), [2.0 if each else 1.0 for each in slow]))


def test_slow_iterations_at_random_do_not_recur() -> None:
    dice = np.random.default_rng(3)
    for count, share in ((200, 0.04), (1000, 0.02), (5000, 0.01)):
        slow = dice.random(count) < share
        assert sum(recurring(range(count), slow.tolist())) <= 0.1 * slow.sum()


def test_a_period_is_by_iterations_and_not_by_lines_of_a_log() -> None:
    kept = [place for place in range(1000) if place % 7 not in (2, 3)]
    slow = [place % 10 == 4 for place in kept]
    assert recurring(kept, slow) == slow


def test_an_iteration_that_is_slow_by_design_can_be_disturbed_too() -> None:
    seconds = [5.0 if place % 10 == 0 else 1.0 for place in range(200)]
    seconds[70], seconds[115] = 60.0, 60.0
    assert [place for place, out in enumerate(disturbances(range(200), seconds)) if out] == [70, 115]
    found = mean_seconds(range(200), seconds)
    assert found is not None
    assert (found.value, found.n) == (pytest.approx(1.4), 198)


def test_where_more_than_a_twentieth_is_slow_that_is_the_machines_speed() -> None:
    dice = np.random.default_rng(5)
    for share, counts in ((0.03, False), (0.08, True)):
        seconds = np.ones(1000)
        seconds[dice.choice(1000, int(1000 * share), replace=False)] = 3.0
        found = mean_seconds(range(1000), seconds.tolist())
        assert found is not None
        assert found.value == pytest.approx(1 + 2 * share if counts else 1.0, rel=0.01)


def test_a_run_that_changes_its_pace_is_not_disturbed() -> None:
    assert not any(disturbances(range(300), [1.0] * 150 + [2.0] * 150))


def test_single_long_ones_are_found_at_any_pace() -> None:
    dice = np.random.default_rng(1)
    seconds = (9.34 + 0.01 * dice.normal(size=500)).tolist()
    for place, extra in ((7, 17.9), (250, 1.0), (499, 0.8)):
        seconds[place] += extra
    assert [place for place, out in enumerate(disturbances(range(500), seconds)) if out] == [7, 250, 499]


def test_times_that_scatter_are_not_slow() -> None:
    dice = np.random.default_rng(2)
    assert not any(slow_iterations(dice.uniform(0.8, 1.4, 1000).tolist()))


def test_too_few_times_are_never_slow_and_have_no_interval() -> None:
    assert disturbances(range(4), [1.0, 1.0, 1.0, 50.0]) == [False] * 4
    assert disturbances([], []) == []
    assert mean_seconds([], []) is None
    for count in range(1, 6):
        found = mean_seconds(range(count), [1.0] * count)
        assert found is not None
        assert (found.low, found.high, found.n) == (None, None, count)


def test_the_interval_is_students_over_blocks_worked_out_by_hand() -> None:
    # Means of 4 blocks: 1, 1.02, 1, 1.02, with t = 3.182; those of 8 and 16 blocks are surer.
    found = mean_seconds(range(16), ([1.0] * 4 + [1.02] * 4) * 2)
    assert found is not None
    assert found.high is not None
    assert found.high - found.value == pytest.approx(3.182 * 0.011547 / 2, rel=1e-3)


def test_rounding_is_never_certainty() -> None:
    assert [resolution(each) for each in ([0.14, 0.142], [0.14], [2.0, 1.0], [math.pi])] == [1e-3, 1e-2, 1, 0]
    logged = Account("log", {}, tuple(AccountStep(each, seconds=0.14) for each in range(50)), foreign=True)
    seconds = logged.speed.iteration_seconds
    assert seconds is not None
    assert (seconds.low, seconds.high) == pytest.approx((0.14**2 / 0.145, 0.145))


def clocked(seconds: float, by_clock: float, evals: tuple[AccountEval, ...] = ()) -> Account:
    """Every 10th iteration is logged, and the clock stops for 90 s at each evaluation."""
    steps = tuple(
        AccountStep(
            place,
            seconds=seconds + 0.001 * (place // 10 % 3),
            clock=1e9 + place * by_clock + 90 * (place // 50),
        )
        for place in range(0, 500, 10)
    )
    return Account("log", {}, steps, evals, foreign=True)


def test_elapsed_time_that_the_logged_iterations_do_not_explain_leaves_no_interval() -> None:
    """Logged are iterations of 1 s, but between them others take longer: by the clock 1.4 s on average."""
    evals = tuple(AccountEval(place, 3.0) for place in range(50, 500, 50))
    hidden, whole = clocked(1.0, 1.4, evals), clocked(1.0, 1.0, evals)
    assert hidden.elapsed_excess == pytest.approx(0.4, abs=0.002)
    assert hidden.speed.iteration_seconds is not None
    assert hidden.speed.iteration_seconds.high is None
    assert whole.elapsed_excess is None
    assert whole.speed.iteration_seconds is not None
    assert whole.speed.iteration_seconds.high is not None
    assert clocked(1.0, 1.0).elapsed_excess == pytest.approx(9 * 90 / 490, abs=0.01)  # without evaluations


def test_a_clock_of_whole_seconds_may_be_off_by_one_in_each_part() -> None:
    steps = tuple(AccountStep(place, seconds=0.1, clock=float(place // 10)) for place in range(0, 25))
    assert Account("log", {}, steps, foreign=True).elapsed_excess is None
