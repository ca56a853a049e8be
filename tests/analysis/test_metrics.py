# pyright: reportOptionalMemberAccess=false
from collections import deque

import pytest

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.metrics import (
    Reference,
    Speed,
    eta_seconds,
    evaluation_seconds,
    evaluations_between,
    latest_stretch,
    mfu,
    recent_speed,
    stretches,
)
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.summary import summarise
from nanodyno.config import build_config


def steady(steps, history=(), resumed=()):
    """Iterations that count, by stretch."""
    return [[step.iteration for step in each.steady] for each in stretches(steps, history, resumed)]


def at(seconds, record, tokens=524_288, ceilings=None):
    """The speed of a run of ours of which an iteration takes so long."""
    return Speed(Interval(seconds, None, None, 0.95, 1), tokens, 64, Reference.of_run(record, ceilings))


def test_the_first_three_steps_of_a_run_are_not_steady(step):
    assert steady([step(i) for i in range(11)]) == [[*range(3, 11)]]


def test_a_run_too_short_for_that_loses_its_first_step_only(step):
    assert steady([step(i) for i in range(10)]) == [[*range(1, 10)]]


def test_every_start_warms_up_again(step):
    assert steady([step(i) for i in range(20)], resumed=(10,)) == [[*range(3, 10), *range(13, 20)]]


def test_a_run_resumed_twice_at_one_iteration_warms_up_there_once(step):
    assert steady([step(i) for i in range(20)], resumed=(10, 10)) == [[*range(3, 10), *range(13, 20)]]


def test_starts_are_counted_in_records_where_only_every_tenth_iteration_was_logged(step):
    (found,) = steady([step(i) for i in range(0, 200, 10)], resumed=(95,))
    assert found == [30, 40, 50, 60, 70, 80, 90, 130, 140, 150, 160, 170, 180, 190]


def test_another_micro_batch_is_another_stretch(step):
    steps = [step(i, micro_steps=64 if i < 12 else 128) for i in range(24)]
    assert steady(steps) == [[*range(3, 12)], [*range(15, 24)]]


def test_another_batch_size_is_another_stretch(step):
    steps = [step(i, tokens=1024 if i < 12 else 2048) for i in range(24)]
    assert steady(steps) == [[*range(3, 12)], [*range(15, 24)]]


FUSED = {"kernels": "fused", "device": "H200"}


def test_a_resume_with_the_same_setup_stays_in_its_stretch(step, start, prepared):
    history = [start(), prepared(**FUSED), start(12), prepared(12, **FUSED)]
    assert steady([step(i) for i in range(24)], history) == [[*range(3, 12), *range(15, 24)]]


@pytest.mark.parametrize("after", [{"kernels": "autograd"}, {"device": "RTX 4070"}])
def test_a_resume_with_other_kernels_or_another_gpu_begins_a_stretch(step, start, prepared, after):
    history = [start(), prepared(**FUSED), start(12), prepared(12, **FUSED | after)]
    assert steady([step(i) for i in range(24)], history) == [[*range(3, 12)], [*range(15, 24)]]


def test_a_setup_that_was_not_recorded_is_taken_to_be_the_same(step, start, prepared):
    history = [start(), start(12), prepared(12, kernels="fused")]
    assert len(steady([step(i) for i in range(24)], history)) == 1


def test_what_only_one_of_two_starts_recorded_does_not_part_them(step, start, prepared):
    history = [start(), prepared(kernels="fused"), start(12), prepared(12, kernels="fused", fp8=False)]
    assert len(steady([step(i) for i in range(24)], history)) == 1


def test_other_processes_begin_a_stretch(step, start, save):
    history = [start(), save(12), start(12, processes=2), start(18, processes=2)]
    assert [each[0] for each in steady([step(i) for i in range(32)], history)] == [3, 15]


def test_a_start_whose_work_was_done_again_does_not_count(step, start):
    steps = [step(i) for i in range(24)]
    # Two processes began at 12 and saved nothing; one resumed from 12, as one did before.
    assert len(steady(steps, [start(), start(12, processes=2), start(12)])) == 1
    # All of it was done again by two, from the beginning.
    assert len(steady(steps, [start(), start(12), start(0, processes=2)])) == 1


def test_what_is_reported_is_the_latest_stretch_that_has_a_steady_step(step):
    steps = [step(i, tokens=1024 if i < 12 else 2048) for i in range(13)]
    found = latest_stretch(stretches(steps))
    assert found is not None
    assert found.steps[-1].tokens == 1024  # one iteration of the new size has no time that counts
    assert latest_stretch(stretches([*steps, step(13, tokens=2048)])).steps[0].tokens == 2048
    assert latest_stretch(stretches([step(0)])) is None


