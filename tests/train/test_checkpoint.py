"""Checkpoints: only safetensors and JSON, whole or passed over, and restored to the bit."""

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nanodyno.errors import NanodynoError
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]
Walk = Callable[..., Iterator[Any]]
FILES = {"state.json", "model.safetensors", "optimizer.safetensors"}


def newest(checkpoints: Path) -> Checkpoint:
    found = checkpoint.newest(checkpoints)
    assert found is not None
    return found.checkpoint


@pytest.fixture
def trained(trainer: Trainers, walk: Walk, tmp_path: Path) -> Trainer:
    """Three iterations, their checkpoint in tmp_path."""
    ours = trainer(max_iters=3, dropout=0.1)
    list(walk(ours, tmp_path))
    return ours


def names(checkpoints: Path) -> list[str]:
    return sorted(path.name for path in checkpoints.iterdir())


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


@pytest.mark.usefixtures("trained")
def test_a_checkpoint_is_safetensors_and_json_and_nothing_else(tmp_path: Path) -> None:
    (folder,) = tmp_path.iterdir()
    assert folder.name == "iter-00000003"
    assert {path.name for path in folder.iterdir()} == FILES
    json.loads((folder / "state.json").read_text())
    assert "tokens.weight" in load_file(folder / "model.safetensors")
    assert "tokens.weight/exp_avg" in load_file(folder / "optimizer.safetensors")


def test_what_the_library_reads_is_what_was_in_memory(trained: Trainer, tmp_path: Path) -> None:
    read = load_file(tmp_path / "iter-00000003" / "model.safetensors")
    weights = dict(trained.engine.model.named_parameters())
    assert read.keys() == weights.keys()
    assert all(read[name].equal(weights[name]) for name in read)


def test_restoring_gives_the_same_parameters_moments_and_place(
    trained: Trainer, trainer: Trainers, tmp_path: Path
) -> None:
    other = trainer(seed=99, dropout=0.1)
    other.restore(newest(tmp_path))
    assert (other.iteration, other.sequences) == (3, 3 * 4 * 3)
    pairs = zip(trained.engine.model.parameters(), other.engine.model.parameters(), strict=True)
    for ours, theirs in pairs:
        assert ours.equal(theirs)
        first, second = trained.engine.optimizer.state[ours], other.engine.optimizer.state[theirs]
        assert first.keys() == second.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(first[key].equal(second[key]) for key in first)


def test_a_checkpoint_knows_its_model_its_tokenizer_and_its_evaluation(
    trained: Trainer, tmp_path: Path
) -> None:
    saved = newest(tmp_path)
    assert saved.shape == trained.engine.model.shape
    assert (saved.vocab_size, saved.tokenizer) == (257, "bytes")
    assert trained.evaluation == (3, saved.progress.val_loss)


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dropout": 0.2},
        {"dtype": "float16"},
        {"dtype": "bfloat16"},
        {"spike_zscore": 1.0, "bad_update": "skip", "max_iters": 40, "eval_interval": 36},
    ],
)
def test_a_resumed_run_has_the_losses_of_one_that_never_stopped(
    trainer: Trainers, walk: Walk, tmp_path: Path, changes: dict[str, object]
) -> None:
    ended = StepRecord | EvalRecord
    whole = [e for e in walk(trainer(**changes), tmp_path / "whole") if isinstance(e, ended)]
    stopped = trainer(**changes)
    at = stopped.config.eval_interval
    events = walk(stopped, tmp_path / "stopped")
    while not (isinstance(event := next(events), StepRecord) and event.iteration == at + 1):
        pass
    events.close()  # pyright: ignore[reportAttributeAccessIssue]

    torch.manual_seed(0)  # another process has another generator
    resumed = trainer(**changes)
    resumed.restore(newest(tmp_path / "stopped"))
    rest = [e for e in walk(resumed, tmp_path / "stopped") if isinstance(e, ended)]
    facts = {"iteration", "loss", "val_loss", "train_loss", "grad_norm", "learning_rate", "skipped"}
    expected = [event.model_dump(include=facts) for event in whole][-len(rest) :]
    assert [event.model_dump(include=facts) for event in rest] == expected
    assert rest[0].iteration == at
    assert len(rest) == len(whole) - (at + 2)  # with the evaluations at 0 and at the checkpoint


