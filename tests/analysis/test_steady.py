import math

import pytest

from nanodyno.analysis.steady import is_enough, steady_start, summarise


def even(count: int, level: float = 1.0) -> list[float]:
    """A steady machine: half a percent up, half a percent down."""
    return [level * (1.005 if index % 2 else 0.995) for index in range(count)]


def test_slow_first_iterations_are_warm_up():
    start = steady_start([9.0, 3.0, 1.5, *even(37)])
    assert start is not None
    assert 3 <= start <= 6


def test_a_ramp_is_dropped_until_it_no_longer_matters():
    ramp = [value * (1 + 0.2 * math.exp(-index / 3)) for index, value in enumerate(even(60))]
    start = steady_start(ramp)
    assert start is not None
    assert 0.2 * math.exp(-start / 3) < 0.005


def test_a_gpu_that_starts_too_fast_warms_up_too():
    start = steady_start([0.8, 0.85, 0.9, 0.95, *even(36)])
    assert start is not None
    assert 4 <= start <= 8


def test_what_is_steady_from_the_outset_loses_nothing():
    assert steady_start(even(40)) == 0
    assert steady_start([1.0] * 40) == 0


FALLING = [2.0 - 0.02 * index for index in range(40)]


def test_what_is_still_falling_is_not_steady():
    assert steady_start(FALLING) is None


def test_a_late_spike_is_not_a_change_of_level():
    assert steady_start([*even(30), 5.0, *even(9)]) == 0


def test_seven_iterations_are_too_few_to_tell():
    assert steady_start(even(7)) is None
    assert steady_start(even(8)) == 0


def test_a_spike_is_left_out_and_what_it_took_is_reported():
    summary = summarise([*[1.0] * 20, 5.0, *[1.0] * 19])
    assert summary is not None
    assert (summary.seconds, summary.counted, summary.warmup, summary.spikes) == (1.0, 39, 0, 1)
    assert summary.spike_share == pytest.approx(4 / 44)  # 44 seconds, of which 40 are ordinary
    assert summary.disturbed is None


def test_on_an_even_machine_a_spike_is_still_one_percent_above_the_rest():
    summary = summarise([*[1.0] * 20, 1.009, *[1.0] * 18, 1.011])
    assert summary is not None
    assert summary.spikes == 1


def test_iterations_that_alternate_between_two_levels_all_count():
    summary = summarise([1.0, 1.1] * 20)
    assert summary is not None
    assert (summary.spikes, summary.disturbed) == (0, None)
    assert summary.seconds == pytest.approx(1.05)


def test_spikes_that_hide_behind_larger_ones_are_found_too():
    # Of 40 the shortest stretch of 24 reaches from 1 to 1.4; only without the eights it is the ones alone.
    slow = {1: 1.4, 4: 8.0, 6: 1.4, 7: 8.0, 11: 1.4, 13: 1.4, 18: 8.0, 19: 1.4, 20: 8.0, 23: 1.4, 26: 8.0}
    slow |= {27: 1.4, 30: 8.0, 34: 8.0, 35: 1.4, 37: 8.0}
    summary = summarise([slow.get(place, 1.0) for place in range(40)])
    assert summary is not None
    assert (summary.spikes, summary.seconds) == (16, 1.0)


def test_slow_iterations_that_recur_are_the_configs_own():
    """As of an optimizer that renews a preconditioner in every tenth; a spike beside them is still one."""
    seconds = [5.0 if place % 10 == 3 else 1.0 for place in range(60)]
    seconds[38] = 3.0
    summary = summarise(seconds)
    assert summary is not None
    assert (summary.spikes, summary.disturbed) == (1, None)
    assert summary.seconds == pytest.approx(1.4, rel=0.01)  # not a whole number of periods


def test_a_neighbour_in_a_third_of_the_time_is_left_out_and_reported():
    summary = summarise([*even(14), *even(13, 1.3), *even(13)])
    assert summary is not None
    assert summary.disturbed == "bursts"
    assert summary.seconds == pytest.approx(1.0, abs=0.001)


def test_a_neighbour_in_most_of_the_time_is_reported():
    summary = summarise([*even(14, 1.3), *even(12), *even(14, 1.3)])
    assert summary is not None
    assert summary.disturbed == "bursts"


def test_of_a_gpu_that_swings_around_its_power_limit_every_iteration_counts():
    """A hump of two in eight: by itself it is bursts, and the humps would be left out."""
    swinging = [*even(6), *even(2, 1.1)] * 4
    alone, regulated = summarise(swinging), summarise(swinging, regulated=True)
    assert alone is not None
    assert regulated is not None
    assert alone.seconds == pytest.approx(1.0, abs=0.002)
    assert regulated.seconds == pytest.approx(1.025, abs=0.002)
    assert (regulated.counted, regulated.spikes, regulated.disturbed) == (32, 0, None)


def test_a_process_that_never_settled_gives_its_last_half_and_says_so():
    summary = summarise(FALLING)
    assert summary is not None
    assert summary.disturbed == "unsteady"
    assert summary.warmup == 20
    assert summary.seconds == pytest.approx(2.0 - 0.02 * 29.5)


def test_the_own_precision_is_students_over_four_batches():
    # Batch means 1, 1.02, 1, 1.02: deviation 0.011547, t of 3 degrees 3.182, over sqrt(4) and the mean 1.01.
    summary = summarise(([1.0] * 4 + [1.02] * 4) * 2)
    assert summary is not None
    assert summary.precision == pytest.approx(3.182 * 0.011547 / 2 / 1.01, rel=1e-3)


def test_a_single_iteration_has_a_time_and_no_precision():
    summary = summarise([3.0])
    assert summary is not None
    assert (summary.seconds, summary.counted, summary.precision) == (3.0, 1, None)
    assert summarise([]) is None


def test_a_process_stops_when_it_is_steady_and_sure_and_never_before_the_32nd_iteration():
    assert is_enough(even(32), 0.01)
    assert not is_enough(even(31), 0.01)
    assert not is_enough(FALLING, 1.0)
    wandering = [1 + 0.05 * math.sin(index / 4) for index in range(40)]
    assert not is_enough(wandering, 0.01)
    assert is_enough(wandering, 0.2)