def test_every_figure_follows_from_the_seconds_of_an_iteration():
    known = Reference(2_000_000, 3_000_000, 2, "some GPU", 8e12, 4e12)
    speed = Speed(Interval(0.5, 0.4, 0.8, 0.95, 9), 1000, 4, known)
    assert speed.document() == {
        "tokens_per_iter": 1000,
        "micro_steps": 4,
        "flops_per_token": 2_000_000,
        "nanogpt_flops_per_token": 3_000_000,
        "processes": 2,
        "gpu_name": "some GPU",
        "peak_flops_per_second": 8e12,
        "ceiling_flops_per_second": 4e12,
        "iteration_seconds": {"value": 0.5, "low": 0.4, "high": 0.8, "n": 9},
        "micro_step_seconds": {"value": 0.125, "low": 0.1, "high": 0.2, "n": 9},
        "tokens_per_second": {"value": 2000.0, "low": 1250.0, "high": 2500.0, "n": 9},
        "achieved_flops_per_second": {"value": 4e9, "low": 2.5e9, "high": 5e9, "n": 9},
        "mfu": {"value": 0.0005, "low": 0.0003125, "high": 0.000625, "n": 9},
        "ceiling_fraction": {"value": 0.001, "low": 0.000625, "high": 0.00125, "n": 9},
        "nanogpt_mfu": {
            "value": pytest.approx(1000 * 3e6 / 312e12),  # each process prints its own
            "low": pytest.approx(625 * 3e6 / 312e12),
            "high": pytest.approx(1250 * 3e6 / 312e12),
            "n": 9,
        },
    }


def test_without_tokens_or_a_model_only_the_times_are_known():
    speed = Speed(Interval(0.5, None, None, 0.95, 1), None, 5)
    assert speed.micro_step_seconds.value == 0.1
    found = speed.document()
    assert {key for key, value in found.items() if value is not None} == {
        "micro_steps", "processes", "iteration_seconds", "micro_step_seconds"
    }  # fmt: skip


def test_mfu_is_work_per_second_over_the_peak():
    assert mfu(tokens_per_second=1000.0, flops_per_token=2e9, peak_flops_per_second=8e12) == 0.25


def test_the_case_is_12_9_and_15_4_percent_by_nanogpts_figure(record, narrow_settings, wide_settings):
    assert at(3.9, record(narrow_settings)).nanogpt_mfu.value == pytest.approx(0.129, abs=0.0005)
    assert at(9.34, record(wide_settings)).nanogpt_mfu.value == pytest.approx(0.154, abs=0.0005)


@pytest.mark.parametrize(
    ("gpu", "exact_share"),
    [
        # 524,288 / 9.34 s x 797,870,592 FLOP = 44.787 TFLOP/s over each peak
        (("NVIDIA GeForce RTX 4070", 11.99), 44.787 / 58.3),
        (("NVIDIA GeForce RTX 3080 Ti", 11.77), 44.787 / 68.2),
        (("NVIDIA GeForce RTX 4070 SUPER", 11.99), 44.787 / 71.0),
        (("NVIDIA GeForce RTX 3060", 11.77), 44.787 / 25.5),
    ],
)
def test_the_cases_wide_run_on_gpus_of_12_gb(record, gpu, exact_share):
    assert at(9.34, record(gpu=gpu)).mfu.value == pytest.approx(exact_share, rel=1e-4)


def test_on_an_rtx_4070_the_case_went_from_63_to_77_percent_exactly_counted(
    record, narrow_settings, wide_settings
):
    before, after = at(3.9, record(narrow_settings)).mfu, at(9.34, record(wide_settings)).mfu
    assert (before.value, after.value) == pytest.approx((0.626, 0.768), abs=0.0005)


def test_useful_work_has_the_tokenizers_vocabulary_and_nanogpts_count_the_padded_one(record):
    known = Reference.of_run(record())
    assert known.flops_per_token == 797_870_592
    assert known.nanogpt_flops_per_token == 854_770_176


@pytest.mark.parametrize(
    ("gpu", "dtype"),
    [
        (None, "float32"),
        (("NVIDIA GeForce RTX 4070 Ti Laptop GPU", 8), "bfloat16"),
        (("NVIDIA GeForce RTX 3060", 5.8), "bfloat16"),
        (("Tesla T4", 14.6), "bfloat16"),
    ],
)
def test_a_cpu_an_unknown_gpu_or_a_missing_dtype_has_no_named_peak(record, gpu, dtype):
    speed = at(1.0, record(gpu=gpu, dtype=dtype))
    assert (speed.reference.gpu_name, speed.reference.peak_flops_per_second, speed.mfu) == (None, None, None)


