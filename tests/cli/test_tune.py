"""The command on a real CPU, with the tiniest of models; what it refuses before it measures."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.messages.language import ENGLISH

Run = Callable[..., Any]
TRAIN = ENGLISH.say("tune.next.train-command", command="nanodyno ")
TINY = [
    "--n_layer=1", "--n_head=1", "--n_embd=16", "--block_size=16", "--batch_size=2", "--device=cpu",
    "--tokens_per_iter=64", "--compile=False", "--kernels=auto", "--threads=1", "--eval_tokens=64",
]  # fmt: skip


def test_an_end_by_sigterm_leaves_a_document_of_what_was_measured_as_ctrl_c_does(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nanodyno", "tune", "demo", *TINY, "--budget=1m", "--json"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "2 x 2" in line and "tok/s" in line:
                break
        os.kill(process.pid, signal.SIGTERM)
        stdout, stderr = process.communicate()
    assert process.returncode == 130, stderr
    document = json.loads(stdout)
    assert document["interrupted"] is True
    assert [each["name"] for each in document["candidates"] if each["measured"]] == ["2 x 2"]
    (kept,) = (tmp_path / "cache" / "nanodyno" / "tune").iterdir()
    assert [json.loads(line).get("name") for line in kept.read_text().splitlines()] == [None, "2 x 2"]


@pytest.fixture
def faked(tunings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with a stopwatch that is made up: 4 is the fastest micro-batch."""

    def answer(config: Any) -> Any:
        return tunings.repetition(config, 4 / config.batch_size, config.batch_size * 2**20)

    stopwatch = tunings.stopwatch(answer)
    bench = stopwatch.bench(tmp_path / "cache", tunings.host_place())
    monkeypatch.setattr("nanodyno.cli.tune.bench_for", lambda _: bench)
    return stopwatch


def test_what_was_written_is_what_train_takes(faked: Any, nanodyno: Run) -> None:
    done = nanodyno("tune", "demo", *TINY, "--budget=1m", "--write=tuned.toml")
    assert done.exit_code == 0, done.output
    assert "4 x 1" in done.stdout
    assert f"{TRAIN}train tuned.toml" in done.stdout
    assert len(faked.asked) > 3
    settings = tomllib.loads(Path("tuned.toml").read_text())
    assert (settings["batch_size"], settings["tokens_per_iter"]) == (4, 64)
    trained = nanodyno("train", "tuned.toml", "--max_iters=2", "--warmup_iters=1", "--json")
    assert trained.exit_code == 0, trained.output
    config = json.loads(trained.stdout)["run"]["config"]
    assert (config["batch_size"], config["tokens_per_iter"], config["threads"]) == (4, 64, 1)


def test_the_command_that_is_reported_trains_the_same_tokens_per_iteration(faked: Any, nanodyno: Run) -> None:
    """The recipe has an accumulation of 2: with another micro-batch alone it would train other tokens."""
    words = [word for word in TINY if "tokens_per_iter" not in word]
    done = nanodyno("tune", "demo", *words, "--gradient_accumulation_steps=2", "--budget=1m")
    assert done.exit_code == 0, done.output
    assert faked.asked
    reported = done.stdout.split(TRAIN)[1].splitlines()[0].split()
    trained = nanodyno(*reported, "--max_iters=1", "--warmup_iters=1", "--json")
    assert trained.exit_code == 0, trained.output
    config = json.loads(trained.stdout)["run"]["config"]
    assert (config["batch_size"], config["tokens_per_iter"]) == (4, 64)


def test_a_file_that_cannot_be_written_costs_nothing_that_was_measured(
    faked: Any, nanodyno: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    done = nanodyno("tune", "demo", *TINY, "--budget=1m", "--write=tuned.toml")
    assert done.exit_code == 2
    assert "4 x 1" in done.stdout
    assert "tuned.toml cannot be written: No space left on device" in done.stderr
    assert faked.asked


def test_training_tunes_first_and_the_second_time_knows(faked: Any, nanodyno: Run) -> None:
    command = ("train", "demo", *TINY, "--max_iters=2", "--warmup_iters=1", "--tune", "--json")
    first = nanodyno(*command)
    assert first.exit_code == 0, first.output
    assert "no tuning of this config is known on this machine: first a search" in first.stderr
    asked = len(faked.asked)
    second = nanodyno(*command)
    assert "tuned for this machine by an earlier search: --batch_size=4" in second.stderr
    assert len(faked.asked) == asked
    for done in (first, second):
        assert json.loads(done.stdout)["run"]["config"]["batch_size"] == 4


def test_a_search_that_finds_nothing_to_train_with_fails(faked: Any, nanodyno: Run, tunings: Any) -> None:
    faked.answer = lambda config: tunings.failed(config, "died")
    done = nanodyno("tune", "demo", *TINY)
    assert done.exit_code == 1
    assert ENGLISH.say("tune.chosen.none-measured") in done.stdout
    trained = nanodyno("train", "demo", *TINY, "--tune")
    assert trained.exit_code == 1
    assert "tune found nothing to train with" in trained.stderr


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--batch_size=2", "demo"], "before --batch_size=2"),
        (["demo", "--budget=off"], "--budget=off"),
        (["demo", "--budget=soon"], "not a duration"),
        (["demo", "--memory-limit=much"], "--memory-limit=much"),
        (["demo", "--write=tuned.py"], "not a .toml file"),
        (["demo", "--write=nowhere/tuned.toml"], "no such folder"),
        (["demo", "--batch_sise=2"], "did you mean batch_size?"),
        (["demo", "--device=cuda:9"], "device=cuda:9"),
    ],
)
def test_mistakes_are_reported_before_anything_is_measured(
    words: list[str], reported: str, nanodyno: Run
) -> None:
    done = nanodyno("tune", *words)
    assert done.exit_code == 2
    assert reported in done.stderr


def test_a_budget_too_short_is_refused_with_one_that_is_not(nanodyno: Run) -> None:
    """On the real bench: a process cannot even start in that time."""
    done = nanodyno("tune", "demo", *TINY, "--budget=0.5s")
    assert done.exit_code == 2
    assert "too short for two candidates" in done.stderr
    assert "give --budget" in done.stderr


def test_a_run_that_goes_on_is_not_tuned(nanodyno: Run, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=one").exit_code == 0
    done = nanodyno("train", "--resume", "one", "--tune")
    assert done.exit_code == 2
    assert "--resume and --tune" in done.stderr
