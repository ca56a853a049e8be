import math

import pytest

from nanodyno.analysis.repeats import (
    RepetitionTime,
    config_interval,
    log_ratio_sd,
    odd_repetition,
    ratio_interval,
)


def rounds_of(*seconds: tuple[float, float], per_process: int = 1) -> list[RepetitionTime]:
    """Seconds of A and B round by round; a new process after so many rounds."""
    return [
        RepetitionTime(config, number // per_process, number, value)
        for number, pair in enumerate(seconds)
        for config, value in zip("AB", pair, strict=True)
    ]


def test_a_configs_seconds_are_the_geometric_mean_over_processes():
    repetitions = [RepetitionTime("A", number, number, math.exp(0.1 * number)) for number in range(3)]
    interval = config_interval(repetitions, "A")
    assert interval is not None
    assert interval.n == 3
    assert interval.value == pytest.approx(math.exp(0.1))
    # Logarithms 0, 0.1, 0.2: deviation 0.1, t of 2 degrees 4.303.
    assert interval.high == pytest.approx(math.exp(0.1 + 4.303 * 0.1 / math.sqrt(3)), rel=1e-4)


def test_a_config_never_measured_has_no_interval_and_one_process_no_bounds():
    repetitions = [RepetitionTime("A", 0, 0, 2.0), RepetitionTime("A", 0, 1, 8.0)]
    assert config_interval(repetitions, "B") is None
    interval = config_interval(repetitions, "A")
    assert interval is not None
    assert (interval.value, interval.low, interval.n) == (pytest.approx(4.0), None, 1)


def test_a_machine_that_slows_down_for_both_does_not_touch_their_ratio():
    ratio = ratio_interval(rounds_of((1.1, 1.0), (2.2, 2.0), (4.4, 4.0), (8.8, 8.0)), "A", "B")
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == (pytest.approx(1.1),) * 3


def test_rounds_of_the_same_processes_count_once():
    pairs = [(math.exp(log), 1.0) for log in (0.0, 0.2, 0.3, 0.5)]
    ratio = ratio_interval(rounds_of(*pairs, per_process=2), "A", "B")
    assert ratio is not None
    assert ratio.n == 2
    # Processes 0.1 and 0.4: mean 0.25, deviation 0.2121, t of 1 degree 12.706.
    assert ratio.value == pytest.approx(math.exp(0.25))
    assert ratio.high == pytest.approx(math.exp(0.25 + 12.706 * 0.2121 / math.sqrt(2)), rel=1e-3)


def test_rounds_that_share_a_process_of_either_side_are_one_value():
    processes = [(0, 0), (1, 0), (1, 1), (2, 2)]
    repetitions = [
        RepetitionTime(config, process, number, 1.0)
        for number, pair in enumerate(processes)
        for config, process in zip("AB", pair, strict=True)
    ]
    ratio = ratio_interval(repetitions, "A", "B")
    assert ratio is not None
    assert ratio.n == 2


def test_a_round_that_lacks_one_of_the_two_is_left_out():
    repetitions = [
        repetition
        for repetition in rounds_of((2.0, 1.0), (9.0, 1.0), (2.0, 1.0))
        if repetition != RepetitionTime("B", 1, 1, 1.0)
    ]
    ratio = ratio_interval(repetitions, "A", "B")
    assert ratio is not None
    assert (ratio.value, ratio.n) == (pytest.approx(2.0), 2)
    assert ratio_interval([RepetitionTime("A", 0, 0, 1.0), RepetitionTime("B", 0, 1, 1.0)], "A", "B") is None


def test_the_order_in_which_repetitions_are_listed_does_not_matter():
    repetitions = rounds_of((1.0, 2.0), (1.5, 2.0), (1.0, 3.0), (1.2, 2.0), per_process=2)
    assert ratio_interval(repetitions[::-1], "A", "B") == ratio_interval(repetitions, "A", "B")


def test_the_spread_of_the_ratio_is_between_processes():
    repetitions = rounds_of((math.exp(0.1), 1.0), (math.exp(0.3), 1.0))
    assert log_ratio_sd(repetitions, "A", "B") == pytest.approx(math.sqrt(0.02))
    assert log_ratio_sd(repetitions[:2], "A", "B") is None


QUIET = [(1.0, 2.0), (1.001, 2.002), (0.999, 1.998), (1.0, 2.004), (1.002, 2.0)]


def test_a_repetition_far_slower_than_its_configs_others_is_odd():
    repetitions = rounds_of(*QUIET, (1.0, 2.2))
    assert odd_repetition(repetitions) == RepetitionTime("B", 5, 5, 2.2)


def test_a_fast_repetition_and_one_within_three_percent_are_not_odd():
    assert odd_repetition(rounds_of(*QUIET, (1.0, 1.8))) is None
    assert odd_repetition(rounds_of(*QUIET, (1.0, 2.05))) is None


def test_the_oddest_goes_first():
    repetitions = rounds_of(*QUIET, (1.1, 2.0), (1.0, 3.0))
    assert odd_repetition(repetitions) == RepetitionTime("B", 6, 6, 3.0)


def test_with_five_repetitions_nothing_is_odd():
    assert odd_repetition(rounds_of(*QUIET[:4], (1.0, 9.0))) is None


def test_on_a_noisy_machine_a_slow_repetition_is_ordinary():
    noisy = [(1.0, 1.0), (1.2, 0.9), (0.9, 1.1), (1.1, 1.3), (0.8, 1.2), (1.5, 1.0)]
    assert odd_repetition(rounds_of(*noisy)) is None
