"""nanoGPT's stdout in the shapes in which people keep it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.leaderboard import standing_of
from nanodyno.analysis.summary import summarise
from nanodyno.errors import NanodynoError
from nanodyno.messages.language import ENGLISH
from nanodyno.report.run_facts import loss_facts, progress_fact

HEAD = """Overriding: batch_size = 8
Overriding: gradient_accumulation_steps = 64
Overriding: learning_rate = 0.0003
Overriding: compile = True
Overriding: dataset = fineweb-edu
tokens per iteration will be: 524,288
Initializing a new model from scratch
defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)
number of parameters: 123.59M
"""
BODY = """step 0: train loss 10.9886, val loss 10.9898
iter 0: loss 10.9911, time 60123.45ms, mfu -100.00%
iter 1: loss 10.4000, time 9340.12ms, mfu -100.00%
iter 2: loss 9.9000, time 9341.50ms, mfu 15.40%
"""
STEPS = {0: 10.9911, 1: 10.4, 2: 9.9}


def steps(count: int, start: int = 0, loss: float = 5.0) -> str:
    return "".join(
        f"iter {number}: loss {loss:.4f}, time 100.00ms, mfu 10.00%\n"
        for number in range(start, start + count)
    )


def test_everything_that_its_lines_tell_is_read(imported: Any) -> None:
    run = imported(HEAD + BODY)
    first, second, third = run.steps
    assert (first.loss, first.step_seconds, first.printed_mfu) == (10.9911, 60.12345, None)
    assert (second.step_seconds, second.tokens, third.printed_mfu) == (9.34012, 524_288, 0.154)
    (evaluation,) = run.evals
    assert (evaluation.iteration, evaluation.train_loss, evaluation.val_loss) == (0, 10.9886, 10.9898)
    assert run.settings == {
        "batch_size": 8,
        "gradient_accumulation_steps": 64,
        "learning_rate": 3e-4,
        "compile": True,
        "dataset": "fineweb-edu",
        "vocab_size": 50304,
        "block_size": 1024,
    }
    assert (run.tokens_per_iter, run.record.parameters) == (524_288, 123_590_000)
    assert run.record.origin.program == "nanoGPT"


def test_what_the_log_does_not_say_stays_unknown(imported: Any) -> None:
    run = imported(BODY)
    record = run.record
    assert (run.settings, run.tokens_per_iter, record.parameters, record.device_name) == (
        {},
        None,
        None,
        None,
    )
    assert {step.tokens for step in run.steps} == {None}


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(lambda line: f"2026-01-05 12:00:01,123 - INFO - {line}", id="timestamps"),
        pytest.param(lambda line: f"Jan 05 12:00:01 box python[123]: {line}", id="journal"),
        pytest.param(lambda line: f"[rank0]: {line}", id="torchrun"),
        pytest.param(lambda line: f"> {line}", id="quoted"),
        pytest.param(lambda line: f"- `{line}`", id="bullets"),
        pytest.param(lambda line: f"    {line}   ", id="indented"),
        pytest.param(lambda line: f"\x1b[32m{line}\x1b[0m", id="coloured"),
        pytest.param(lambda line: line.replace(": loss", "\x1b[1m: loss\x1b[22m"), id="coloured inside"),
        pytest.param(lambda line: f"{line}\r", id="CRLF"),
        pytest.param(lambda line: f"compiling 40%\rcompiling 90%\r{line}", id="progress bars"),
        pytest.param(
            lambda line: f"/usr/lib/x.py:3: UserWarning: no\n{line}\n  warnings.warn(", id="warnings"
        ),
    ],
)
def test_the_same_is_read_in_every_wrapping(imported: Any, losses: Any, shape: Any) -> None:
    run = imported("\n".join(map(shape, (HEAD + BODY).splitlines())) + "\n")
    assert losses(run) == STEPS
    assert (run.tokens_per_iter, len(run.evals), run.settings["batch_size"]) == (524_288, 1, 8)


def test_a_log_pasted_in_markdown_after_a_prompt(imported: Any, losses: Any) -> None:
    run = imported(
        f"# My run\n\nIt went well:\n\n```text\n(env) me@box:~$ cd nanoGPT\n{HEAD}{BODY}```\nWhy?\n"
    )
    assert losses(run) == STEPS
    assert run.record.origin.files[0].unread_lines == 6


def test_utf_16_as_powershell_writes_it(imported: Any, losses: Any) -> None:
    assert losses(imported((HEAD + BODY).encode("utf-16"))) == STEPS


@pytest.mark.parametrize("end", range(1, 48))
def test_a_log_cut_anywhere_in_its_last_line_has_no_wrong_number(
    imported: Any, losses: Any, end: int
) -> None:
    cut = "iter 3: loss 9.8765, time 9345.67ms, mfu 15.41%"[:end]
    assert losses(imported(BODY + cut)) == STEPS | ({3: 9.8765} if end == 47 else {})


@pytest.mark.parametrize(("cut", "evaluations"), [("10.98", 1), ("10.9898", 2), ("nan", 2)])
def test_a_cut_evaluation_is_left_out(imported: Any, cut: str, evaluations: int) -> None:
    assert len(imported(BODY + f"step 3: train loss 10.9886, val loss {cut}").evals) == evaluations


def test_a_line_cut_in_the_middle_of_the_log_is_left_out(imported: Any, losses: Any) -> None:
    torn = "iter 3: loss 9.8\niter 4: loss 9.8765, time 93\niter 5: loss 9.1"
    whole = "iter 6: loss 9.0000, time 9.00ms, mfu 1.00%\n"
    assert losses(imported(BODY + torn + whole)) == STEPS | {6: 9.0}


def test_a_cut_line_among_plain_ones_is_left_out(imported: Any, losses: Any) -> None:
    assert losses(imported(steps(3) + "iter 3: loss 5.0\n" + steps(2, start=4))) == dict.fromkeys(
        (0, 1, 2, 4, 5), 5.0
    )


def test_a_config_ends_where_iterations_begin(imported: Any) -> None:
    log = (
        "Overriding config with c.py:\nn_embd = 64\n"
        + steps(3)
        + "warning: n_embd = 128\n"
        + steps(2, start=3)
    )
    assert imported(log).settings == {"n_embd": 64}


def test_a_loss_of_nan_printed_twice_is_no_restart(imported: Any) -> None:
    run = imported(steps(2) + "iter 2: loss nan, time 9.00ms, mfu 1.00%\n" * 2)
    assert (len(run.steps), run.record.origin.restarts) == (3, 0)


def test_a_switch_is_no_number_of_tokens(imported: Any) -> None:
    assert imported("Overriding: tokens_per_iter = True\n" + steps(2)).tokens_per_iter is None


def test_old_logs_without_mfu_and_bare_ones_without_time(imported: Any, losses: Any) -> None:
    assert losses(imported("iter 0: loss 4.2000, time 12.00ms\niter 1: loss 4.1000, time 12.00ms\n")) == {
        0: 4.2,
        1: 4.1,
    }
    bare = imported("iter 0: loss 4.2000\niter 1: loss 4.1000\n")
    assert losses(bare) == {0: 4.2, 1: 4.1}
    assert bare.record.origin.timed_iterations == 0


def test_losses_that_are_no_numbers_are_kept(imported: Any) -> None:
    run = imported(
        BODY + "iter 3: loss nan, time 9340.00ms, mfu 15.40%\nstep 4: train loss nan, val loss inf\n"
    )
    assert math.isnan(run.steps[-1].loss)
    assert math.isinf(run.evals[-1].val_loss)


def test_after_a_restart_the_later_telling_counts(imported: Any, losses: Any) -> None:
    again = "Resuming training from out\nstep 5: train loss 3.0000, val loss 3.1000\n"
    log = steps(8) + "step 8: train loss 1.0000, val loss 1.1000\n" + again + steps(5, start=5, loss=3.0)
    run = imported(log)
    assert losses(run) == dict.fromkeys(range(5), 5.0) | dict.fromkeys(range(5, 10), 3.0)
    assert [entry.iteration for entry in run.evals] == [5]
    assert (run.record.resumed_at_iterations, run.record.origin.restarts) == ((5,), 1)
    assert run.steps[5].overhead == "start"


def test_a_restart_that_goes_back_far_reaches_what_is_on_disk(imported: Any) -> None:
    run = imported(steps(10_000) + steps(3, start=4_100, loss=1.0))
    assert [step.iteration for step in run.steps] == list(range(4_103))
    assert [step.loss for step in run.steps[4_098:]] == [5.0, 5.0, 1.0, 1.0, 1.0]
    assert run.record.origin.iterations == run.record.origin.timed_iterations == 4_103


def test_a_clean_resume_is_a_restart_that_drops_nothing(imported: Any) -> None:
    run = imported(steps(5) + "Resuming training from out\n" + steps(5, start=5))
    assert (run.record.resumed_at_iterations, len(run.steps)) == ((5,), 10)


def trainings(run: Any) -> tuple[int, int, tuple[int, ...]]:
    origin = run.record.origin
    return origin.trainings, origin.restarts, run.record.resumed_at_iterations


SECOND = HEAD.replace("batch_size = 8", "batch_size = 4").replace("524,288", "262,144")


def test_of_two_trainings_in_a_log_the_last_is_the_run(imported: Any, losses: Any) -> None:
    first = "Overriding: n_layer = 6\n" + HEAD + steps(8) + "step 8: train loss 1.0, val loss 1.1000\n"
    second = SECOND + "step 0: train loss 3.0000, val loss 3.1000\n" + steps(3, loss=3.0)
    run = imported(first + second)
    assert losses(run) == dict.fromkeys(range(3), 3.0)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 3.1)]
    assert trainings(run) == (2, 0, ())
    assert (run.settings["batch_size"], run.tokens_per_iter) == (4, 262_144)
    assert "n_layer" not in run.settings, "it was the first one's"
    assert [note for note in run.record.notes if "2 training runs" in note and "8 logged" in note]
    assert not [note for note in run.record.notes if "was 8" in note]


def test_settings_given_beside_a_log_hold_for_every_training_in_it(imported: Any) -> None:
    run = imported(
        "n_layer = 5\n", HEAD + steps(3) + SECOND + steps(2), names=("c.py",), settings={"dropout": 0.1}
    )
    assert (run.settings["n_layer"], run.settings["dropout"], run.settings["batch_size"]) == (5, 0.1, 4)


def test_a_training_without_a_header_has_the_settings_of_the_one_before(imported: Any) -> None:
    run = imported(HEAD + steps(8) + steps(3))
    assert (trainings(run), run.settings["batch_size"], len(run.steps)) == ((2, 0, ()), 8, 3)


def test_a_training_whose_first_line_was_lost_is_another_one(imported: Any, losses: Any) -> None:
    run = imported(steps(8) + steps(3, start=1, loss=3.0))
    assert (trainings(run), losses(run)) == ((2, 0, ()), dict.fromkeys(range(1, 4), 3.0))


def test_a_resume_near_the_start_is_no_training_of_its_own(imported: Any, losses: Any) -> None:
    run = imported(steps(8) + "Resuming training from out\n" + steps(3, start=1, loss=3.0))
    assert (trainings(run), losses(run)) == ((1, 1, (1,)), {0: 5.0, 1: 3.0, 2: 3.0, 3: 3.0})


def test_a_training_that_never_began_leaves_the_one_before_as_it_is(imported: Any) -> None:
    log = "step 0: train loss 5.0, val loss 5.1000\n" + steps(8) + "step 8: train loss 1.0, val loss 1.1000\n"
    run = imported(log + SECOND + "step 0: train loss 9.0000, val loss 9.1000\n")
    assert [entry.val_loss for entry in run.evals] == [5.1, 1.1]
    assert (len(run.steps), trainings(run)[0]) == (8, 1)
    assert run.settings == {}, "those behind the last iteration are of none"
    assert any("iteration 0" in note for note in run.record.notes)


def test_of_two_trainings_with_evaluations_alone_the_last_counts(imported: Any) -> None:
    evals = "".join(f"step {at}: train loss 1.0, val loss {9 - at / 100:.4f}\n" for at in (0, 100, 200))
    run = imported(evals + evals.replace("val loss 9.", "val loss 8."))
    assert [entry.val_loss for entry in run.evals] == [8.0, 8.0, 7.0]
    assert trainings(run) == (2, 0, ())


def test_evaluations_that_were_left_out_of_a_log_are_in_no_rate(imported: Any) -> None:
    slow = "".join(
        f"iter {at}: loss 5.0000, time {4000 if at % 50 == 0 else 100}.00ms, mfu 10.00%\n"
        for at in range(0, 500, 10)
    )
    seconds: Any = account_of(imported("Overriding: eval_interval = 50\n" + slow)).speed.iteration_seconds
    assert seconds.value == pytest.approx(0.1)


def test_more_iterations_than_planned_are_noted_and_not_a_part_of_the_plan(imported: Any) -> None:
    run = imported("Overriding: max_iters = 20\n" + steps(30))
    assert any("beyond" in note for note in run.record.notes)
    assert progress_fact(summarise(run), ENGLISH) == "30 iterations"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_not_finite_is_never_the_best_and_has_no_perplexity(imported: Any, value: str) -> None:
    losses = "step 0: train loss 5.0, val loss 5.1000\n" + steps(3)
    run = imported(losses + f"step 3: train loss {value}, val loss {value}\n")
    summary: Any = summarise(run)
    assert summary.best_val.loss == 5.1
    assert "perplexity" not in dict(loss_facts(run, summary, ENGLISH))["common.val-loss"]


def test_the_output_of_a_notebook_is_read(imported: Any, losses: Any) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["iter 9: loss 9.0000, time 1.00ms, mfu 1.00%\n"]},
        {
            "cell_type": "code",
            "source": ['!python train.py --device="cuda" --batch_size=8'],
            "outputs": [{"output_type": "stream", "text": [f"\x1b[1m{BODY}\x1b[0m"]}, {"data": {}}],
        },
    ]
    run = imported(json.dumps({"cells": cells}), names=("a.ipynb",))
    assert (losses(run), run.settings) == (STEPS, {"device": "cuda", "batch_size": 8})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [{"cell_type": "code"}]}'])
def test_a_damaged_notebook_is_refused(imported: Any, text: str) -> None:
    with pytest.raises(NanodynoError):
        imported(text, names=("a.ipynb",))


def test_a_run_that_goes_on_elsewhere_has_the_gpus_of_its_last_part(imported: Any) -> None:
    prompt = "$ torchrun --nproc_per_node={} train.py --batch_size=8\n"
    run = imported(prompt.format(4) + steps(5) + prompt.format(2) + steps(3, start=5))
    assert run.record.processes == 2
    assert any("was 4 up to iteration 4, and 2 after it" in note for note in run.record.notes)


def test_lines_printed_twice_are_one(imported: Any) -> None:
    twice = "".join(line + "\n" + line + "\n" for line in steps(5).splitlines())
    run = imported(twice)
    assert (len(run.steps), run.record.origin.restarts) == (5, 0)


def test_parts_of_a_log_are_joined_in_their_order(imported: Any, losses: Any) -> None:
    run = imported(steps(5, start=5, loss=2.0), HEAD + steps(6))
    assert losses(run) == dict.fromkeys(range(5), 5.0) | dict.fromkeys(range(5, 10), 2.0)
    assert [file.name for file in run.record.origin.files] == ["part1.log", "part0.log"]


def test_a_config_that_the_log_prints_is_read(imported: Any) -> None:
    config = """Overriding config with config/train_x.py:
