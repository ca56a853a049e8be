"""A run from its config to its folder."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Message, RunEvent, Started
from nanodyno.records.store import read_run, read_run_record
from nanodyno.records.types import EvalRecord, SaveRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training


class Interrupted(Exception):
    """What Ctrl-C would be."""


@pytest.fixture
def job(data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]) -> Callable[..., TrainingJob]:
    def build(name: str = "one", **changes: Any) -> TrainingJob:
        return TrainingJob(
            config(**changes), name, tmp_path / name, ("nanodyno", "train"), ("a note",), data_folder
        )

    return build


def stop_after(iteration: int) -> Callable[[RunEvent], None]:
    def watch(event: RunEvent) -> None:
        if isinstance(event, StepRecord) and event.iteration == iteration:
            raise Interrupted

    return watch


def ignore(event: RunEvent) -> None:
    """For runs of which only the folder matters."""


def test_a_run_writes_all_that_happened(job: Callable[..., TrainingJob]) -> None:
    reported: list[RunEvent] = []
    run_training(job(), reported.append)
    run = read_run(job().folder)
    assert run.finished
    assert [step.iteration for step in run.steps] == list(range(8))
    assert [entry.iteration for entry in run.evals] == [0, 4, 8]
    assert [event for event in reported if isinstance(event, StepRecord)] == list(run.steps)
    assert [event for event in reported if isinstance(event, EvalRecord)] == list(run.evals)
    (started,) = [event for event in reported if isinstance(event, Started)]
    assert (started.record, started.iteration) == (run.record, 0)
    found = checkpoint.newest(job().folder / "checkpoints")
    assert found is not None
    assert found.checkpoint.progress.iteration == 8


def test_a_run_samples_its_machine_up_to_its_end(job: Callable[..., TrainingJob]) -> None:
    run_training(job(), ignore)
    samples = read_run(job().folder).telemetry
    assert samples[-1].iteration == 8
    assert all(each.seconds > 0 and each.own_core_seconds is not None for each in samples)


def test_a_run_trains_on_where_its_machine_cannot_be_read(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/proc")

    monkeypatch.setattr(psutil, "Process", refuse)
    monkeypatch.setattr(psutil, "swap_memory", refuse)
    made = job()
    assert run_training(made, ignore) == "finished"
    assert not read_run(made.folder).telemetry


def test_a_run_that_nobody_goes_on_with_writes_records_alone(job: Callable[..., TrainingJob]) -> None:
    reported: list[RunEvent] = []
    assert run_training(replace(job(), keeps=False), reported.append) == "finished"
    run = read_run(job().folder)
    assert run.finished
    assert [entry.iteration for entry in run.evals] == [0, 4, 8]
    assert not any(isinstance(event, SaveRecord) for event in reported)
    assert not (job().folder / "checkpoints").exists()


def test_run_json_tells_what_the_run_really_used(job: Callable[..., TrainingJob]) -> None:
    run_training(job(eval_only=True, dtype="auto"), ignore)
    record = read_run(job().folder).own
    assert (record.name, record.command, record.notes) == ("one", ("nanodyno", "train"), ("a note",))
    assert record.config.dtype == "auto"
    assert (record.arithmetic.dtype, record.arithmetic.device, record.arithmetic.compiled) == (
        "float32",
        "cpu",
        False,
    )
    assert (record.vocab_size, record.data.vocab_size, record.data.tokenizer) == (320, 257, "bytes")
    assert (record.versions.torch, record.machine.device_type) == (torch.__version__, "cpu")
    assert record.data.train_tokens > record.data.val_tokens > 1000


def test_every_record_is_on_disk_before_it_is_shown(job: Callable[..., TrainingJob]) -> None:
    def watch(event: RunEvent) -> None:
        if isinstance(event, StepRecord):
            assert read_run(job().folder).steps[-1] == event
        if isinstance(event, EvalRecord):
            assert read_run(job().folder).evals[-1] == event

    run_training(job(), watch)


def test_a_resumed_run_has_the_record_of_one_that_never_stopped(job: Callable[..., TrainingJob]) -> None:
    run_training(job("whole"), ignore)
    with pytest.raises(Interrupted):
        run_training(job("stopped"), stop_after(6))
    first = read_run_record(job("stopped").folder)
    again = replace(job("stopped", init_from="resume"), name="renamed")
    run_training(again, ignore)
    whole, run = read_run(job("whole").folder), read_run(again.folder)
    assert [(step.iteration, step.loss) for step in run.steps] == [
        (step.iteration, step.loss) for step in whole.steps
    ]
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [
        (entry.iteration, entry.val_loss) for entry in whole.evals
    ]
    assert run.record.resumed_at_iterations == (4,)
    assert (run.record.name, run.record.started_at) == ("stopped", first.started_at)


def test_a_finished_run_gains_nothing_by_resuming_but_can_be_lengthened(
    job: Callable[..., TrainingJob],
) -> None:
    run_training(job(), ignore)
    before = read_run(job().folder)
    run_training(job(init_from="resume"), ignore)
    after = read_run(job().folder)
    assert (after.steps, after.evals) == (before.steps, before.evals)
    run_training(job(init_from="resume", max_iters=10), ignore)
    assert [step.iteration for step in read_run(job().folder).steps] == list(range(10))


@pytest.mark.parametrize(
    ("change", "words"), [({"n_embd": 64}, "n_embd is 64, and was 32"), ({"bias": True}, "bias")]
)
def test_resuming_another_model_is_refused_and_nothing_is_lost(
    job: Callable[..., TrainingJob], change: dict[str, Any], words: str
) -> None:
    run_training(job(), ignore)
    before = {path: path.read_bytes() for path in job().folder.rglob("*") if path.is_file()}
    with pytest.raises(NanodynoError, match=words):
        run_training(job(init_from="resume", **change), ignore)
    assert {path: path.read_bytes() for path in job().folder.rglob("*") if path.is_file()} == before


def test_resuming_what_is_no_run_is_an_error(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(NanodynoError, match="is not a run"):
        run_training(job(init_from="resume"), ignore)


def test_a_run_that_saved_nothing_begins_anew_and_says_so(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(Interrupted):
        run_training(job(), stop_after(1))
    assert read_run(job().folder).iterations_done == 2
    reported: list[RunEvent] = []
    run_training(job(init_from="resume"), reported.append)
    assert any(isinstance(event, Message) and "starts over" in event.text for event in reported)
    run = read_run(job().folder)
    assert [step.iteration for step in run.steps] == list(range(8))
    assert run.record.resumed_at_iterations == ()


def test_a_folder_of_another_run_is_refused_before_anything_is_done(job: Callable[..., TrainingJob]) -> None:
    run_training(job(eval_only=True), ignore)
    reported: list[RunEvent] = []
    with pytest.raises(NanodynoError, match="was started with other settings: max_iters is 9, and was 8"):
        run_training(job(max_iters=9, lr_decay_iters=8), reported.append)
    assert reported == []


def test_zeros_that_a_power_cut_left_after_the_last_save_are_dropped(job: Callable[..., TrainingJob]) -> None:
    run_training(job("whole"), ignore)
    with pytest.raises(Interrupted):
        run_training(job("cut"), stop_after(6))
    for name in ("steps.jsonl", "history.jsonl"):
        with (job("cut").folder / name).open("ab") as file:
            file.write(b"\0" * 100 + b"\n")
    run_training(job("cut"), ignore)
    whole, run = read_run(job("whole").folder), read_run(job("cut").folder)
    assert [step.loss for step in run.steps] == [step.loss for step in whole.steps]


def test_records_damaged_before_the_last_save_are_not_thrown_away(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(Interrupted):
        run_training(job(), stop_after(6))
    path = job().folder / "steps.jsonl"
    damaged = path.read_bytes().replace(b'"iteration":2', b'"iteration":x')
    path.write_bytes(damaged)
    with pytest.raises(NanodynoError, match="line 3, is damaged"):
        run_training(job(), ignore)
    assert path.read_bytes() == damaged


def test_a_run_whose_checkpoints_are_gone_does_not_lose_its_records_too(
    job: Callable[..., TrainingJob],
) -> None:
    with pytest.raises(Interrupted):
        run_training(job(), stop_after(6))
    shutil.rmtree(job().folder / "checkpoints")
    with pytest.raises(NanodynoError, match="has lost its checkpoints"):
        run_training(job(), ignore)
    assert read_run(job().folder).iterations_done == 7


def test_fewer_iterations_than_are_made_is_refused(job: Callable[..., TrainingJob]) -> None:
    run_training(job(), ignore)
    with pytest.raises(NanodynoError, match="max_iters is 5, but 8 are done"):
        run_training(job(init_from="resume", max_iters=5), ignore)


def test_a_bad_dataset_leaves_no_folder_behind(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(NanodynoError, match="no dataset 'tyni'"):
        run_training(job(dataset="tyni"), ignore)
    with pytest.raises(NanodynoError, match="block_size"):
        run_training(job(block_size=100_000), ignore)
    assert not job().folder.exists()


def test_a_loss_that_is_not_a_number_is_on_disk_when_the_run_fails(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(RunFailed) as caught:
        run_training(job(learning_rate=1e30, decay_lr=False), ignore)
    assert (caught.value.exit_code, caught.value.hint is not None) == (1, True)
    run = read_run(job().folder)
    assert math.isnan(run.own_steps[-1].loss)
    assert not run.finished


def test_a_failed_compilation_is_reported_and_recorded(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", refuse)
    reported: list[RunEvent] = []
    run_training(job(compile=True, max_iters=1, warmup_iters=0), reported.append)
    record = read_run(job().folder).own
    assert (record.arithmetic.compiled, record.arithmetic.compile_seconds) == (False, None)
    assert record.notes[0] == "a note"
    assert "no compiler here" in record.notes[1]
    (started,) = [event for event in reported if isinstance(event, Started)]
    assert started.record.notes == record.notes


def test_a_look_at_a_saved_run_leaves_its_records_alone(job: Callable[..., TrainingJob]) -> None:
    run_training(job(), ignore)
    before = {path.name: path.read_bytes() for path in job().folder.glob("*.json*")}
    reported: list[RunEvent] = []
    run_training(job(init_from="resume", eval_only=True), reported.append)
    assert [event.iteration for event in reported if isinstance(event, EvalRecord)] == [
        job().config.max_iters
    ]
    assert {path.name: path.read_bytes() for path in job().folder.glob("*.json*")} == before


def test_a_resume_keeps_what_was_noted_before(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(Interrupted):
        run_training(job(), stop_after(6))
    run_training(replace(job(init_from="resume"), notes=("another note",)), ignore)
    assert read_run(job().folder).record.notes == ("a note", "another note")


def test_an_eval_iters_that_comes_to_the_same_tokens_is_no_change(job: Callable[..., TrainingJob]) -> None:
    with pytest.raises(Interrupted):
        run_training(job(eval_iters=5), stop_after(6))
    run_training(job(init_from="resume"), ignore)
    assert read_run(job().folder).record.notes == ("a note",)


def test_running_out_of_memory_is_reported_with_what_to_change(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(torch.Tensor, "backward", full)
    with pytest.raises(RunFailed, match="out of memory") as raised:
        run_training(job(), ignore)
    assert "halve --batch_size" in (raised.value.hint or "")


def test_an_evaluation_alone_compiles_nothing(
    job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("compiled for nothing")

    monkeypatch.setattr(torch, "compile", refuse)
    run_training(job(compile=True, eval_only=True), ignore)
