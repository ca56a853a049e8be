"""Tables and TensorBoard's event files."""

import math
import struct
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.account_reading import account_of

WRITTEN = Path(__file__).with_name("events.out.tfevents.1")
"""By torch.utils.tensorboard: losses 10 - i/10 every 10 steps and 5 s, NaN last as a tensor, val every 20."""


def test_a_plain_table(imported: Any) -> None:
    run = imported(
        "step,train_loss,val_loss,lr,seconds\n0,10.9,11.0,1e-6,0.5\n10,9.4,,2e-6,0.25\n20,,9.0,,\n"
    )
    assert [(step.iteration, step.loss, step.learning_rate, step.step_seconds) for step in run.steps] == [
        (0, 10.9, 1e-6, 0.5),
        (10, 9.4, 2e-6, 0.25),
    ]
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 11.0), (20, 9.0)]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_other_separators_and_column_names(imported: Any, losses: Any, separator: str) -> None:
    text = "global_step|train/loss|eval/loss\n1|4.5|\n2|nan|4.1\n".replace("|", separator)
    run = imported("\ufeff" + text)
    assert losses(run)[1] == 4.5
    assert math.isnan(losses(run)[2])
    assert run.evals[0].val_loss == 4.1


def test_seconds_that_only_grow_are_a_clock(imported: Any) -> None:
    rows = "".join(f"{step},4.0,{100 + step * 0.5}\n" for step in range(0, 100, 10))
    run = imported("step,train_loss,seconds\n" + rows)
    assert [step.step_seconds for step in run.steps] == [None, *[0.5] * 9]
    assert "differences of the log's clock" in run.record.notes[0]


def test_what_weights_and_biases_exports_of_a_chart(imported: Any, losses: Any) -> None:
    heading = '"Step","my - run - train/loss","my - run - train/loss__MIN","my - run - train/loss__MAX"\n'
    run = imported(heading + '"10","4.5","4.4","4.6"\n"20","4.25","4.2","4.3"')
    assert losses(run) == {10: 4.5, 20: 4.25}


def test_nanogpts_own_iter_counts_and_not_the_number_of_calls(imported: Any, losses: Any) -> None:
    assert losses(imported("_step,_runtime,iter,train/loss\n0,1.5,0,4.5\n1,9.5,250,4.0\n")) == {
        0: 4.5,
        250: 4.0,
    }


def test_rows_that_are_no_rows_are_counted(imported: Any, losses: Any) -> None:
    run = imported("step,loss\n0,4.0\nhello\nx,y\n-1,3\n1,3.5\n")
    assert losses(run) == {0: 4.0, 1: 3.5}
    assert run.record.origin.files[0].unread_lines == 3


def test_an_event_file_of_tensorboards_own_writer(imported: Any) -> None:
    run = imported(WRITTEN.read_bytes(), names=(WRITTEN.name,))
    assert [step.iteration for step in run.steps] == [0, 10, 20, 30, 40, 50, 60]
    assert [step.loss for step in run.steps[:6]] == [10.0, 9.0, 8.0, 7.0, 6.0, 5.0]
    assert math.isnan(run.steps[6].loss)
    assert run.steps[1].learning_rate == struct.unpack("<f", struct.pack("<f", 0.0011))[0]
    assert [step.step_seconds for step in run.steps] == [None, *[0.5] * 6]
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 10.5), (20, 8.5), (40, 6.5)]


def test_an_event_file_cut_in_its_last_record(imported: Any) -> None:
    run = imported(WRITTEN.read_bytes()[:-100], names=(WRITTEN.name,))
    assert len(run.steps) >= 5
    assert any("ends inside a record" in note for note in run.record.notes)


def test_a_damaged_length_ends_an_event_file(imported: Any) -> None:
    data = bytearray(WRITTEN.read_bytes())
    data[len(data) // 2 :] = b"\x7f" * (len(data) - len(data) // 2)
    run = imported(bytes(data), names=(WRITTEN.name,))
    assert 0 < len(run.steps) < 7


LIGHTNING = """epoch,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss
0,0.0003,49,,,
0,,49,,4.5,
0,0.0002,99,,,
0,,99,,nan,
0,,99,,,4.25
0,,99,4.75,,
1,,149,,4.0,
"""


def test_lightnings_metrics_have_a_row_for_each_thing_of_a_step(imported: Any, losses: Any) -> None:
    run = imported(LIGHTNING, names=("metrics.csv",))
    assert run.record.origin.program == "Lightning"
    assert [(step.iteration, step.learning_rate) for step in run.steps] == [
        (49, 3e-4),
        (99, 2e-4),
        (149, None),
    ]
    assert (losses(run)[49], math.isnan(losses(run)[99]), losses(run)[149]) == (4.5, True, 4.0)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(100, 4.25)], "behind iteration 99"
    assert run.record.origin.restarts == 0


