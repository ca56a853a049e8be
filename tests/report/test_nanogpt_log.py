import math

import pytest

from nanodyno.report.nanogpt_log import NanogptLog, eval_line


def test_the_mfu_is_minus_100_percent_for_five_iterations_and_a_running_mean_after(record, step):
    # 524,288 x 854,770,176 / 312e12 = 1.43636 s of A100: 15.38% at 9.34 s, 14.36% at 10 s.
    log = NanogptLog(record())
    lines = [log.step_line(step(i, loss=10.98612, step_seconds=9.34)) for i in range(6)]
    lines.append(log.step_line(step(6, step_seconds=10.0)))
    assert lines[0] == "iter 0: loss 10.9861, time 9340.00ms, mfu -100.00%"
    assert lines[4] == "iter 4: loss 10.9861, time 9340.00ms, mfu -100.00%"
    assert lines[5] == "iter 5: loss 10.9861, time 9340.00ms, mfu 15.38%"
    assert lines[6] == "iter 6: loss 5.0000, time 10000.00ms, mfu 15.28%"  # 0.9 x 15.379 + 0.1 x 14.364


def test_only_logged_iterations_enter_the_running_mean(record, step, wide_settings):
    log = NanogptLog(record(wide_settings | {"log_interval": 10}))
    seconds = {0: 90.0, 10: 9.34}
    lines = [log.step_line(step(i, step_seconds=seconds.get(i, 1.0))) for i in range(11)]
    assert lines[1:10] == [None] * 9
    assert lines[0] == "iter 0: loss 5.0000, time 90000.00ms, mfu -100.00%"
    assert lines[10] == "iter 10: loss 5.0000, time 9340.00ms, mfu 15.38%"


def test_a_resumed_process_settles_again(record, step):
    log = NanogptLog(record())
    lines = [log.step_line(step(i, step_seconds=9.34)) for i in range(500, 506)]
    assert lines[4] == "iter 504: loss 5.0000, time 9340.00ms, mfu -100.00%"
    assert lines[5] == "iter 505: loss 5.0000, time 9340.00ms, mfu 15.38%"


def test_each_of_two_processes_shows_its_own_share(record, step):
    log = NanogptLog(record(processes=2))
    lines = [log.step_line(step(i, step_seconds=9.34)) for i in range(6)]
    assert lines[5] == "iter 5: loss 5.0000, time 9340.00ms, mfu 7.69%"


@pytest.mark.parametrize(
    ("train", "val", "line"),
    [
        (10.98721, 10.98809, "step 250: train loss 10.9872, val loss 10.9881"),
        (math.nan, math.nan, "step 250: train loss nan, val loss nan"),
    ],
)
def test_an_evaluation_reads_as_in_nanogpt(evaluation, train, val, line):
    assert eval_line(evaluation(250, train_loss=train, val_loss=val)) == line
