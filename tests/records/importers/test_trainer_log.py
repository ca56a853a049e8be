"""Hugging Face Trainer's stdout in the shapes in which people keep it: which step each loss belongs to."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.records.store import Run

HEADER = """***** Running training *****
  Num examples = 1,600
  Num Epochs = 2
  Instantaneous batch size per device = 4
  Total train batch size (w. parallel, distributed & accumulation) = 16
  Gradient Accumulation steps = 2
  Total optimization steps = 200
  Number of trainable parameters = 124,439,808
"""
END = "{'train_runtime': 90.5, 'train_samples_per_second': 4.0, 'train_loss': 3.5, 'epoch': 2.0}\n"


def bar(done: int, total: int = 200) -> str:
    return f"\r{done * 100 // total:3d}%|#         | {done}/{total} [00:10<01:00,  2.54it/s]"


def train(loss: float, epoch: float, quoted: bool = False) -> str:
    if quoted:
        return (
            f"{{'loss': '{loss:.4g}', 'grad_norm': '1.5', 'learning_rate': '5e-05', 'epoch': '{epoch:.4g}'}}"
        )
    return f"{{'loss': {loss}, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': {round(epoch, 2)}}}"


def evaluation(loss: float, epoch: float) -> str:
    return f"{{'eval_loss': {loss}, 'eval_runtime': 3.5, 'epoch': {round(epoch, 2)}}}"


def steps_of(run: Run) -> list[tuple[int, float | None]]:
    """Updates made, and the loss."""
    return [(step.iteration + 1, step.loss) for step in run.steps]


def evals_of(run: Run) -> list[tuple[int, float]]:
    return [(entry.iteration, entry.val_loss) for entry in run.evals]


def logged(steps: Sequence[int], per_epoch: int = 100, quoted: bool = False) -> list[str]:
    return [train(5 - step / 100, step / per_epoch, quoted) for step in steps]


LOSSES = [(step, 5 - step / 100) for step in (50, 100, 150, 200)]


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("returns", ["\r", "\n", ""])
def test_the_bar_behind_a_log_names_its_step(imported: Any, quoted: bool, returns: str) -> None:
    """tqdm clears its bar, which may be an old one, prints, and draws the bar again."""
    text = bar(0)
    for (step, loss), log in zip(LOSSES, logged([50, 100, 150, 200], quoted=quoted), strict=True):
        text += f"{bar(step - 3)}{returns}          {returns}{log}\n{bar(step)}"
        if step % 100 == 0:
            printed = evaluation(loss, step / 100)
            text += f"\n\r 20%|##        | 1/5 [00:00<?, ?it/s]\x1b[A\r    \r\x1b[A{printed}\n"
            text += f"{bar(step)}\n\r100%|##########| 5/5 [00:01<00:00,  5.0it/s]\x1b[A"
    run = imported(text + END)
    assert steps_of(run) == LOSSES
    assert evals_of(run) == [(100, 4.0), (200, 3.0)]
    assert run.settings["max_iters"] == 200
    assert (run.steps[0].learning_rate, run.steps[0].grad_norm) == (5e-5, 1.5)


def test_the_block_at_its_start_has_the_settings(imported: Any) -> None:
    run = imported(HEADER + "\n".join(logged([50, 100, 150, 200])) + "\n")
    assert run.settings == {"max_iters": 200, "batch_size": 4, "gradient_accumulation_steps": 4}
    assert (run.record.processes, run.record.parameters) == (2, 124_439_808)
    assert run.record.origin.program == "Hugging Face Trainer"


def test_without_bars_the_epochs_and_the_block_name_the_steps(imported: Any) -> None:
    logs = [*logged([50, 100]), evaluation(4.0, 1.0), *logged([150, 200]), evaluation(3.0, 2.0)]
    run = imported(HEADER + "\n".join(logs) + "\n" + END)
    assert steps_of(run) == LOSSES
    assert evals_of(run) == [(100, 4.0), (200, 3.0)]


def test_copied_from_a_terminal_only_the_last_bar_is_left(imported: Any) -> None:
    """The total and the epoch at the end make the steps of an epoch; a first log may be that of step 1."""
    for first in ([], [1]):
        steps = [*first, 50, 100, 150, 200]
        text = "\n".join(logged(steps, per_epoch=12)) + "\n" + END.replace("2.0}", f"{200 / 12:.2f}}}")
        run = imported(text + bar(200).replace("\r", ""))
        assert [step for step, _ in steps_of(run)] == steps


def test_bars_in_front_on_one_line_as_notebooks_keep_them(imported: Any) -> None:
    text = "".join(
        f"{bar(step).strip()}{log}\n"
        for step, log in zip((50, 100, 150, 200), logged([50, 100, 150, 200]), strict=True)
    )
    assert steps_of(imported(text)) == LOSSES


def test_a_buffered_stdout_puts_logs_far_from_their_bars(imported: Any) -> None:
    text = (
        "".join(bar(step) for step in range(0, 201, 5)) + "\n" + "\n".join(logged([50, 100, 150, 200])) + "\n"
    )
    assert steps_of(imported(text + END + bar(200))) == LOSSES


def test_steps_that_do_not_follow_are_refused_with_a_way_out(imported: Any) -> None:
    with pytest.raises(NanodynoError, match="at which step") as caught:
        imported("\n".join(logged([50, 100, 150, 200])) + "\n")
    assert "trainer_state.json" in str(caught.value.hint)


def test_logs_that_were_left_out_in_the_middle_are_not_counted_on(imported: Any) -> None:
    few = [*logged([10, 20], per_epoch=30_000), "[...]", *logged([180, 190, 200], per_epoch=30_000)]
    with pytest.raises(NanodynoError, match="at which step"):
        imported("\n".join(few) + "\n" + END.replace("2.0}", "0.01}") + bar(200))


def test_a_known_interval_names_the_steps(imported: Any) -> None:
    listing = "TrainingArguments(\nlogging_steps=50,\nlearning_rate=0.0005,\nweight_decay=0.1,\n)\n"
    run = imported(listing + "\n".join(logged([50, 100, 150, 200], per_epoch=3000)) + "\n")
    assert steps_of(run) == LOSSES
    assert run.settings == {"log_interval": 50, "learning_rate": 5e-4, "weight_decay": 0.1}


@pytest.mark.parametrize("power", [1, 2])
def test_where_epochs_are_too_coarse_a_linear_decay_names_the_steps(imported: Any, power: int) -> None:
    """Epochs with two decimals leave ten intervals; a learning rate that falls to zero leaves one."""
    header = HEADER.replace("1,600", "7,004").replace("= 16\n", "= 2\n").replace("= 200\n", "= 3,502\n")
    logs = "".join(
        f"{{'loss': 4.5, 'learning_rate': {((3502 - step) / 3402) ** power}, 'epoch': {step / 3502:.2f}}}\n"
        for step in (1000, 2000, 3000)
    )
    text = header.replace("Gradient Accumulation steps = 2", "Gradient Accumulation steps = 1") + logs
    if power == 1:
        assert [step for step, _ in steps_of(imported(text))] == [1000, 2000, 3000]
    else:
        with pytest.raises(NanodynoError, match="at which step"):
            imported(text)


@pytest.mark.parametrize("key", ["step", "current_steps"])
def test_a_log_that_names_its_step_is_believed(imported: Any, key: str) -> None:
    text = f'{{"loss": 4.5, "lr": 1e-4, "epoch": 0.03, "{key}": 500}}\n'
    run = imported(text + f'{{"eval_loss": 4.4, "epoch": 0.03, "{key}": 500}}\n')
    assert (steps_of(run), evals_of(run), run.steps[0].learning_rate) == ([(500, 4.5)], [(500, 4.4)], 1e-4)


def test_a_loss_of_nan_is_kept(imported: Any) -> None:
    text = (
        HEADER
        + "\n".join(logged([50, 100]))
        + "\n"
        + train(math.nan, 1.5)
        + "\n"
        + train(math.nan, 2.0)
        + "\n"
    )
    assert [math.isnan(loss) for _, loss in steps_of(imported(text)) if loss is not None] == [
        False,
        False,
        True,
        True,
    ]


SUMMARY = """***** train metrics *****
  epoch                    =        2.0
  train_loss               =     3.5000