def test_lightnings_mean_over_an_epoch_counts_where_there_is_no_other_loss(
    imported: Any, losses: Any
) -> None:
    run = imported("epoch,step,train_loss_epoch,val_loss\n0,99,,4.25\n0,99,4.75,\n1,199,,4.0\n1,199,4.5,\n")
    assert losses(run) == {99: 4.75, 199: 4.5}
    assert [entry.iteration for entry in run.evals] == [100, 200]


def test_a_table_without_gaps_is_no_lightnings(imported: Any) -> None:
    run = imported("epoch,step,train_loss,val_loss\n0,100,4.5,4.6\n0,200,4.0,4.1\n")
    assert (run.record.origin.program, [entry.iteration for entry in run.evals]) == ("a table", [100, 200])


def test_hparams_beside_the_metrics_have_the_settings(imported: Any) -> None:
    yaml = "batch_size: 64\nlr: 0.0003\nbias: false # no\nmodel:\n  n_head: 3\nwidth: 3\nbetas: [0.9]\n"
    run = imported(LIGHTNING, yaml + "dataset: 'owt'\n", names=("metrics.csv", "hparams.yaml"))
    assert run.settings == {"batch_size": 64, "learning_rate": 3e-4, "bias": False, "dataset": "owt"}


def test_litgpts_table_counts_micro_batches(imported: Any, losses: Any) -> None:
    run = imported(
        "epoch,iter,iter_time,learning_rate,loss,remaining_time,step,tokens,total_tokens,val_loss,val_ppl\n"
        "0,40,0.34,0.0004,10.5,99.0,39,81920,163840,,\n,,,,,,39,,,10.25,28282.5\n"
        "0,80,0.35,0.0003,9.5,98.0,79,163840,327680,,\n"
    )
    assert losses(run) == {39: 10.5, 79: 9.5}
    assert [(step.tokens, step.step_seconds, step.learning_rate) for step in run.steps] == [
        (4096, 0.34, 0.0004),
        (4096, 0.35, 0.0003),
    ]
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(40, 10.25)]
    assert (run.record.origin.program, "micro-batches" in run.record.notes[0]) == ("litgpt", True)


def test_litgpts_stdout_counts_optimizer_steps(imported: Any, losses: Any) -> None:
    line = "Epoch 1 | iter {} step {} | loss train: {}, val: {} | iter time: 340.04 ms (step) remaining\n"
    run = imported(
        line.format(2, 0, "10.990", "n/a")
        + line.format(10, 1, "10.900", "n/a")
        + line.format(20, 2, "nan", "n/a")
        + "iter 20: val loss 10.5000, val time: 120.00 ms\n"
        + line.format(30, 3, "9.500", "10.500")
    )
    assert (losses(run)[0], math.isnan(losses(run)[1]), losses(run)[2]) == (10.9, True, 9.5)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(2, 10.5)]
    assert {step.step_seconds for step in run.steps} == {None}, "the time of one of ten micro-batches"
    alone = imported(line.format(1, 1, "10.9", "n/a") + line.format(2, 2, "10.8", "n/a"))
    assert [step.step_seconds for step in alone.steps] == [0.34004] * 2


def test_an_evaluation_in_the_clock_of_a_table_is_in_no_rate(imported: Any) -> None:
    """Rows of half a second an iteration; in every fifth one the clock ran on through an evaluation."""
    rows, clock = [], 0.0
    for step in range(0, 1000, 10):
        clock += 5.0 + 0.01 * (step % 7) + 30.0 * (step % 50 == 0)
        rows.append(f"{step},4.0,{'4.1' if step % 50 == 0 else ''},{clock}\n")
    account = account_of(imported("step,train_loss,val_loss,elapsed\n" + "".join(rows)))
    seconds: Any = account.speed.iteration_seconds
    assert seconds.value == pytest.approx(0.503, rel=0.003)
    assert seconds.low is not None
    assert account.elapsed_excess is None