# gradient_accumulation_steps = 5
wandb_log = False
batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8
weight_decay = 1e-1
out_dir = 'out' + '-x'
vocab = len(open('x').read())
"""
    run = imported(config + "Overriding: batch_size = 8\n" + BODY)
    assert run.settings == {
        "batch_size": 8,
        "block_size": 1024,
        "gradient_accumulation_steps": 40,
        "weight_decay": 0.1,
        "out_dir": "out-x",
    }
    assert run.tokens_per_iter == 8 * 1024 * 40


def test_the_command_in_the_prompt_is_read(imported: Any) -> None:
    prompt = "$ torchrun --nproc_per_node=4 train.py config/x.py --batch_size=8 --bias=True"
    run = imported(f"{prompt} 2>&1 | tee --append=a\n{BODY}")
    assert run.settings == {"batch_size": 8, "bias": True}
    assert run.record.processes == 4
    assert any("config/x.py" in note for note in run.record.notes)


def test_configs_given_beside_the_log_yield_to_it_and_to_the_user(imported: Any, tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text("n_layer = 6\nn_embd = 384\n")
    run = imported(
        "n_embd = 512\nbatch_size = 4\nlearning_rate = 1e-3\n",
        HEAD + BODY,
        names=("config.py",),
        config=str(tmp_path / "beside.toml"),
        settings={"learning_rate": 0.5},
    )
    known = {key: run.settings[key] for key in ("n_layer", "n_embd", "batch_size", "learning_rate")}
    assert known == {"n_layer": 6, "n_embd": 512, "batch_size": 8, "learning_rate": 0.5}
    assert "n_head" not in run.settings, "nanoGPT's default is not what the config says"


def test_a_setting_that_changes_at_a_restart_is_noted(imported: Any) -> None:
    run = imported(HEAD + steps(5) + "Overriding: batch_size = 16\n" + steps(3, start=5))
    assert run.settings["batch_size"] == 16
    assert run.record.notes[-1] == "batch_size was 8 up to iteration 4, and 16 after it"
    assert run.settings["block_size"] == 1024


def test_a_command_alone_is_no_run(imported: Any) -> None:
    with pytest.raises(NanodynoError, match="only settings"):
        imported("python train.py --batch_size=8\n")


def test_a_block_size_that_is_not_reported_follows_from_the_tokens(imported: Any) -> None:
    head = "Overriding: batch_size = 12\nOverriding: gradient_accumulation_steps = 40\n"
    reported = "tokens per iteration will be: 491,520\n"
    run = imported(head + reported + steps(2))
    assert run.settings["block_size"] == 1024
    assert "491,520 tokens per iteration are 12 x 1,024 x 40" in run.record.notes[0]
    assert "block_size" not in imported(head + steps(2)).settings
    assert "block_size" not in imported(head + reported.replace("520", "521") + steps(2)).settings


PRINTED_CONFIG = """Overriding config with config/train_gpt2.py:
# config for training GPT-2 (124M) down to very nice loss of ~2.85 on 1 node of 8X A100 40GB
# launch as the following (e.g. in a screen session) and wait ~5 days:
# $ torchrun --standalone --nproc_per_node=8 train.py config/train_gpt2.py --batch_size=4

