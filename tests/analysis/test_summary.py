import math

import pytest

from nanodyno.analysis.summary import perplexity, summarise

GIB = 2**30


def test_the_cases_wide_run_summarised(run, step, evaluation):
    first = [step(i, step_seconds=50.0) for i in range(3)]
    steps = [*first, *(step(i, step_seconds=9.34, data_seconds=0.0467) for i in range(3, 801))]
    evals = [evaluation(0, val_loss=10.9), evaluation(500, val_loss=5.5194)]
    summary = summarise(run(steps, evals))

    assert summary.parameters.nanogpt == 123_587_328
    assert (summary.iterations_done, summary.iterations_planned, summary.finished) == (801, 19_073, False)
    assert summary.tokens_seen == 801 * 524_288
    assert summary.step_seconds is not None
    assert (summary.step_seconds.estimate, summary.step_seconds.n) == (9.34, 798)
    assert summary.micro_step_seconds == pytest.approx(0.1459, abs=0.0001)
    assert summary.tokens_per_second is not None
    assert summary.tokens_per_second.estimate == pytest.approx(56_134, abs=1)
    assert summary.flops_per_second == pytest.approx(44.787e12, rel=1e-4)
    assert (summary.card_name, summary.peak_flops) == ("RTX 4070", pytest.approx(58.3e12))
    assert summary.card_share == pytest.approx(0.768, abs=0.0005)
    assert summary.nanogpt_mfu == pytest.approx(0.154, abs=0.0005)
    assert summary.data_wait_share == pytest.approx(0.005)
    assert summary.training_seconds == pytest.approx(150 + 798 * 9.34)
    assert summary.evaluation_seconds == 20.0
    # evaluations to come: 2000, 4000, ... 18000 and 19073
    assert summary.eta_seconds == pytest.approx((19_073 - 801) * 9.34 + 10 * 10.0)


def test_an_empty_run_knows_its_model_and_nothing_else(run):
    summary = summarise(run())
    assert summary.parameters.total == 124_373_760
    assert (summary.iterations_done, summary.tokens_seen, summary.finished) == (0, 0, False)
    assert summary.training_seconds == summary.evaluation_seconds == 0
    unknown = (
        summary.step_seconds,
        summary.micro_step_seconds,
        summary.tokens_per_second,
        summary.flops_per_second,
        summary.card_share,
        summary.nanogpt_mfu,
        summary.data_wait_share,
        summary.peak_allocated_bytes,
        summary.last_train_loss,
        summary.best_val,
        summary.last_val,
        summary.eta_seconds,
    )
    assert unknown == (None,) * len(unknown)


def test_a_run_on_a_cpu_has_nanogpts_figure_and_no_share_of_a_card(run, step, record):
    summary = summarise(run([step(i) for i in range(12)], record=record(card=None, dtype="float32")))
    assert (summary.card_name, summary.peak_flops, summary.card_share) == (None, None, None)
    assert summary.nanogpt_mfu == pytest.approx(131_072 * 854_770_176 / 312e12)


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
    assert summary.tokens_per_second is not None
    assert summary.tokens_per_second.estimate == 131_072


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


def test_peaks_are_the_highest_of_the_whole_run_and_none_where_not_measured(run, step):
    steps = [
        step(0, peak_allocated_bytes=7 * GIB, peak_reserved_bytes=9 * GIB),
        step(1, peak_allocated_bytes=8 * GIB, peak_reserved_bytes=9 * GIB),
        step(2),
    ]
    summary = summarise(run(steps))
    assert (summary.peak_allocated_bytes, summary.peak_reserved_bytes) == (8 * GIB, 9 * GIB)
    assert summary.peak_host_bytes is None


def test_a_finished_run_has_zero_seconds_to_go(run, step, evaluation, record):
    settings = {"max_iters": 12, "warmup_iters": 2, "eval_interval": 6}
    evals = [evaluation(0), evaluation(6), evaluation(12)]
    summary = summarise(run([step(i) for i in range(12)], evals, record(settings)))
    assert summary.finished
    assert summary.eta_seconds == 0.0


def test_steps_after_a_resume_are_warmed_up_again(run, step, record):
    steps = [step(i, step_seconds=30.0 if i in (10, 11, 12) else 4.0) for i in range(20)]
    summary = summarise(run(steps, record=record(resumed_at=(10,))))
    assert summary.step_seconds is not None
    assert (summary.step_seconds.high, summary.step_seconds.n) == (4.0, 14)


def test_a_perplexity_of_22_is_a_loss_of_3_09():
    assert perplexity(3.09) == pytest.approx(22, abs=0.05)
    assert perplexity(1000.0) == math.inf
