from collections import deque

import pytest

from nanodyno.analysis.throughput import (
    Yardstick,
    mfu,
    micro_step_seconds,
    pace_seconds,
    rates,
    steady_steps,
    step_seconds,
    tokens_per_second,
)


def iterations(steps):
    return [step.iteration for step in steps]


def test_the_first_three_steps_of_a_run_are_not_steady(step):
    assert iterations(steady_steps([step(i) for i in range(11)])) == list(range(3, 11))


def test_a_run_too_short_for_that_loses_its_first_step_only(step):
    assert iterations(steady_steps([step(i) for i in range(10)])) == list(range(1, 10))


def test_every_resumed_stretch_warms_up_again(step):
    steady = steady_steps([step(i) for i in range(20)], resumed_at_iterations=(10,))
    assert iterations(steady) == [3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 19]


def test_a_run_resumed_twice_at_one_iteration_warms_up_there_once(step):
    steady = steady_steps([step(i) for i in range(20)], resumed_at_iterations=(10, 10))
    assert iterations(steady)[7] == 13


def test_stretches_are_counted_in_records_where_only_every_tenth_iteration_was_logged(step):
    steady = steady_steps([step(i) for i in range(0, 200, 10)], resumed_at_iterations=(95,))
    assert iterations(steady) == [30, 40, 50, 60, 70, 80, 90, 130, 140, 150, 160, 170, 180, 190]


def test_smaller_micro_batches_warm_up_again(step):
    steady = steady_steps([step(i, micro_steps=64 if i < 10 else 128) for i in range(20)])
    assert iterations(steady) == [3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 19]


def test_the_pace_is_that_of_the_last_stretch(step):
    steps = [step(i, step_seconds=4.0 if i < 10 else 2.0) for i in range(20)]
    assert pace_seconds(steps, resumed_at_iterations=(10,)) == 2.0


def test_while_the_last_stretch_warms_up_the_pace_is_that_of_the_whole_run(step):
    steps = [step(i, step_seconds=4.0 if i < 20 else 90.0) for i in range(23)]
    assert pace_seconds(steps, resumed_at_iterations=(20,)) == 4.0


def test_the_pace_forgets_what_was_more_than_100_steps_ago(step):
    assert pace_seconds([step(i, step_seconds=9.0 if i < 150 else 3.0) for i in range(250)]) == 3.0


def test_a_micro_step_is_a_share_of_its_own_step(step):
    steady = [step(i, step_seconds=6.4, micro_steps=64) for i in range(5)]
    assert micro_step_seconds(steady, 32) == pytest.approx(0.1)
    assert micro_step_seconds([step(0, step_seconds=6.4)], 32) == pytest.approx(0.2)
    assert micro_step_seconds([], 32) is None


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_that_ended_inside_its_warm_up_has_no_rate(step, count):
    steps = [step(i) for i in range(count)]
    assert steady_steps(steps) == []
    assert tokens_per_second(steps) is None
    assert step_seconds(steps) is None
    assert pace_seconds(steps) is None


def test_throughput_ignores_the_compile_step_and_the_warm_up(step):
    slow = [step(0, step_seconds=90.0), step(1, step_seconds=9.0), step(2, step_seconds=8.0)]
    speed = tokens_per_second([*slow, *(step(i, step_seconds=4.0) for i in range(3, 13))])
    assert speed is not None
    assert (speed.estimate, speed.low, speed.high, speed.n) == (131_072, 131_072, 131_072, 10)


def test_one_slow_step_moves_the_median_little_and_stays_out_of_its_interval(step):
    # Steady are 3 to 12: nine steps of 1.03 to 1.12 s without 1.05, and one of 60 s.
    steps = [step(i, step_seconds=60.0 if i == 5 else 1.0 + i / 100) for i in range(13)]
    seconds = step_seconds(steps)
    assert seconds is not None
    assert seconds.estimate == pytest.approx((1.08 + 1.09) / 2)
    assert (seconds.low, seconds.high) == pytest.approx((1.04, 1.12))


def test_mfu_is_work_per_second_over_the_peak():
    assert mfu(tokens_per_second=1000.0, flops_per_token=2e9, peak_flops=8e12) == 0.25


def test_the_cases_narrow_run_is_12_9_percent_by_nanogpts_figure(record, narrow_settings):
    yardstick = Yardstick.of(record(narrow_settings))
    assert yardstick.nanogpt_mfu(524_288 / 3.9) == pytest.approx(0.129, abs=0.0005)


def test_the_cases_wide_run_is_15_4_percent_by_nanogpts_figure(record, wide_settings):
    yardstick = Yardstick.of(record(wide_settings))
    assert yardstick.nanogpt_mfu(524_288 / 9.34) == pytest.approx(0.154, abs=0.0005)