def test_a_float32_run_is_compared_with_the_float32_peak(record):
    assert Reference.of_run(record(dtype="float32")).peak_flops_per_second == pytest.approx(29.1e12)


def test_the_measured_ceiling_is_that_of_the_runs_own_dtype_and_of_all_its_gpus(record, ceilings):
    # 524,288 tokens in 1 s x 797.87 MFLOP = 418.3 TFLOP/s, of twice 791.2.
    speed = at(1.0, record(gpu=("NVIDIA H200", 139.8), processes=2), ceilings=ceilings())
    assert speed.reference.ceiling_flops_per_second == pytest.approx(2 * 791.2e12)
    assert speed.reference.peak_flops_per_second == pytest.approx(2 * 989e12, rel=1e-3)
    assert speed.ceiling_fraction.value == pytest.approx(418.3 / 1582.4, rel=1e-4)
    assert at(1.0, record(dtype="float32"), ceilings=ceilings()).ceiling_fraction is None
    assert at(1.0, record()).ceiling_fraction is None


def test_the_speed_now_is_the_mean_over_the_window(record, step):
    window = deque([step(0, step_seconds=60.0), step(1, step_seconds=9.30)], maxlen=3)
    window.extend([step(2, step_seconds=9.34), step(3, step_seconds=9.38)])
    live = recent_speed(window, 64, Reference.of_run(record()))
    assert live.iteration_seconds.value == pytest.approx(9.34)
    assert live.micro_step_seconds.value == pytest.approx(0.1459, abs=0.0001)
    assert live.tokens_per_second.value == pytest.approx(56_134, abs=1)
    assert live.achieved_flops_per_second.value == pytest.approx(44.787e12, rel=1e-4)
    assert live.mfu.value == pytest.approx(0.768, abs=0.0005)
    assert live.reference.gpu_name == "RTX 4070"
    assert live.nanogpt_mfu.value == pytest.approx(0.154, abs=0.0005)


def test_the_speed_now_takes_a_steps_own_micro_steps(record, step):
    live = recent_speed([step(0, step_seconds=6.4, micro_steps=128)], 64, Reference.of_run(record()))
    assert live.micro_step_seconds.value == pytest.approx(0.05)


def test_a_run_that_ended_inside_its_warm_up_has_no_speed(run, step):
    for steps in ([], [step(0)]):
        account = account_of(run(steps))
        assert (account.speed.iteration_seconds, account.pace_seconds) == (None, None)


def test_of_ten_a_slow_step_is_left_out_and_there_is_no_interval_as_it_may_recur(run, step):
    # Steady are 3 to 12: nine steps of 1.03 to 1.12 s without 1.05, and one of 60 s.
    steps = [step(i, step_seconds=60.0 if i == 5 else 1.0 + i / 100) for i in range(13)]
    seconds = account_of(run(steps)).speed.iteration_seconds
    assert seconds.value == pytest.approx((sum(range(103, 113)) - 105) / 900)
    assert (seconds.low, seconds.high, seconds.n) == (None, None, 9)


def test_a_speed_of_one_iteration_has_no_interval(run, step):
    seconds = account_of(run([step(0, step_seconds=9.0), step(1, step_seconds=2.0)])).speed.iteration_seconds
    assert seconds == Interval(2.0, None, None, 0.95, 1)


def test_slow_iterations_of_a_short_stretchs_warm_up_are_left_out(run, step):
    steps = [step(i, step_seconds=(60.0, 30.0, 1.02)[i] if i < 3 else 1.0) for i in range(8)]
    seconds = account_of(run(steps)).speed.iteration_seconds
    assert (seconds.value, seconds.n) == (pytest.approx(6.02 / 6), 6)


def test_the_pace_and_the_speed_now_hold_whole_periods(run, record, step):
    """Every 25th of 100 iterations takes 11 s, the others 1 s: 1.4 s on average, wherever it ends."""
    steps = [step(i, step_seconds=11.0 if i % 25 == 7 else 1.0) for i in range(130)]
    for end in range(110, 130):
        assert account_of(run(steps[:end])).pace_seconds == pytest.approx(1.4)
        live = recent_speed(steps[end - 100 : end], 64, Reference.of_run(record()))
        assert live.iteration_seconds.value == pytest.approx(1.4)


def test_the_pace_forgets_what_was_more_than_20_steps_ago(run, step):
    steps = [step(i, step_seconds=9.0 if i < 150 else 3.0) for i in range(170)]
    assert account_of(run(steps)).pace_seconds == 3.0


def test_the_time_of_training_is_added_up_by_stretch(run, step):
    # 12 iterations of 1 s with a small batch, then 12 of 3 s; warm-ups count as steady ones would.
    steps = [step(i, step_seconds=1.0 if i < 12 else 3.0, tokens=1024 << (i >= 12)) for i in range(24)]
    account = account_of(run(steps))
    assert [account.seconds_after(each) for each in (0, 6, 12, 13, 24)] == [0, 6, 12, 15, 48]