# these make the total batch size be ~0.5M
# 12 batch size * 1024 block size * 5 gradaccum * 8 GPUs = 491,520
batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8

# this makes total number of tokens be 300B
max_iters = 600000
"""


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "> ", "2026-01-05 12:00:01 "])
def test_a_command_in_a_comment_is_none(imported: Any, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in (PRINTED_CONFIG + BODY).splitlines())
    run = imported(text)
    assert (run.record.processes, run.settings["batch_size"], run.record.notes) == (None, 12, ())
    assert run.settings["max_iters"] == 600_000


@pytest.mark.parametrize("prompt", ["root@box:~/nanoGPT# ", "[root@box nanoGPT]# ", "sh-5.1# ", "$ ", ""])
def test_a_command_behind_a_prompt_is_one(imported: Any, prompt: str) -> None:
    command = f"{prompt}torchrun --nproc_per_node=4 train.py --batch_size=8 # --n_layer=3\n"
    run = imported(command + BODY)
    assert (run.record.processes, run.settings) == (4, {"batch_size": 8})


def test_an_edited_training_script_beside_the_log_is_its_config(imported: Any) -> None:
    script = "import torch\nbatch_size = 4 * 2\nwarmup_iters = int(1e2)\nn_layer = 5\nconfig_keys = []\n"
    run = imported(script + "n_head = 3\n", BODY, names=("train.py",))
    assert run.settings == {"batch_size": 8, "n_layer": 5}


def test_losses_that_are_nan_to_the_end_are_all_recorded(imported: Any) -> None:
    lost = "".join(f"iter {at}: loss nan, time 100.00ms, mfu 10.00%\n" for at in range(110, 200))
    run = imported(steps(110) + lost + "step 200: train loss nan, val loss nan\n")
    assert len(run.steps) == 200
    assert [step.iteration for step in run.steps if math.isnan(step.loss)] == list(range(110, 200))
    assert [math.isnan(entry.val_loss) for entry in run.evals] == [True]


@pytest.mark.parametrize(("last", "done"), [(19, 20), (20, 20), (21, 22), (10, 11)])
def test_the_iteration_after_nanogpts_last_evaluation_is_not_counted(
    imported: Any, last: int, done: int
) -> None:
    run = imported("Overriding: max_iters = 20\n" + steps(last + 1))
    assert (run.iterations_done, account_of(run).iterations, len(run.steps)) == (done, done, last + 1)


def test_the_leaderboard_has_the_number_of_parameters_that_the_list_of_runs_has(imported: Any) -> None:
    run = imported(HEAD + BODY)
    account = with_found_shape(account_of(run))
    assert account.shape_found
    assert standing_of(account).parameters == summarise(run).counted_parameters == 123_590_000


def stamped(seconds_between: float) -> str:
    """Every tenth iteration is printed and took a second; the logger's clock stands before the line."""
    lines = []
    for number in range(60):
        minute, second = divmod(number * seconds_between, 60)
        hour, minute = divmod(int(minute), 60)
        time = f"2026-01-05 {10 + hour}:{minute:02d}:{second:06.3f}".replace(".", ",")
        lines.append(
            f"{time} - INFO - iter {10 * number}: loss 5.0, time {1000 + number % 3}.00ms, mfu 15.40%\n"
        )
    return "".join(lines)


def test_slow_iterations_between_the_printed_ones_show_in_the_timestamps(imported: Any) -> None:
    found = account_of(imported(stamped(14.0)))
    assert found.elapsed_excess == pytest.approx(0.4, abs=0.01)
    seconds: Any = found.speed.iteration_seconds
    assert (seconds.value, seconds.low) == (pytest.approx(1.001, abs=0.001), None)
    assert account_of(imported(stamped(10.0))).elapsed_excess is None


def test_lines_that_were_held_back_and_stamped_at_once_are_no_clock(imported: Any) -> None:
    lines = stamped(10.0).splitlines(keepends=True)
    late = [lines[min(59, number // 25 * 25 + 24)][:23] + line[23:] for number, line in enumerate(lines)]
    assert account_of(imported("".join(late))).elapsed_excess is None
    assert account_of(imported(stamped(0.0))).elapsed_excess is None