@pytest.mark.parametrize(
    ("card", "exact_share"),
    [
        # 524,288 / 9.34 s x 797,870,592 FLOP = 44.787 TFLOP/s over each peak
        (("NVIDIA GeForce RTX 4070", 11.99), 44.787 / 58.3),
        (("NVIDIA GeForce RTX 3080 Ti", 11.77), 44.787 / 68.2),
        (("NVIDIA GeForce RTX 4070 SUPER", 11.99), 44.787 / 71.0),
        (("NVIDIA GeForce RTX 3060", 11.77), 44.787 / 25.5),
    ],
)
def test_the_cases_wide_run_on_cards_of_12_gb(record, card, exact_share):
    share = Yardstick.of(record(card=card)).card_share(524_288 / 9.34)
    assert share == pytest.approx(exact_share, rel=1e-4)


def test_on_an_rtx_4070_the_case_went_from_63_to_77_percent_exactly_counted(
    record, narrow_settings, wide_settings
):
    before = Yardstick.of(record(narrow_settings)).card_share(524_288 / 3.9)
    after = Yardstick.of(record(wide_settings)).card_share(524_288 / 9.34)
    assert (before, after) == pytest.approx((0.626, 0.768), abs=0.0005)


def test_useful_work_has_the_tokenizers_vocabulary_and_nanogpts_count_the_padded_one(record):
    yardstick = Yardstick.of(record())
    assert yardstick.flops_per_token == 797_870_592
    assert yardstick.nanogpt_flops_per_token == 854_770_176


@pytest.mark.parametrize(
    ("card", "dtype"),
    [
        (None, "float32"),
        (("NVIDIA GeForce RTX 4070 Laptop GPU", 8), "bfloat16"),
        (("NVIDIA GeForce RTX 3060", 5.8), "bfloat16"),
        (("Tesla T4", 14.6), "bfloat16"),
    ],
)
def test_a_cpu_an_unknown_card_or_a_missing_dtype_has_no_named_peak(record, card, dtype):
    yardstick = Yardstick.of(record(card=card, dtype=dtype))
    assert (yardstick.card_name, yardstick.peak_flops) == (None, None)
    assert yardstick.card_share(1e5) is None


def test_a_float32_run_is_held_against_the_float32_peak(record):
    assert Yardstick.of(record(dtype="float32")).peak_flops == pytest.approx(29.1e12)


def test_the_measured_ceiling_is_that_of_the_runs_own_dtype_and_of_all_its_cards(record, ceilings):
    # 524,288 tokens in 1 s x 797.87 MFLOP = 418.3 TFLOP/s, of twice 791.2.
    yardstick = Yardstick.of(record(card=("NVIDIA H200", 139.8), processes=2), ceilings())
    assert yardstick.ceiling_flops == pytest.approx(2 * 791.2e12)
    assert yardstick.ceiling_share(524_288) == pytest.approx(418.3 / 1582.4, rel=1e-4)
    assert Yardstick.of(record(dtype="float32"), ceilings()).ceiling_share(524_288) is None
    assert Yardstick.of(record()).ceiling_share(524_288) is None


def test_live_rates_are_medians_over_the_window(record, step):
    window = deque([step(0, step_seconds=60.0), step(1, step_seconds=9.30)], maxlen=3)
    window.extend([step(2, step_seconds=9.34), step(3, step_seconds=9.38)])
    live = rates(window, Yardstick.of(record()))
    assert live is not None
    assert live.step_seconds == 9.34
    assert live.micro_step_seconds == pytest.approx(0.1459, abs=0.0001)  # 64 micro-steps
    assert live.tokens_per_second == pytest.approx(56_134, abs=1)
    assert live.flops_per_second == pytest.approx(44.787e12, rel=1e-4)
    assert live.card_share == pytest.approx(0.768, abs=0.0005)
    assert live.card_name == "RTX 4070"
    assert live.nanogpt_mfu == pytest.approx(0.154, abs=0.0005)


def test_before_the_first_step_there_are_no_live_rates(record):
    assert rates(deque(), Yardstick.of(record())) is None


def test_live_rates_take_a_steps_own_micro_steps(record, step):
    live = rates([step(0, step_seconds=6.4, micro_steps=128)], Yardstick.of(record()))
    assert live is not None
    assert live.micro_step_seconds == pytest.approx(0.05)


def test_two_processes_have_two_cards_and_half_the_micro_steps_each(record):
    yardstick = Yardstick.of(record(card=("NVIDIA H200", 139.8), processes=2))
    assert (yardstick.processes, yardstick.micro_steps, yardstick.card_name) == (2, 32, "H200")
    assert yardstick.peak_flops == pytest.approx(2 * 989e12, rel=1e-3)
