"""Checkpoints: only safetensors and JSON, whole or refused, and restored to the bit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nanodyno.errors import NanodynoError
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]
FILES = {"state.json", "model.safetensors", "optimizer.safetensors"}


@pytest.fixture
def trained(trainer: Trainers) -> Trainer:
    ours = trainer(max_iters=3, dropout=0.1)
    list(ours.events())
    return ours


def only_folder(ours: Trainer) -> Path:
    (folder,) = ours.checkpoints.iterdir()
    return folder


def records_of(ours: Trainer) -> list[StepRecord | EvalRecord]:
    return [event for event in ours.events() if isinstance(event, StepRecord | EvalRecord)]


def test_a_checkpoint_is_safetensors_and_json_and_nothing_else(trained: Trainer) -> None:
    folder = only_folder(trained)
    assert folder.name == "iter-00000003"
    assert {path.name for path in folder.iterdir()} == FILES
    json.loads((folder / "state.json").read_text())
    for name in ("model.safetensors", "optimizer.safetensors"):
        content = (folder / name).read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        assert "rng.cpu" in header or "tokens.weight" in header


def test_restoring_gives_the_same_parameters_moments_generator_and_place(
    trained: Trainer, trainer: Trainers
) -> None:
    rng = torch.get_rng_state()
    other = trainer(seed=99, dropout=0.1)
    other.restore(checkpoint.newest(trained.checkpoints))
    assert (other.iteration, other.sequences) == (3, 3 * 4 * 3)
    assert torch.get_rng_state().equal(rng)
    for ours, theirs in zip(trained.model.parameters(), other.model.parameters(), strict=True):
        assert ours.equal(theirs)
        first, second = trained.optimizer.state[ours], other.optimizer.state[theirs]
        assert first.keys() == second.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(first[key].equal(second[key]) for key in first)


def test_a_checkpoint_knows_its_model_and_its_tokenizer(trained: Trainer) -> None:
    saved = checkpoint.newest(trained.checkpoints)
    assert saved.shape == trained.model.shape
    assert (saved.vocab_size, saved.tokenizer) == (257, "bytes")


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("changes", [{}, {"dropout": 0.2}, {"dtype": "float16"}, {"dtype": "bfloat16"}])
def test_a_resumed_run_has_the_losses_of_one_that_never_stopped(
    trainer: Trainers, changes: dict[str, object]
) -> None:
    whole = records_of(trainer(**changes))
    stopped = trainer(**changes)
    events = stopped.events()
    while not (isinstance(event := next(events), StepRecord) and event.iteration == 5):
        pass
    events.close()  # pyright: ignore[reportAttributeAccessIssue]

    torch.manual_seed(0)  # another process has another generator
    resumed = trainer(**changes)
    resumed.restore(checkpoint.newest(stopped.checkpoints))
    rest = records_of(resumed)
    facts = {"iteration", "loss", "val_loss", "train_loss", "grad_norm", "learning_rate", "update_skipped"}
    expected = [event.model_dump(include=facts) for event in whole][-len(rest) :]
    assert [event.model_dump(include=facts) for event in rest] == expected
    assert [event.iteration for event in rest] == [4, 5, 6, 7, 8]


def test_a_finished_run_that_is_resumed_does_nothing_twice(trained: Trainer, trainer: Trainers) -> None:
    again = trainer(trained.checkpoints, max_iters=3, dropout=0.1)
    again.restore(checkpoint.newest(trained.checkpoints))
    assert list(again.events()) == []


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_a_changed_byte_is_refused_with_the_files_name(trained: Trainer, name: str) -> None:
    path = only_folder(trained) / name
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(NanodynoError, match=f"{name} is missing or not as it was saved"):
        checkpoint.newest(trained.checkpoints)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_or_cut_file_is_refused(trained: Trainer, name: str) -> None:
    path = only_folder(trained) / name
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(NanodynoError, match=name):
        checkpoint.newest(trained.checkpoints)
    path.unlink()
    with pytest.raises(NanodynoError, match=name):
        checkpoint.newest(trained.checkpoints)


def test_a_state_of_no_version_is_damaged_and_one_of_a_newer_version_is_told(trained: Trainer) -> None:
    path = only_folder(trained) / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in state.items() if key != "version"}))
    with pytest.raises(NanodynoError, match="damaged"):
        checkpoint.newest(trained.checkpoints)
    path.write_text(json.dumps({"format": state["format"], "version": 2, "other": "keys"}))
    with pytest.raises(NanodynoError, match="newer nanodyno"):
        checkpoint.newest(trained.checkpoints)


def test_without_a_checkpoint_the_error_says_when_there_will_be_one(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="no checkpoint") as caught:
        checkpoint.newest(tmp_path)
    assert "evaluation" in (caught.value.hint or "")


def test_a_kill_while_saving_leaves_the_older_checkpoint(trained: Trainer, trainer: Trainers) -> None:
    folder = only_folder(trained)
    unfinished = trained.checkpoints / "iter-00000007.new"
    shutil.copytree(folder, unfinished)
    (unfinished / "state.json").unlink()
    assert checkpoint.newest(trained.checkpoints).folder == folder

    # The next one clears it away, and its own predecessor.
    ours = trainer(trained.checkpoints, max_iters=7, eval_interval=100, dropout=0.1)
    ours.restore(checkpoint.newest(trained.checkpoints))
    list(ours.events())
    assert only_folder(ours).name == "iter-00000007"


def test_the_newest_checkpoint_is_taken(trained: Trainer) -> None:
    folder = only_folder(trained)
    shutil.copytree(folder, folder.with_name("iter-00000002"))
    assert checkpoint.newest(trained.checkpoints).folder == folder
