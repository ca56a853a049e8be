"""How a run is stopped and gone on with from the command line, with real signals to a real process."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.cli.options import seconds_of, time_of
from nanodyno.errors import NanodynoError
from nanodyno.records.store import read_history, read_run
from nanodyno.records.types import SaveRecord

Nanodyno = Callable[..., Any]
LONG = ["--max_iters=100000", "--lr_decay_iters=100000", "--eval_interval=50000"]


@pytest.fixture
def started(tmp_path: Path, tiny: list[str]) -> Callable[..., "subprocess.Popen[str]"]:
    """A run of its own process that has begun to train."""

    def start(*arguments: str, file: str = "steps.jsonl") -> "subprocess.Popen[str]":
        child = subprocess.Popen(
            [sys.executable, "-m", "nanodyno", *tiny, *LONG, "--name=long", *arguments],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        records = tmp_path / "runs" / "long" / file
        deadline = time.monotonic() + 300
        while not (records.exists() and records.stat().st_size) and time.monotonic() < deadline:
            assert child.poll() is None, child.communicate()[0]
            time.sleep(0.02)
        return child

    return start


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 0, "terminated"),
    ],
)
def test_a_signal_finishes_the_iteration_saves_and_ends(
    started: Callable[..., "subprocess.Popen[str]"],
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    reason: str,
) -> None:
    child = started()
    child.send_signal(number)
    output = child.communicate(timeout=600)[0]
    assert child.returncode == code, output
    assert "the same command resumes" in output
    run = read_run(tmp_path / "runs" / "long")
    assert run.stop is not None
    assert run.stop.reason == reason
    saves = [entry for entry in run.history if isinstance(entry, SaveRecord)]
    assert [(save.iteration, save.reason) for save in saves] == [(run.iterations_done, "stop")]


def test_a_second_ctrl_c_stops_at_once(
    started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    # An iteration of this takes minutes.
    child = started("--gradient_accumulation_steps=1000000", file="evals.jsonl")
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    output = child.communicate(timeout=600)[0]
    assert child.returncode == 130, output
    assert "the records are in" in output
    assert not read_run(tmp_path / "runs" / "long").running


def test_two_commands_never_train_one_run(
    started: Callable[..., "subprocess.Popen[str]"], nanodyno: Nanodyno, tiny: list[str]
) -> None:
    child = started()
    try:
        result = nanodyno(*tiny, *LONG, "--name=long")
        assert result.exit_code == 2
        assert f"is being written by process {child.pid}" in result.stderr
        assert "running" in nanodyno("runs").output
    finally:
        child.kill()
        child.communicate()
    assert "died" in nanodyno("runs").output


def test_the_same_command_goes_on_with_a_run_that_did_not_end(nanodyno: Nanodyno, tiny: list[str]) -> None:
    whole = nanodyno(*tiny, "--name=whole", "--max_iters=6")
    assert whole.exit_code == 0, whole.output
    for _ in range(5):  # each process may do one iteration
        result = nanodyno(*tiny, "--max_iters=6", "--max-hours=0.0000001")
        assert result.exit_code == 0, result.output
    assert [path.name for path in Path("runs").iterdir() if "demo" in path.name] == ["demo-1"]
    nanodyno(*tiny, "--max_iters=6")
    run = read_run(Path("runs/demo-1"))
    assert run.finished
    assert [step.loss for step in run.steps] == [step.loss for step in read_run(Path("runs/whole")).steps]
    assert nanodyno(*tiny, "--max_iters=6").exit_code == 0
    assert read_run(Path("runs/demo-2")).finished


def test_resume_by_name_needs_no_recipe_and_takes_changes(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    result = nanodyno("train", "--resume", "mine", "--max_iters=6", "--batch_size=1")
    assert result.exit_code == 0, result.output
    run = read_run(Path("runs/mine"))
    assert [step.iteration for step in run.steps] == list(range(6))
    assert (run.own.config.tokens_per_iter, run.own.config.gradient_accumulation_steps) == (64, 4)
    assert "from iteration 4 on: batch_size is 1, and was 2" in run.record.notes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--resume", "nobody"], "no run 'nobody'"),
        (["train", "--resume", "mine", "--name=other"], "--resume and --name"),
        (["train", "--resume", "mine", "--n_embd=32"], "n_embd is 32, and was 16"),
        (["train", "--resume", "mine", "--out_dir=x"], "--resume and --out_dir"),
        (["train", "demo", "--autosave=often"], "not a duration"),
        (["train", "demo", "--stop-at=25:00"], "not a time"),
        (["train", "demo", "--stop-at=2001-01-01T00:00"], "in the past"),
        (["train"], "recipe"),
    ],
)
def test_a_mistake_is_reported_and_leaves_everything_as_it_was(
    nanodyno: Nanodyno, tiny: list[str], arguments: list[str], words: str
) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    result = nanodyno(*arguments)
    assert words in result.output
    assert {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()} == before
    assert result.exit_code == 2


def test_the_same_name_with_other_settings_shows_the_difference(nanodyno: Nanodyno, tiny: list[str]) -> None:
    nanodyno(*tiny, "--name=mine", "--max-hours=0")
    result = nanodyno(*tiny, "--name=mine", "--learning_rate=1e-4")
    assert result.exit_code == 2
    assert "learning_rate is 0.0001, and was 0.002" in result.stderr


def test_a_diverged_run_is_not_gone_on_with_by_the_same_command(nanodyno: Nanodyno, tiny: list[str]) -> None:
    bad = ["--learning_rate=1e30", "--grad_clip=0", "--warmup_iters=0"]
    assert nanodyno(*tiny, "--name=bad", *bad).exit_code == 1
    result = nanodyno(*tiny, "--name=bad", *bad)
    assert result.exit_code == 2
    assert "--resume" in result.stderr


def test_a_damaged_checkpoint_is_passed_over_with_exit_code_0(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    Path("runs/mine/checkpoints/iter-00000004/model.safetensors").write_bytes(b"cut")
    result = nanodyno("train", "--resume", "mine", "--max_iters=6")
    assert result.exit_code == 0, result.output
    assert "has changed since it was saved; resuming from iteration 2" in " ".join(result.output.split())
    assert read_run(Path("runs/mine")).finished


def test_a_shard_changed_since_the_run_began_is_refused(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine").exit_code == 0
    shard = Path("data/python-bytes/train.bin")
    content = bytearray(shard.read_bytes())
    content[1000] ^= 1
    shard.write_bytes(content)
    result = nanodyno("train", "--resume", "mine", "--max_iters=6")
    assert result.exit_code == 2
    assert "has changed since" in result.stderr


def test_autosave_saves_between_evaluations(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=mine", "--eval_interval=100", "--autosave=0.000001s").exit_code == 0
    saves = [entry for entry in read_history(Path("runs/mine")) if isinstance(entry, SaveRecord)]
    assert [(save.iteration, save.reason) for save in saves] == [
        (1, "autosave"),
        (2, "autosave"),
        (3, "autosave"),
        (4, "evaluation"),
    ]


def detach(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "nanodyno", *command, "--detach"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_detached_run_trains_on_its_own(tmp_path: Path, tiny: list[str]) -> None:
    done = detach(tmp_path, *tiny, "--log_interval=1")
    assert done.returncode == 0, done.stderr
    assert "demo-1 is training in the background, process" in done.stdout
    deadline = time.monotonic() + 300
    while not read_run(tmp_path / "runs" / "demo-1").finished and time.monotonic() < deadline:
        time.sleep(0.05)
    assert read_run(tmp_path / "runs" / "demo-1").finished
    assert "iter 4/4" in (tmp_path / "runs" / "demo-1" / "log.txt").read_text()
    again = detach(tmp_path, *tiny, "--log_interval=1", "--name=demo-1")
    assert (again.returncode, "in the background" in again.stdout) == (0, False)
    assert "finished after 4 iterations" in again.stdout


def test_a_detached_run_that_cannot_start_says_why(tmp_path: Path, tiny: list[str]) -> None:
    done = detach(tmp_path, *tiny, "--dataset=nothing-here")
    assert done.returncode == 2
    assert "no dataset 'nothing-here'" in done.stderr
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_closing_the_terminal_saves_and_stops(tmp_path: Path, tiny: list[str]) -> None:
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.environ["OMP_NUM_THREADS"] = "1"
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
        os.execv(sys.executable, [sys.executable, "-m", "nanodyno", *tiny, *LONG, "--name=long"])
    steps = tmp_path / "runs" / "long" / "steps.jsonl"
    deadline = time.monotonic() + 300
    while not (steps.exists() and steps.stat().st_size > 5000) and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 4096)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    run = read_run(tmp_path / "runs" / "long")
    assert run.stop is not None
    assert run.stop.reason == "terminated"
    saves = [entry.iteration for entry in run.history if isinstance(entry, SaveRecord)]
    assert saves == [run.iterations_done]


def test_durations_and_times_are_read_as_people_write_them() -> None:
    assert [seconds_of(text) for text in ("90s", "15m", "1.5h", "2d", "off")] == [
        90,
        900,
        5400,
        172_800,
        None,
    ]
    for text in ("15", "m", "-1m", "0s", "1e3s"):
        with pytest.raises(NanodynoError):
            seconds_of(text)
    now = time.time()
    assert now < time_of("07:30") <= now + 86_400
    assert time_of("2099-01-01T00:00") > now