***** eval metrics *****
  epoch                   =        2.0
  eval_loss               =     3.2189
  perplexity              =    25.0000
"""


def test_the_summary_at_the_end_is_the_evaluation_of_the_last_step(imported: Any) -> None:
    text = HEADER + "\n".join(logged([50, 100, 150, 200])) + "\n" + END
    assert evals_of(imported(text + SUMMARY)) == [(200, 3.2189)]
    best = imported(text + "Loading best model from out/checkpoint-100 (score: 3.2).\n" + SUMMARY)
    assert not best.evals
    assert any("best checkpoint" in note for note in best.record.notes)


def test_a_training_without_a_placed_log_has_no_part_in_the_settings(imported: Any) -> None:
    def training(batch: int, bars: bool) -> str:
        header = f"***** Running training *****\n  Batch size per device = {batch}\n"
        logs = "".join(
            f"{{'loss': 3.0, 'epoch': {at / 100:.2f}}}\n" + (f" {at}%| | {at}/100 [00:01\n" if bars else "")
            for at in range(10, 60, 10)
        )
        return header + logs

    run = imported(training(8, True) + training(4, False))
    assert (run.settings["batch_size"], len(run.steps)) == (8, 5)


def test_a_training_that_was_resumed_is_one_run(imported: Any) -> None:
    again = HEADER + "  Continuing training from global step 100\n"
    text = HEADER + "\n".join(logged([50, 100, 150])) + "\n" + again
    for step, log in zip((150, 200), logged([150, 200]), strict=True):
        text += f"{log}\n{bar(step)}"
    run = imported(text)
    assert steps_of(run) == LOSSES
    assert run.record.origin.restarts == 1


def test_other_bars_and_dicts_are_none_of_its_own(imported: Any) -> None:
    noise = "Map: 100%|####| 738/738 [00:00<00:00, 3417.10 examples/s]\n{'input_ids': 3, 'labels': 4}\n"
    text = noise
    for step, log in zip((50, 100), logged([50, 100]), strict=True):
        text += f"{log}\nMap: 10%|#   | {step + 7}/200 [00:00<00:00, 3.1it/s]{bar(step)}\n"
    assert steps_of(imported(text)) == LOSSES[:2]


def test_a_state_is_still_read_as_a_state(imported: Any) -> None:
    text = (
        '{"log_history": [{"loss": 4.0, "learning_rate": 1e-4, "epoch": 0.5, "step": 10}], "max_steps": 20}'
    )
    assert imported(text).record.origin.files[0].kind == "trainer-state"