@pytest.mark.parametrize("grown", [0, 1, 2])
def test_the_time_left_is_right_also_just_after_the_batch_has_grown(run, record, step, evaluation, grown):
    """20 iterations of 2^19 tokens in 1 s, then 80 of twice the tokens in 2 s: 160 s in all."""
    settings = {"batch_size": 8, "gradient_accumulation_steps": 64, "max_iters": 100, "warmup_iters": 2}
    settings |= {"batch_ramp": f"{20 * 2**19}:{2**20}", "eval_interval": 1000}
    steps = [step(i, step_seconds=1.0 + (i >= 20), tokens=2**19 << (i >= 20)) for i in range(20 + grown)]
    found = summarise(run(steps, [evaluation(0, eval_seconds=0.0)], record(settings)))
    assert found.eta_seconds == pytest.approx(160 - 2 * grown)


@pytest.mark.parametrize(
    ("done", "last_eval", "left"),
    [
        (0, None, 5),
        (0, 0, 4),
        (29, 0, 4),
        (30, 0, 4),
        (30, 30, 3),
        (31, 30, 3),
        (95, 90, 1),
        (100, 90, 1),
        (100, 100, 0),
    ],
)
def test_evaluations_left_are_those_at_the_interval_and_the_one_at_the_end(done, last_eval, left):
    """100 iterations with evaluations at 0, 30, 60, 90 and 100."""
    assert evaluations_between(done, 100, 30, last_eval) == left


def test_an_end_on_the_interval_is_one_evaluation_and_not_two():
    assert evaluations_between(30, 60, 30, 30) == 1


@pytest.fixture
def config():
    """100 iterations with evaluations at 0, 30, 60, 90 and 100."""
    return build_config({"max_iters": 100, "eval_interval": 30, "warmup_iters": 10})


def test_the_time_left_counts_iterations_and_evaluations(config):
    assert eta_seconds(config, 40, 30, 2.0, 7.0) == 60 * 2.0 + 3 * 7.0


def test_the_time_left_is_unknown_while_a_step_or_an_evaluation_has_no_time(config):
    assert eta_seconds(config, 0, 0, None, 7.0) is None
    assert eta_seconds(config, 40, None, 2.0, None) is None


def test_a_finished_run_has_no_time_left(config):
    assert eta_seconds(config, 100, 100, None, None) == 0.0


def test_only_the_last_evaluation_is_left_after_the_last_iteration(config):
    assert eta_seconds(config, 100, 90, None, 7.0) == 7.0


def test_a_run_that_only_evaluates_has_one_evaluation_to_do():
    config = build_config({"max_iters": 100, "eval_only": True, "warmup_iters": 10})
    assert eta_seconds(config, 0, None, None, 7.0) == 7.0
    assert eta_seconds(config, 0, 0, None, None) == 0.0


def test_ten_billion_tokens_of_the_case_take_49_5_hours():
    config = build_config({"max_iters": 19_073, "eval_interval": 20_000})
    eta = eta_seconds(config, 0, 0, 9.34, 0.0)
    assert eta is not None
    assert eta / 3600 == pytest.approx(49.5, abs=0.05)


def test_an_evaluation_takes_its_median_time_and_that_of_the_save_after_it():
    assert evaluation_seconds([10.0, 11.0, 90.0], [2.0, 4.0]) == 11.0 + 3.0
    assert evaluation_seconds([10.0], []) == 10.0
    assert evaluation_seconds([10.0] * 9, [4.0, 4.0]) == 10.0 + 4.0 / 4
    assert evaluation_seconds([], [2.0]) is None


def test_a_ramp_makes_the_iterations_ahead_count_for_more():
    """Iterations of 1000 tokens at 0 to 4000, then of 4000: 5 and 5 of them."""
    settings = {"batch_size": 1, "block_size": 1000, "tokens_per_iter": 1000, "max_iters": 10}
    config = build_config(settings | {"batch_ramp": "4001:4000", "eval_interval": 100})
    left = [eta_seconds(config, done, 0, 2.0, 0.0) for done in (0, 3, 7, 10)]
    assert left == [25 * 2, 22 * 2, 3 * 2, 0]  # at 7, of the size that now is
    assert eta_seconds(config, 3, 0, 2.0, 10.0) == 22 * 2.0 + 10.0
    by_noise = build_config(settings | {"batch_ramp": "noise", "block_size": 500, "eval_interval": 100})
    assert eta_seconds(by_noise, 4, 0, 2.0, 0.0) == 6 * 2
