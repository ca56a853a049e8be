"""A disk that fills up, tears writes or fails: the run stops in order and ends well when there is room."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.store import Run, read_run
from nanodyno.records.types import StepRecord
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training


class Disk:
    """Takes so many bytes through os.write, in pieces; then it is full."""

    def __init__(self, room: int, most_at_once: int = 2**30) -> None:
        self.room = room
        self.written = 0
        self._most = most_at_once
        self._write = os.write

    def write(self, file: int, data: Any) -> int:
        size = min(len(data), self._most, self.room - self.written)
        if size <= 0 < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = self._write(file, memoryview(data)[:size])
        self.written += done
        return done


@pytest.fixture
def job(data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]) -> Callable[..., TrainingJob]:
    def build(name: str = "one", **changes: Any) -> TrainingJob:
        settings = config(n_layer=1, n_embd=16, batch_size=1, max_iters=7, eval_interval=3, **changes)
        return TrainingJob(settings, name, tmp_path / name, data_folder=data_folder)

    return build


def losses(run: Run) -> list[tuple[int, float]]:
    return [(step.iteration, step.loss) for step in run.own_steps] + [
        (entry.iteration, entry.val_loss) for entry in run.evals
    ]


@pytest.mark.usefixtures("_deterministic")
def test_wherever_the_disk_fills_up_the_run_stops_and_goes_on_to_the_bit_when_there_is_room(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = Disk(2**40)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", endless.write)
        run_training(job("whole"), lambda _: None)
    whole = read_run(job("whole").folder)
    for part in range(12):
        room = endless.written * part // 12
        ours = job(f"room-{part}")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", Disk(room).write)
            with pytest.raises(RunFailed) as caught:
                run_training(ours, lambda _: None)
        assert caught.value.exit_code == 1
        assert "full" in caught.value.message or "No space left" in caught.value.message
        if (ours.folder / "run.json").exists():
            read_run(ours.folder)  # whatever is there can be read
        run_training(ours, lambda _: None)
        run = read_run(ours.folder)
        assert run.finished
        assert losses(run) == losses(whole)


@pytest.mark.usefixtures("_deterministic")
def test_a_system_that_takes_few_bytes_at_a_time_changes_nothing(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_training(job("whole"), lambda _: None)
    monkeypatch.setattr(os, "write", Disk(2**40, most_at_once=1000).write)
    run_training(job("pieces"), lambda _: None)
    whole, pieces = read_run(job("whole").folder), read_run(job("pieces").folder)
    assert losses(pieces) == losses(whole)
    model = Path("checkpoints") / "iter-00000007" / "model.safetensors"
    assert (pieces.folder / model).read_bytes() == (whole.folder / model).read_bytes()


def test_a_full_disk_keeps_the_older_checkpoint_and_is_in_the_history(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        write, steps = os.write, []

        def room_for_records_alone(file: int, data: Any) -> int:
            if len(steps) > 5 and len(data) > 2000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(file, data)

        patch.setattr(os, "write", room_for_records_alone)
        with pytest.raises(RunFailed, match="cannot save the checkpoint") as caught:
            run_training(job(), lambda event: steps.append(event) if isinstance(event, StepRecord) else None)
    assert "repeat the command" in (caught.value.hint or "")
    run = read_run(job().folder)
    assert run.stop is not None
    assert run.stop.reason == "no-space"
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["iter-00000003"]


@pytest.mark.parametrize("number", [1, 3, 6, 12, 14, 21])
def test_a_disk_that_fails_at_a_flush_is_reported_and_the_run_goes_on_when_it_is_mended(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    flushed = 0
    flush = os.fsync

    def failing(file: int) -> None:
        nonlocal flushed
        flushed += 1
        if flushed == number:
            raise OSError(errno.EIO, "Input/output error")
        flush(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(RunFailed, match="Input/output error"):
            run_training(job(), lambda _: None)
    run_training(job(), lambda _: None)
    assert read_run(job().folder).finished


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_read_only_folder_is_refused_before_anything_is_trained(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    run_training(job(), lambda _: None)
    before = {path: path.read_bytes() for path in job().folder.rglob("*") if path.is_file()}
    opened = os.open

    def read_only(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and str(job().folder) in str(path):
            raise OSError(code, os.strerror(code), str(path))
        return opened(path, flags, *rest, **options)

    longer = job(init_from="resume")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", read_only)
        with pytest.raises(NanodynoError, match="cannot write the run folder") as caught:
            run_training(longer, lambda _: None)
    assert caught.value.exit_code == 2
    assert {path: path.read_bytes() for path in job().folder.rglob("*") if path.is_file()} == before
