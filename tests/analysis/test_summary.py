# pyright: reportOptionalMemberAccess=false
import math

import pytest

from nanodyno.analysis.summary import perplexity, summarise

GIB = 2**30


def test_the_cases_wide_run_summarised(run, step, evaluation):
    first = [step(i, step_seconds=50.0) for i in range(3)]
    steps = [*first, *(step(i, step_seconds=9.34, data_seconds=0.0467) for i in range(3, 801))]
    evals = [evaluation(0, val_loss=10.9), evaluation(500, val_loss=5.5194)]
    summary = summarise(run(steps, evals))

    assert summary.parameters
    assert summary.parameters.nanogpt == 123_587_328
    assert (summary.iterations_done, summary.iterations_planned, summary.finished) == (801, 19_073, False)
    assert summary.tokens_seen == 801 * 524_288
    assert summary.speed.iteration_seconds is not None
    assert (summary.speed.iteration_seconds.value, summary.speed.iteration_seconds.n) == (9.34, 798)
    assert summary.speed.micro_step_seconds.value == pytest.approx(0.1459, abs=0.0001)
    assert summary.speed.tokens_per_second is not None
    assert summary.speed.tokens_per_second.value == pytest.approx(56_134, abs=1)
    assert summary.speed.achieved_flops_per_second.value == pytest.approx(44.787e12, rel=1e-4)
    assert (summary.speed.reference.gpu_name, summary.speed.reference.peak_flops_per_second) == (
        "RTX 4070",
        pytest.approx(58.3e12),
    )
    assert summary.speed.mfu.value == pytest.approx(0.768, abs=0.0005)
    assert summary.speed.nanogpt_mfu.value == pytest.approx(0.154, abs=0.0005)
    assert summary.data_wait_share == pytest.approx(0.005)
    assert summary.training_seconds == pytest.approx(150 + 798 * 9.34)
    assert summary.evaluation_seconds == 20.0
    # evaluations to come: 2000, 4000, ... 18000 and 19073
    assert summary.eta_seconds == pytest.approx((19_073 - 801) * 9.34 + 10 * 10.0)


def test_an_empty_run_knows_its_model_and_nothing_else(run):
    summary = summarise(run())
    assert summary.parameters
    assert summary.parameters.total == 124_373_760
    assert (summary.iterations_done, summary.tokens_seen, summary.finished) == (0, 0, False)
    assert summary.training_seconds == summary.evaluation_seconds == 0
    unknown = (
        summary.speed.iteration_seconds,
        summary.speed.micro_step_seconds,
        summary.speed.tokens_per_second,
        summary.speed.achieved_flops_per_second,
        summary.speed.mfu,
        summary.speed.nanogpt_mfu,
        summary.data_wait_share,
        summary.peak_allocated_bytes,
        summary.last_train_loss,
        summary.best_val,
        summary.last_val,
        summary.eta_seconds,
    )
    assert unknown == (None,) * len(unknown)


def test_a_run_on_a_cpu_has_nanogpts_figure_and_no_share_of_a_gpu(run, step, record):
    summary = summarise(run([step(i) for i in range(12)], record=record(gpu=None, dtype="float32")))
    assert (
        summary.speed.reference.gpu_name,
        summary.speed.reference.peak_flops_per_second,
        summary.speed.mfu,
    ) == (
        None,
        None,
        None,
    )
    assert summary.speed.nanogpt_mfu.value == pytest.approx(131_072 * 854_770_176 / 312e12)


def test_a_run_whose_loss_became_nan_says_so_and_keeps_its_best(run, step, evaluation):
    steps = [step(i, loss=math.nan if i >= 15 else 5.0) for i in range(20)]
    evals = [evaluation(0, val_loss=11.0), evaluation(10, val_loss=6.0), evaluation(20, val_loss=math.nan)]
    summary = summarise(run(steps, evals))
    assert summary.last_train_loss is not None
    assert math.isnan(summary.last_train_loss)
    assert summary.best_val is not None
    assert (summary.best_val.iteration, summary.best_val.loss) == (10, 6.0)
    assert summary.last_val is not None
    assert math.isnan(summary.last_val.loss)
    assert math.isnan(summary.last_val.perplexity)
    assert summary.speed.tokens_per_second is not None
    assert summary.speed.tokens_per_second.value == 131_072


def test_a_run_with_nothing_but_nan_has_no_best(run, evaluation):
    assert summarise(run(evals=[evaluation(0, val_loss=math.nan)])).best_val is None


def test_the_best_evaluation_need_not_be_the_last(run, evaluation):
    evals = [evaluation(0, val_loss=11.0), evaluation(500, val_loss=3.0), evaluation(1000, val_loss=3.2)]
    summary = summarise(run(evals=evals))
    assert summary.best_val is not None
    assert summary.last_val is not None
    assert (summary.best_val.iteration, summary.last_val.iteration) == (500, 1000)
    assert summary.best_val.perplexity == pytest.approx(20.0855, abs=1e-4)


