"""The command with made-up trainings, and in earnest on a CPU with the tiniest of models."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from nanodyno.experiments.judge import PACE_ITERATIONS, JudgeBench
from nanodyno.experiments.short_training import ShortTraining, Trained
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.probe.process import Failure
from nanodyno.records.judging import TrainingLine, VerdictLine, verdicts
from tunings import build_host_place

Run = Callable[..., Any]
BASE = """
n_layer = 1
n_head = 1
n_embd = 16
block_size = 16
batch_size = 4
tokens_per_iter = 64
max_iters = 1000
lr_decay_iters = 1000
learning_rate = 1e-3
eval_tokens = 1024
device = "cpu"
threads = 1
compile = false
dataset = "python"
tokenizer = "bytes"
"""
NOISE = (0.0, 0.01, -0.01, 0.005, -0.005, 0.002, 0.008, -0.008, 0.0, 0.01)
"""Of the loss by seed, so that the noise floor is 0.014."""
SPEED = 64_000.0
"""tokens/s: a minute is 60,000 iterations."""
RATE = 1e-3


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "base.toml"
    path.write_text(BASE)
    return path


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> list[ShortTraining]:
    """Each percent of the learning rate above the base's lowers the loss by 0.001. A weight decay of 9 fails,
    and one of 0.5 is interrupted at its second pair."""
    made: list[ShortTraining] = []

    def train(request: ShortTraining, watch: Any) -> Trained | Failure:
        config = request.config
        pair = config.seed - 1337
        if config.weight_decay == 0.5 and pair == 1 and config.max_iters > PACE_ITERATIONS:
            raise KeyboardInterrupt
        made.append(request)
        watch(None, config.max_iters // 2)
        if config.weight_decay == 9.0:
            return Failure(reason="error", words="the loss became NaN")
        loss = 4.0 + NOISE[pair] - 0.1 * (config.learning_rate / RATE - 1)
        return Trained(val_loss=loss, training_seconds=1.0, tokens_per_second=SPEED, train_loss=loss)

    clock = itertools.count().__next__
    bench = JudgeBench(look=lambda *_: build_host_place(), train=train, clock=lambda: float(clock()))
    monkeypatch.setattr("nanodyno.cli.judge.bench", lambda: bench)
    return made


def said(output: str) -> str:
    return " ".join(output.split())


def test_a_kept_change_on_a_page_with_the_command_that_builds_on_it(faked: Any, nanodyno: Run) -> None:
    page = nanodyno("judge", "base.toml", "learning_rate=3e-3", "--minutes", "0.05")
    assert page.exit_code == 0, page.output
    reported = said(page.stdout)
    assert (
        ENGLISH.say("judge.verdict.keep-loss", name="learning_rate=3e-3", size="0.2000", interval="")
        .partition("(")[0]
        .strip()
        in reported
    )
    assert "nanodyno judge base.toml,learning_rate=3e-3 CANDIDATE --minutes 0.05" in reported
    assert len(faked) == 5  # the speed of the base, three of the base, one of the candidate
    french = nanodyno("judge", "base.toml", "learning_rate=3e-3", "--minutes", "0.05", "--lang", "fr")
    assert LANGUAGES["fr"].say("judge.column.pairs") in french.stdout
    assert len(faked) == 5


KEYS = {
    "base", "n_layer", "metric", "equal", "minutes", "false_keep", "noise_floor", "target", "candidates",
    "cost_seconds", "trainings_reused", "interrupted", "next",
}  # fmt: skip
CANDIDATE_KEYS = {
    "name", "verdict", "reason", "effect", "pairs", "cost_seconds", "failure", "stopped_at_iteration",
}  # fmt: skip


@pytest.mark.usefixtures("faked")
def test_the_document_of_a_program(nanodyno: Run) -> None:
    done = nanodyno("judge", "base.toml", "learning_rate=3e-3", "weight_decay=9", "--minutes=0.05", "--json")
    document = json.loads(done.stdout)
    assert document.keys() == KEYS
    kept, failed = document["candidates"]
    assert kept.keys() == failed.keys() == CANDIDATE_KEYS
    assert kept["effect"].keys() == {"value", "low", "high", "n"}
    assert (kept["verdict"], kept["reason"]) == ("keep", "shown")
    assert kept["effect"]["value"] == pytest.approx(0.2)
    assert (failed["verdict"], failed["failure"], failed["effect"]) == (
        "discard",
        "the loss became NaN",
        None,
    )
    assert document["next"] == "nanodyno judge base.toml,learning_rate=3e-3 CANDIDATE --minutes 0.05"


@pytest.mark.usefixtures("faked")
@pytest.mark.parametrize(
    ("change", "code"), [("learning_rate=3e-3", 0), ("learning_rate=5e-4", 3), ("learning_rate=1.2e-3", 4)]
)
def test_the_exit_code_is_the_verdict(change: str, code: int, nanodyno: Run) -> None:
    """0.02 is 1.4 times the noise floor: two pairs do not tell."""
    command = ("judge", "base.toml", change, "--minutes", "0.05", "--pairs", "2")
    assert nanodyno(*command, "--exit-code").exit_code == code
    assert nanodyno(*command).exit_code == 0


def test_a_verdict_without_answer_names_the_command_for_more_pairs(faked: Any, nanodyno: Run) -> None:
    done = nanodyno(
        "judge", "base.toml", "learning_rate=1.2e-3", "--minutes", "0.05", "--pairs", "2", "--json"
    )
    document = json.loads(done.stdout)
    assert document["candidates"][0]["reason"] == "pairs-spent"
    more = document["next"].removeprefix("nanodyno ")
    assert more == "judge base.toml learning_rate=1.2e-3 --minutes 0.05 --pairs 4"
    made = len(faked)
    assert nanodyno(*more.split()).exit_code == 0
    assert 0 < len(faked) - made <= 4


@pytest.mark.usefixtures("faked")
def test_the_history_shows_what_was_kept(nanodyno: Run) -> None:
    empty = nanodyno("judge", "--history")
    assert (empty.exit_code, json.loads(nanodyno("judge", "--history", "--json").stdout)) == (0, [])
    for change in ("learning_rate=3e-3", "learning_rate=5e-4"):
        nanodyno("judge", "base.toml", change, "--minutes", "0.05")
    nanodyno("judge", "base.toml,learning_rate=3e-3", "learning_rate=6e-3", "--minutes", "0.05")
    page = said(nanodyno("judge", "--history").stdout)
    assert ENGLISH.say_plural("judge.history.count", 3, kept="2") in page
    assert "+0.2000 +0.2000" in page
    assert "+0.3000 +0.5000" in page
    lines = json.loads(nanodyno("judge", "--history", "--json").stdout)
    assert [each["call"] for each in lines] == ["keep", "discard", "keep"]
    assert lines[0]["changes"] == {"learning_rate": 3e-3, "min_lr": pytest.approx(3e-4)}


def test_the_same_question_at_several_depths(faked: Any, nanodyno: Run) -> None:
    command = ("judge", "base.toml", "learning_rate=3e-3", "--minutes", "0.05", "--equal", "tokens")
    document = json.loads(nanodyno(*command, "--sizes", "1,2", "--json").stdout)
    assert [each["n_layer"] for each in document["sizes"]] == [1, 2]
    assert {each["candidates"][0]["verdict"] for each in document["sizes"]} == {"keep"}
    assert {request.config.n_layer for request in faked} == {1, 2}
    page = said(nanodyno(*command, "--sizes", "1,2").stdout)
    assert ENGLISH.say("judge.at-depth", depth="2") in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["base.toml"], "a base and a candidate"),
        ([], "a base and a candidate"),
        (["--minutes", "0.05"], "a base and a candidate"),
        (["base.toml", "learning_rate=2e-3", "learning_rate=2e-3"], "named twice"),
        (["base.toml", "base.toml"], "named twice"),
        (["base.toml", "learning_rate=1e-3"], "is the base itself"),
        (["base.toml", "learning_rte=2e-3"], "learning_rate"),
        (["base.toml", "learning_rate=fast"], "learning_rate"),
        (["base.toml", "nowhere.toml"], "nowhere.toml"),
        (["base.toml", "tokenizer=gpt2"], "do not compare"),
        (["base.toml", "learning_rate=auto"], "learning_rate=auto"),
        (["base.toml", "learning_rate=2e-3", "--sizes", "x"], "--sizes"),
        (["base.toml", "learning_rate=2e-3", "--sizes", "0,2"], "--sizes"),
        (["base.toml", "learning_rate=2e-3", "--minutes", "0"], "--minutes"),
        (["base.toml", "learning_rate=2e-3", "--pairs", "1"], "--pairs"),
        (["base.toml", "learning_rate=2e-3", "--metric", "bpb"], "--metric"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_a_training(
    arguments: list[str], words: str, faked: Any, nanodyno: Run
) -> None:
    refused = nanodyno("judge", "--json", *arguments)
    assert (refused.exit_code, faked) == (2, [])
    assert words in said(refused.output)


@pytest.mark.usefixtures("faked")
def test_too_few_minutes_name_enough(nanodyno: Run) -> None:
    command = ("judge", "base.toml", "learning_rate=3e-3", "--tokens_per_iter=64000")
    refused = nanodyno(*command, "--minutes", "0.1")
    assert refused.exit_code == 2, refused.output
    assert "--minutes 0.1 are 6 iterations" in said(refused.output)
    enough = said(refused.output).partition("give --minutes ")[2].split()[0]
    assert nanodyno(*command, "--minutes", enough).exit_code == 0


@pytest.mark.usefixtures("faked")
def test_a_base_that_fails_is_an_error(nanodyno: Run) -> None:
    failed = nanodyno("judge", "base.toml,weight_decay=9", "learning_rate=3e-3", "--minutes", "0.05")
    assert failed.exit_code == 1
    assert "the loss became NaN" in said(failed.output)


@pytest.mark.usefixtures("faked")
def test_ctrl_c_shows_the_results_so_far(nanodyno: Run) -> None:
    """The better one is kept by its first pair, and the other one needs a second."""
    command = ("judge", "base.toml", "learning_rate=3e-3", "weight_decay=0.5,learning_rate=1.2e-3")
    stopped = nanodyno(*command, "--minutes", "0.05", "--json", "--exit-code")
    assert stopped.exit_code == 130
    document = json.loads(stopped.stdout)
    assert document["interrupted"]
    calls = [(each["verdict"], each["reason"]) for each in document["candidates"]]
    assert calls == [("keep", "shown"), ("undecided", "interrupted")]


def test_a_judgement_in_earnest(nanodyno: Run) -> None:
    """A rate of a thousandth learns nothing in half a second."""
    command = ("judge", "base.toml", "learning_rate=1e-6", "--minutes", "0.01", "--pairs", "2", "--json")
    first = json.loads(nanodyno(*command).stdout)
    assert first["candidates"][0]["verdict"] == "discard"
    assert first["noise_floor"]["sd"] > 0
    again = json.loads(nanodyno(*command).stdout)
    assert again["cost_seconds"] == 0.0
    assert again["trainings_reused"] >= 4
    assert again["candidates"][0]["effect"] == first["candidates"][0]["effect"]


def trained(cache: Path) -> list[TrainingLine]:
    (file,) = (cache / "nanodyno" / "judge").glob("*.jsonl")
    whole = [line for line in file.read_text().splitlines(keepends=True)[1:] if line.endswith("\n")]
    return [TrainingLine.model_validate_json(line) for line in whole if '"kind":"trained"' in line]


def verdict_of(cache: Path) -> VerdictLine:
    (found,) = verdicts(cache / "nanodyno" / "judge")
    return found


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_killed_in_mid_judgement_it_ends_with_the_same_losses_and_verdict(tmp_path: Path) -> None:
    """With the speeds of the first, so that a whole judgement has as many iterations."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "nanodyno", "judge", "base.toml", "learning_rate=1e-6"]
    command += ["--minutes", "0.02", "--pairs", "2", "--json"]

    def start(cache: Path) -> "subprocess.Popen[bytes]":
        environment = os.environ | {"XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE)

    parent = start(killed)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        list(killed.rglob("*.jsonl")) and len(trained(killed)) >= 4  # two speeds, two trainings
    ):
        assert parent.poll() is None
        time.sleep(0.02)
    children = psutil.Process(parent.pid).children(recursive=True)
    assert children
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert (len(gone), alive) == (len(children), [])
    (file,) = killed.rglob("*.jsonl")
    other = whole / file.relative_to(killed)
    other.parent.mkdir(parents=True)
    other.write_text("".join(file.read_text().splitlines(keepends=True)[:3]))
    for cache in (killed, whole):
        process = start(cache)
        process.communicate(timeout=300)
        assert process.returncode == 0
    losses = [[(each.config.seed, each.val_loss) for each in trained(cache)] for cache in (killed, whole)]
    assert losses[0] == losses[1]
    ends = [verdict_of(cache) for cache in (killed, whole)]
    assert len({(each.call, each.improvement, each.low, each.pairs) for each in ends}) == 1


@pytest.mark.skipif(os.name != "posix", reason="a shell")
def test_the_loop_of_the_docs_keeps_what_is_better(base: Path, tmp_path: Path) -> None:
    """As it is written, with shorter trainings. A change that cannot be read is left out."""
    page = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
    loop = page.rpartition("```sh\n")[2].partition("```")[0]
    assert "--minutes 5 " in loop
    base.rename(tmp_path / "start.toml").write_text(
        BASE.replace("learning_rate = 1e-3", "learning_rate = 1e-6")
    )
    (tmp_path / "ideas.txt").write_text(
        "learning_rate = 1e-3\nlearning_rate = 1e-7\nlearning_rate = \nweight_decay = 0.3\n"
    )
    command = tmp_path / "bin" / "nanodyno"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nanodyno "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", loop.replace("--minutes 5 ", "--minutes 0.02 --pairs 2 ")],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "learning_rate = 1e-3" in (tmp_path / "best.toml").read_text(), done.stderr
    assert [each.call for each in verdicts()] == ["keep", "discard", "discard"]
    assert "learning_rate=0.001" in done.stdout