def test_a_finished_run_that_is_resumed_does_nothing_twice(
    trained: Trainer, trainer: Trainers, tmp_path: Path
) -> None:
    again = trainer(max_iters=3, dropout=0.1)
    again.restore(newest(tmp_path))
    assert list(again.events()) == []
    assert again.finished
    assert trained.finished


def test_pruning_keeps_the_last_k_and_the_lowest_val_loss(trained: Trainer, tmp_path: Path) -> None:
    for iteration, val_loss in ((10, 3.0), (20, 2.0), (30, 2.5), (40, 2.4), (50, None)):
        trained.iteration = iteration
        trained.evaluation = None if val_loss is None else (iteration, val_loss)
        trained.save(tmp_path, "evaluation")
    assert names(tmp_path) == ["iter-00000020", "iter-00000040", "iter-00000050"]
    # A run that went back to 40 leaves what came after behind.
    trained.iteration = 45
    trained.save(tmp_path, "autosave")
    assert names(tmp_path) == ["iter-00000020", "iter-00000040", "iter-00000045"]


def test_a_file_of_somebody_elses_outlives_the_checkpoint_it_lies_in(
    trained: Trainer, tmp_path: Path
) -> None:
    thesis = tmp_path / "iter-00000003" / "thesis.tex"
    thesis.write_text("precious")
    (tmp_path / "notes.txt").write_text("precious too")
    for iteration in (4, 5, 6):
        trained.iteration, trained.evaluation = iteration, None
        trained.save(tmp_path, "autosave")
    assert thesis.read_text() == "precious"
    assert (tmp_path / "notes.txt").exists()
    # Nor is it in the way of a checkpoint of the same iteration.
    trained.iteration = 3
    trained.save(tmp_path, "autosave")
    assert newest(tmp_path).progress.iteration == 3
    assert (tmp_path / "iter-00000003.old" / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("how", ["cut", "gone", "altered"])
def test_a_damaged_checkpoint_is_passed_over_and_reported(
    trained: Trainer, tmp_path: Path, name: str, how: str
) -> None:
    trained.iteration = 7
    trained.save(tmp_path, "autosave")
    path = tmp_path / "iter-00000007" / name
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:50])
    elif name == "state.json":
        path.write_text(path.read_text().replace('"iteration": 7', '"iteration": "7"'))
    else:
        spoil(path)
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.checkpoint.progress.iteration == 3
    (words,) = found.damaged
    assert name in words


@pytest.mark.usefixtures("trained")
def test_when_all_are_damaged_nothing_is_guessed(tmp_path: Path) -> None:
    spoil(tmp_path / "iter-00000003" / "model.safetensors")
    with pytest.raises(NanodynoError, match=r"model.safetensors has changed"):
        checkpoint.newest(tmp_path)


@pytest.mark.usefixtures("trained")
def test_a_state_of_another_version_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "iter-00000003" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 3}))
    with pytest.raises(NanodynoError, match="of another version: version"):
        checkpoint.newest(tmp_path)


def test_a_run_that_has_saved_nothing_has_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path) is None
    assert checkpoint.newest(tmp_path / "nowhere") is None


