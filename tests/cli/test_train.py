import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanodyno.messages.language import ENGLISH
from nanodyno.records.store import read_run

Nanodyno = Callable[..., Any]


def test_a_run_lands_in_its_folder_with_every_record(nanodyno: Nanodyno, tiny: list[str]) -> None:
    result = nanodyno(*tiny, "--name", "first")
    assert result.exit_code == 0, result.output
    run = read_run(Path("runs/first"))
    assert [step.iteration for step in run.steps] == [0, 1, 2, 3]
    assert [entry.iteration for entry in run.evals] == [0, 2, 4]
    assert run.finished
    kept = sorted(path.name for path in Path("runs/first/checkpoints").iterdir())
    assert kept == ["iter-00000002", "iter-00000004"]


def test_runs_without_a_name_are_numbered(nanodyno: Nanodyno, tiny: list[str]) -> None:
    for _ in range(2):
        assert nanodyno(*tiny).exit_code == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["demo-1", "demo-2"]


def iteration_line(output: str) -> str:
    (line,) = (line for line in output.splitlines() if line.startswith("iter 2/4"))
    return line


def test_a_plain_line_is_short_and_log_full_has_every_number(nanodyno: Nanodyno, tiny: list[str]) -> None:
    short = iteration_line(nanodyno(*tiny, "--log_interval=1").output)
    assert [word for word in ("loss", "lr", "tok/s", "FLOP/s", "iB", "ETA") if word not in short] == []
    assert len(short) <= 120
    line = iteration_line(nanodyno(*tiny, "--log_interval=1", "--log", "full").output)
    wanted = (
        "loss",
        "lr",
        "ms/iter",
        "ms/micro-batch",
        "tok/s",
        "FLOP/s",
        "nanoGPT",
        "peak",
        "ETA",
    )
    assert [word for word in wanted if word not in line] == []


def test_json_is_one_document_on_stdout_and_the_rest_is_on_stderr(
    nanodyno: Nanodyno, tiny: list[str]
) -> None:
    result = nanodyno(*tiny, "--json")
    document = json.loads(result.stdout)
    assert document["summary"]["iterations_done"] == 4
    assert document["summary"]["finished"] is True
    assert document["run"]["config"]["tokens_per_iter"] == 64
    assert len(document["evals"]) == 3
    assert "iter 1/4" in result.stderr


def test_nanogpt_lines_match_what_scripts_look_for(nanodyno: Nanodyno, tiny: list[str]) -> None:
    output = nanodyno(*tiny, "--log", "nanogpt", "--log_interval=1").output
    assert re.search(r"^tokens per iteration will be: 64$", output, re.M)
    assert re.search(r"^number of parameters: 0\.01M$", output, re.M)
    assert re.search(r"^step 0: train loss \d+\.\d{4}, val loss \d+\.\d{4}$", output, re.M)
    assert len(re.findall(r"^iter \d: loss \d+\.\d{4}, time \d+\.\d{2}ms, mfu -100\.00%$", output, re.M)) == 4


def test_resume_goes_on_with_the_same_run(nanodyno: Nanodyno, tiny: list[str]) -> None:
    whole = nanodyno(*tiny, "--name", "whole", "--max_iters=6", "--lr_decay_iters=6")
    assert whole.exit_code == 0, whole.output
    assert nanodyno(*tiny, "--name", "cut", "--lr_decay_iters=6").exit_code == 0
    result = nanodyno(*tiny, "--name", "cut", "--max_iters=6", "--lr_decay_iters=6", "--init_from=resume")
    assert result.exit_code == 0, result.output
    cut, uncut = read_run(Path("runs/cut")), read_run(Path("runs/whole"))
    assert [step.loss for step in cut.steps] == pytest.approx([step.loss for step in uncut.steps], abs=1e-6)
    assert cut.record.resumed_at_iterations == (4,)