def test_the_last_train_loss_is_the_mean_of_the_last_ten(run, step):
    losses = [100.0] * 10 + [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    summary = summarise(run([step(i, loss=loss) for i, loss in enumerate(losses)]))
    assert summary.last_train_loss == 5.5


def test_peaks_are_the_highest_of_the_latest_stretch_and_none_where_not_measured(run, step):
    steps = [
        step(0, peak_allocated_bytes=7 * GIB, peak_reserved_bytes=9 * GIB),
        step(1, peak_allocated_bytes=8 * GIB, peak_reserved_bytes=9 * GIB),
        step(2),
    ]
    summary = summarise(run(steps))
    assert (summary.peak_allocated_bytes, summary.peak_reserved_bytes) == (8 * GIB, 9 * GIB)
    assert summary.peak_host_bytes is None


def test_a_finished_run_has_zero_seconds_to_go(run, step, evaluation, record, start, stop):
    settings = {"max_iters": 12, "warmup_iters": 2, "eval_interval": 6}
    evals = [evaluation(0), evaluation(6), evaluation(12)]
    history = [start(), stop(12)]
    summary = summarise(run([step(i) for i in range(12)], evals, record(settings), history))
    assert summary.finished
    assert summary.eta_seconds == 0.0


def test_steps_after_a_resume_are_warmed_up_again(run, step, record):
    steps = [step(i, step_seconds=30.0 if i in (10, 11, 12) else 4.0) for i in range(20)]
    summary = summarise(run(steps, record=record(resumed_at=(10,))))
    assert summary.speed.iteration_seconds is not None
    assert (summary.speed.iteration_seconds.high, summary.speed.iteration_seconds.n) == (4.0, 14)


def test_a_perplexity_of_22_is_a_loss_of_3_09():
    assert perplexity(3.09) == pytest.approx(22, abs=0.05)
    assert perplexity(1000.0) == math.inf


def test_saving_is_timed_apart_and_its_share_is_of_the_whole_time(run, step, evaluation, start, save):
    # 20 x 4 s of training, 2 x 10 s of evaluation, 1 + 4 s of saving: 5 of 105 s.
    history = [
        start(),
        save(10, save_seconds=1.0, saved_bytes=GIB),
        save(20, save_seconds=4.0, saved_bytes=7),
    ]
    summary = summarise(run([step(i) for i in range(20)], [evaluation(10), evaluation(20)], history=history))
    assert (summary.saves, summary.saving_seconds, summary.saved_bytes) == (2, 5.0, 7)
    assert summary.saving_share == pytest.approx(5 / 105)
    assert (summary.training_seconds, summary.evaluation_seconds) == (80.0, 20.0)


def test_the_time_left_counts_the_saves_after_evaluations(run, step, evaluation, save, record):
    settings = {"max_iters": 40, "warmup_iters": 2, "eval_interval": 10}
    history = [save(10, save_seconds=1.0), save(20, save_seconds=2.0), save(20, save_seconds=30.0)]
    evals = [evaluation(0), evaluation(10), evaluation(20)]
    summary = summarise(run([step(i) for i in range(20)], evals, record(settings), history))
    # 20 iterations of 4 s; at 30 and 40 an evaluation of 10 s and a save of 2 s.
    assert summary.eta_seconds == 80 + 2 * 12


def test_a_run_without_saves_has_no_share_of_saving(run, step):
    summary = summarise(run([step(0)]))
    assert (summary.saves, summary.saving_seconds) == (0, 0.0)
    assert (summary.saving_share, summary.saved_bytes) == (None, None)


def test_skipped_updates_are_counted_by_kind(run, step):
    kinds = ["overflow", "overflow", None, "loss-spike", None]
    summary = summarise(run([step(i, skipped=kind) for i, kind in enumerate(kinds)]))
    assert summary.skipped_updates == {"overflow": 2, "loss-spike": 1}


def test_after_a_split_a_micro_batch_is_of_the_new_size(run, step):
    before = [step(i, step_seconds=6.4, micro_steps=64) for i in range(20)]
    after = [step(i, step_seconds=60.0, micro_steps=128) for i in range(20, 23)]
    steady = [step(i, step_seconds=7.68, micro_steps=128) for i in range(23, 30)]
    summary = summarise(run([*before, *after, *steady]))
    assert summary.speed.micro_step_seconds.value == pytest.approx(0.06)  # 7.68 s / 128, not 6.4 s / 64
    assert summary.speed.iteration_seconds is not None
    assert (summary.speed.iteration_seconds.value, summary.speed_from) == (7.68, 20)


def test_after_a_split_the_time_left_is_at_the_new_speed(run, step, evaluation, record):
    settings = {"max_iters": 30, "warmup_iters": 2, "eval_interval": 100}
    steps = [step(i, step_seconds=6.0 if i < 20 else 8.0, micro_steps=1 + (i >= 20)) for i in range(25)]
    summary = summarise(run(steps, [evaluation(0)], record(settings)))
    assert summary.eta_seconds == 5 * 8.0 + 10.0


def test_two_gpus_are_held_against_twice_the_peak_and_each_by_nanogpt(run, step, record):
    # As on one card, with twice the tokens a second: 112,268 tokens/s.
    steps = [step(i, step_seconds=4.67, micro_steps=32) for i in range(20)]
    summary = summarise(run(steps, record=record(processes=2)))
    assert summary.speed.reference.processes == 2
    assert (summary.speed.reference.gpu_name, summary.speed.reference.peak_flops_per_second) == (
        "RTX 4070",
        pytest.approx(2 * 58.3e12),
    )
    assert summary.speed.mfu.value == pytest.approx(0.768, abs=0.0005)
    assert summary.speed.nanogpt_mfu.value == pytest.approx(0.154, abs=0.0005)
    assert summary.speed.micro_step_seconds.value == pytest.approx(4.67 / 32)


def test_rates_are_of_the_stretches_with_as_many_processes_as_the_last(run, step, record, start):
    alone = [step(i, step_seconds=8.0, micro_steps=64) for i in range(20)]
    two = [step(i, step_seconds=4.0, micro_steps=32) for i in range(20, 32)]
    history = [start(), start(20, processes=2)]
    summary = summarise(run([*alone, *two], record=record(processes=2, resumed_at=(20,)), history=history))
    assert summary.speed_from == 20
    assert summary.speed.tokens_per_second is not None
    assert (summary.speed.tokens_per_second.value, summary.speed.tokens_per_second.n) == (131_072, 9)
    assert summary.training_seconds == 20 * 8.0 + 12 * 4.0