def test_a_kill_while_saving_leaves_the_older_checkpoint(trained: Trainer, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "iter-00000003", tmp_path / "iter-00000007.new")
    (tmp_path / "iter-00000007.new" / "state.json").unlink()
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert (found.checkpoint.folder.name, found.damaged) == ("iter-00000003", ())
    # The next one clears it away.
    trained.iteration = 8
    trained.save(tmp_path, "autosave")
    assert names(tmp_path) == ["iter-00000003", "iter-00000008"]


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_kill_while_one_takes_the_place_of_its_like_loses_neither(
    trained: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """Stopped at an evaluation's iteration, a run saves before it evaluates, and again after it."""
    rename, renamed = Path.rename, []

    class Killed(BaseException):
        pass

    def deadly(path: Path, target: Path) -> Path:
        renamed.append(path)
        if len(renamed) == killed_at:
            raise Killed
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", deadly)
        with pytest.raises(Killed):
            trained.save(tmp_path, "evaluation")
    other = newest(tmp_path)
    assert other.progress.iteration == 3
    checkpoint.load_model(other, trained.engine.model)
    # And it can be gone on from there.
    trained.iteration = 4
    trained.save(tmp_path, "autosave")
    assert newest(tmp_path).progress.iteration == 4


def test_pruning_after_a_fall_back_to_one_that_was_not_evaluated(trained: Trainer, tmp_path: Path) -> None:
    trained.iteration, trained.evaluation = 2, None
    trained.save(tmp_path, "autosave")
    assert names(tmp_path) == ["iter-00000002"]  # the later one has no future
    (tmp_path / "iter-00000001").write_text("somebody else's")
    trained.iteration = 3
    trained.save(tmp_path, "autosave")
    assert names(tmp_path) == ["iter-00000001", "iter-00000002", "iter-00000003"]


def test_a_state_under_the_name_of_another_iteration_is_passed_over(trained: Trainer, tmp_path: Path) -> None:
    del trained
    shutil.copytree(tmp_path / "iter-00000003", tmp_path / "iter-00000009")
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.checkpoint.folder.name == "iter-00000003"
    assert "is of iteration 3" in found.damaged[0]


def test_an_optimizer_without_its_moments_is_refused(trained: Trainer, tmp_path: Path) -> None:
    folder = tmp_path / "iter-00000003"
    path = folder / "optimizer.safetensors"
    tensors = {key: value for key, value in load_file(path).items() if key != "norm.weight/exp_avg"}
    save_file(tensors, path)
    state = json.loads((folder / "state.json").read_text())
    state["sha256"][path.name] = checkpoint.sha256_of(path)
    (folder / "state.json").write_text(json.dumps(state))
    engine = trained.engine
    with pytest.raises(NanodynoError, match=r"does not hold the moments of norm\.weight"):
        checkpoint.load_optimizer(newest(tmp_path), engine.model, engine.optimizer)


@dataclass
class Hostile:
    """Unpickling it makes a file: what a checkpoint from the internet might do."""

    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.usefixtures("trained")
def test_a_hostile_checkpoint_runs_no_code(tmp_path: Path, name: str) -> None:
    code = pickle.dumps(Hostile(tmp_path / "pwned"))
    pickle.loads(pickle.dumps(Hostile(tmp_path / "works")))
    assert (tmp_path / "works").exists()
    folder = tmp_path / "iter-00000003"
    (folder / name).write_bytes(code)
    if name != "state.json":  # a stranger can make the sums right
        state = json.loads((folder / "state.json").read_text())
        state["sha256"][name] = checkpoint.sha256_of(folder / name)
        (folder / "state.json").write_text(json.dumps(state))
    (folder / "training_state.pt").write_bytes(code)
    with pytest.raises(NanodynoError):
        checkpoint.load_optimizer(newest(tmp_path), torch.nn.Linear(1, 1), torch.optim.AdamW([torch.ones(1)]))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.usefixtures("trained")
def test_a_state_that_tells_a_monstrous_model_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "iter-00000003" / "state.json"
    state = json.loads(path.read_text())
    state["shape"]["n_embd"] = 10**9
    path.write_text(json.dumps(state))
    with pytest.raises(NanodynoError, match="holds another model"):
        checkpoint.newest(tmp_path)