def test_nanogpt_config_and_data_train_as_they_are(nanodyno: Nanodyno, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "letters"
    folder.mkdir(parents=True)
    for split in ("train", "val"):
        np.arange(3000, dtype=np.uint16).__mod__(60).tofile(folder / f"{split}.bin")
    (tmp_path / "mine.py").write_text(
        "dataset = 'letters'\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 8 * 2\nbatch_size = 2\n"
        "gradient_accumulation_steps = 2\nmax_iters = 3\neval_iters = 2\ncompile = False\ndevice = 'cpu'\n"
        "wandb_log = True\nschedule = 'constant'\nlr_decay_iters = 2\n"
    )
    result = nanodyno("train", "mine.py", "--vocab_size=60")
    assert result.exit_code == 0, result.output
    run = read_run(Path("runs/mine-1"))
    assert run.record.vocab_size == 60
    assert run.record.notes[:2] == (
        "accepted and ignored: wandb_log",
        ENGLISH.say_plural(
            "option.note.without-effect", 1, keys="lr_decay_iters", needs="schedule=cosine / linear / wsd"
        ),
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bach_size=8"], "did you mean batch_size"),
        (["--n_embd=18", "--n_head=4"], "does not divide"),
        (["--dataset=nothing-here"], "no dataset"),
        (["--device=cuda"], "no CUDA device"),
        (["--init_from=gpt2"], "not supported yet"),
        (["--init_from=resume"], "which run"),
        (["--name=a/b"], "plain name"),
        (["--name=a", "--out_dir=b"], "--name and --out_dir"),
        (["--gradient_accumulation_steps=1", "--tokens_per_iter=100"], "tokens_per_iter"),
    ],
)
def test_a_mistake_is_reported_with_exit_code_2(
    nanodyno: Nanodyno, tiny: list[str], arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = nanodyno(*tiny, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not list(Path().glob("runs/*"))


def test_all_faults_are_reported_at_once(nanodyno: Nanodyno, tiny: list[str]) -> None:
    stderr = nanodyno(*tiny, "--n_layer=0", "--dropout=2", "--lerning_rate=1").stderr
    assert [key for key in ("n_layer", "dropout", "lerning_rate") if key not in stderr] == []


def test_the_folder_of_another_run_is_left_alone(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    before = Path("runs/mine/steps.jsonl").read_bytes()
    result = nanodyno(*tiny, "--name=mine", "--learning_rate=1e-5")
    assert result.exit_code == 2
    assert "was started with other settings: learning_rate is 1e-05" in result.stderr
    assert Path("runs/mine/steps.jsonl").read_bytes() == before


def test_a_command_whose_run_has_ended_has_nothing_to_do(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    for command in ([*tiny, "--name=mine"], ["train", "--resume", "mine"]):
        result = nanodyno(*command)
        assert result.exit_code == 0
        assert "finished after 4 iterations" in " ".join(result.output.split())
    assert {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()} == before


def test_the_recipe_comes_first(nanodyno: Nanodyno) -> None:
    result = nanodyno("train", "--max_iters", "3", "demo")
    assert result.exit_code == 2
    assert "before" in result.stderr


def test_a_broken_loss_ends_with_exit_code_1_and_its_records(nanodyno: Nanodyno, tiny: list[str]) -> None:
    result = nanodyno(*tiny, "--name=bad", "--learning_rate=1e30", "--grad_clip=0", "--warmup_iters=0")
    assert result.exit_code == 1
    assert "the loss became" in result.stderr
    assert len(read_run(Path("runs/bad")).steps) >= 1


def test_every_key_is_listed_with_its_meaning(nanodyno: Nanodyno) -> None:
    output = nanodyno("train", "--keys").output
    assert "--gradient_accumulation_steps" in output
    assert "--tokens_per_iter" in output


def test_a_name_and_its_own_folder_are_one(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=a", "--out_dir=runs/a").exit_code == 0


def test_an_empty_name_is_refused(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=").exit_code == 2


def test_a_start_that_fails_leaves_its_name_free(nanodyno: Nanodyno, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "letters"
    folder.mkdir(parents=True)
    for split in ("train", "val"):
        (np.arange(3000, dtype=np.uint16) % 60).tofile(folder / f"{split}.bin")
    (tmp_path / "mine.py").write_text(
        "dataset = 'letters'\nout_dir = 'out'\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 16\n"
        "batch_size = 2\ngradient_accumulation_steps = 1\nmax_iters = 1\neval_iters = 2\ncompile = False\n"
    )
    wrong = nanodyno("train", "mine.py", "--vocab_size=50", "--device=cpu")
    assert wrong.exit_code == 2
    assert "outside vocab_size=50" in wrong.stderr
    assert not Path("out").exists()
    assert nanodyno("train", "mine.py", "--vocab_size=60", "--device=cpu").exit_code == 0
    assert "out" in nanodyno("runs").output


@pytest.mark.parametrize(
    ("change", "words"),
    [("--seed=7", "seed is 7"), ("--tokenizer=gpt2", "tokenizer is gpt2"), ("--n_layer=2", "n_layer is 2")],
)
def test_a_resume_refuses_another_stream_or_model(
    nanodyno: Nanodyno, tiny: list[str], change: str, words: str, gpt2_files: Path
) -> None:
    del gpt2_files
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    result = nanodyno(*tiny, "--name=mine", "--init_from=resume", change)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_resume_notes_what_it_does_differently(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    result = nanodyno(*tiny, "--name=mine", "--init_from=resume", "--max_iters=6", "--learning_rate=1e-4")
    assert result.exit_code == 0
    notes = read_run(Path("runs/mine")).record.notes
    assert "from iteration 4 on: max_iters is 6, and was 4" in notes
    assert "from iteration 4 on: learning_rate is 0.0001, and was 0.002" in notes


def test_a_resume_blames_nobody_for_what_the_run_had_derived(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine", "--schedule=constant").exit_code == 0
    assert nanodyno("train", "--resume=mine", "--max_iters=6").exit_code == 0
    assert not [note for note in read_run(Path("runs/mine")).record.notes if "lr_decay_iters" in note]


def test_a_warm_up_longer_than_the_run_is_noted(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert "never reaches 2.00e-03" in " ".join(nanodyno(*tiny).output.split())


def test_a_learning_rate_that_ends_early_is_noted_with_what_the_batch_makes_of_it(
    nanodyno: Nanodyno, tiny: list[str]
) -> None:
    early = [*tiny, "--warmup_iters=1", "--lr_decay_iters=2", "--min_lr=1e-4"]
    assert "stays at 1.00e-04 from iteration 2 on" in " ".join(nanodyno(*early).output.split())
    grown = " ".join(nanodyno(*early, "--batch_ramp=noise", "--name=grown").output.split())
    assert "stays at 1.00e-04, times the root of the batch's growth, from iteration 2 on" in grown


def test_a_look_at_a_saved_run_is_in_the_document(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    looked = nanodyno(
        *tiny, "--name=mine", "--init_from=resume", "--eval_only=True", "--eval_tokens=128", "--json"
    )
    (entry,) = json.loads(looked.stdout)["evals"]
    assert (entry["iteration"], entry["val_tokens"]) == (4, 128)


def test_more_memory_than_there_is_ends_with_advice(nanodyno: Nanodyno, tiny: list[str]) -> None:
    refused = nanodyno(*tiny, "--vocab_size=99999999999999")
    assert refused.exit_code == 2
    assert "GiB (predicted), and this machine has" in refused.stderr
    assert "--force tries it all the same" in refused.stderr
    tried = nanodyno(*tiny, "--vocab_size=99999999999999", "--force")
    assert tried.exit_code == 1
    assert "out of memory" in tried.stderr
    assert "--batch_size" in tried.stderr


def test_training_goes_on_when_its_reader_goes_away(tmp_path: Path, tiny: list[str]) -> None:
    command = [sys.executable, "-m", "nanodyno", *tiny, "--name=piped", "--log_interval=1"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, cwd=tmp_path, env=one_thread, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(timeout=600) == 0
    assert read_run(tmp_path / "runs" / "piped").finished
