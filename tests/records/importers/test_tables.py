"""Tables and TensorBoard's event files."""

import math
import struct
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.account import account_of

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
