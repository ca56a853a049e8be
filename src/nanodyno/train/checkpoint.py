"""A checkpoint is a folder `checkpoints/iter-00000500/`: safetensors and one JSON file with their checksums.

It is written under another name, flushed and renamed when whole, so a kill or a power cut leaves the older
ones. Nothing is pickled: loading a checkpoint from a stranger runs no code. Tensors are whole whatever the
number of processes, so that any number can go on.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from nanodyno.config import ModelShape
from nanodyno.costs.parameters import parameters
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.model.batched import shapes_of_moments
from nanodyno.model.flat_update import takes_over_moments
from nanodyno.model.optimizer import Optimizer
from nanodyno.records.files import ASIDE, flush_folder, write_new
from nanodyno.train.effective import BatchRampState
from nanodyno.train.parallel import laid_out_like, whole
from nanodyno.train.spike_guard import SpikeGuardState
from nanodyno.train.tensors import read_tensors, sha256_of, write_tensors

VERSION = 2
STATE_FILE = "state.json"
MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
FILES = (STATE_FILE, MODEL_FILE, OPTIMIZER_FILE)
REPLACED = ".old"
_LARGEST_HEADER = 2**24


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class TrainingProgress(_Strict):
    """Where training stands, besides the tensors."""

    iteration: int = Field(ge=0)
    """Updates made."""
    sequences: int = Field(ge=0)
    """Position in the data stream."""
    scaler: dict[str, float | int] = {}
    """fp16's loss scale, or the factors of fp8 (see Engine.scales); empty without either."""
    val_loss: float | None = None
    """Of the evaluation at this very iteration, when there was one before the save."""
    seen: SpikeGuardState = SpikeGuardState()
    growth: BatchRampState | None = None
    """Of an effective batch that the measured noise decides."""


class _State(_Strict):
    """The whole of state.json."""

    format: Literal["nanodyno-checkpoint"] = "nanodyno-checkpoint"
    version: Literal[2] = VERSION
    shape: ModelShape
    progress: TrainingProgress
    vocab_size: int = Field(ge=1)
    tokenizer: str | None
    sha256: dict[str, str]


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint on disk."""

    folder: Path
    shape: ModelShape
    progress: TrainingProgress
    vocab_size: int
    """Of the tokenizer: ids from it on are padding."""
    tokenizer: str | None


@dataclass(frozen=True)
class FoundCheckpoint:
    """The newest checkpoint that is whole, and what is wrong with newer ones."""

    checkpoint: Checkpoint
    damaged: tuple[str, ...]


def save(about: Checkpoint, model: nn.Module, optimizer: Optimizer, first: bool) -> int:
    """Writes `about.folder` and returns its bytes. All processes take part; the first one writes."""
    moments = _optimizer_tensors(model, optimizer)
    if not first:
        for tensor in (*model.parameters(), *moments.values()):
            whole(tensor)
        return 0
    aside = about.folder.with_name(about.folder.name + ASIDE)
    try:
        remove(aside)
        aside.mkdir(parents=True)
        flush_folder(aside.parent.parent)
        _write(aside, about, dict(model.named_parameters()), moments)
        _put_in_place(aside, about.folder)
    except OSError as error:
        with suppress(OSError):
            remove(aside)
        raise RunFailed(
            f"cannot save the checkpoint {about.folder}: {error.strerror or error}",
            "free space or repair the disk, then repeat the command. The records and the previous checkpoint "
            "are kept",
        ) from error
    return sum((about.folder / name).stat().st_size for name in FILES)


def _write(
    aside: Path, about: Checkpoint, weights: dict[str, nn.Parameter], moments: dict[str, Tensor]
) -> None:
    sums = {
        MODEL_FILE: write_tensors(aside / MODEL_FILE, weights, whole),
        OPTIMIZER_FILE: write_tensors(aside / OPTIMIZER_FILE, moments, whole),
    }
    state = _State(
        shape=about.shape,
        progress=about.progress,
        vocab_size=about.vocab_size,
        tokenizer=about.tokenizer,
        sha256=sums,
    )
    write_new(aside / STATE_FILE, state.model_dump_json(indent=2) + "\n")
    flush_folder(aside)


def _put_in_place(aside: Path, folder: Path) -> None:
    """Under its name, where a damaged one of the same iteration may stand."""
    replaced = folder.with_name(folder.name + REPLACED)
    if folder.exists():
        remove(replaced)
        folder.rename(replaced)
    aside.rename(folder)
    flush_folder(folder.parent)
    remove(replaced)


def remove(folder: Path) -> None:
    """Takes away what we have written there, the state first; a file of somebody else's keeps its folder."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def folder_for(checkpoints: Path, iteration: int) -> Path:
    return checkpoints / f"iter-{iteration:08d}"


def folders(checkpoints: Path) -> dict[int, Path]:
    """The checkpoints of a run by their iteration, oldest first, whole or not."""
    found = {
        int(name[1]): path
        for path in (checkpoints.iterdir() if checkpoints.is_dir() else ())
        if (name := re.fullmatch(r"iter-(\d{8,15})", path.name)) and path.is_dir()
    }
    return dict(sorted(found.items()))


def _leftovers(checkpoints: Path) -> list[Path]:
    """What a kill has left on its way into place or out of it; it may be whole, and the only one."""
    found = (path for suffix in (ASIDE, REPLACED) for path in checkpoints.glob(f"iter-*{suffix}"))
    return [path for path in found if path.is_dir()]


def prune(checkpoints: Path, current: int, keep: int) -> None:
    """Keeps the last `keep` and the one with the lowest val loss; later ones belong to no future any more."""
    there = folders(checkpoints)
    past = [iteration for iteration in there if iteration <= current]
    losses = {iteration: loss for iteration in past if (loss := _val_loss(there[iteration])) is not None}
    kept = {*past[-keep:], *([min(losses, key=losses.__getitem__)] if losses else [])}
    unneeded = [folder for iteration, folder in there.items() if iteration not in kept]
    for folder in (*unneeded, *_leftovers(checkpoints)):
        remove(folder)


def newest(checkpoints: Path) -> FoundCheckpoint | None:
    """The newest one that is whole; None when nothing was ever saved, an error when all are damaged."""
    damaged: dict[int, str] = {}
    found: Checkpoint | None = None
    for iteration, folder in reversed(folders(checkpoints).items()):
        try:
            found = read(folder)
            break
        except NanodynoError as error:
            damaged[iteration] = error.message
    for folder in _leftovers(checkpoints):
        with suppress(NanodynoError):
            other = read(folder)
            found = max(found or other, other, key=lambda each: each.progress.iteration)
    if found is not None:
        return FoundCheckpoint(
            found, tuple(words for at, words in damaged.items() if at > found.progress.iteration)
        )
    if damaged:
        raise NanodynoError(
            f"no checkpoint under {checkpoints} is complete: {'; '.join(damaged.values())}",
            "restore one from a copy, or start again under another --name",
        )
    return None


def read(folder: Path) -> Checkpoint:
    """Checks everything but the tensors' names, which loading checks."""
    state = _state(folder)
    named = re.match(r"iter-(\d+)", folder.name)
    if named is None or int(named[1]) != state.progress.iteration:
        raise _damaged(folder / STATE_FILE, f"is of iteration {state.progress.iteration}")
    for name in (MODEL_FILE, OPTIMIZER_FILE):
        try:
            found = sha256_of(folder / name)
        except OSError as error:
            raise _damaged(folder / name, f"is missing or cannot be read: {error.strerror}") from error
        if found != state.sha256.get(name):
            raise _damaged(folder / name, "has changed since it was saved")
    if not 0 <= (folder / MODEL_FILE).stat().st_size - 4 * parameters(state.shape).total <= _LARGEST_HEADER:
        raise _damaged(folder / MODEL_FILE, f"holds another model than {STATE_FILE} reports")
    return Checkpoint(folder, state.shape, state.progress, state.vocab_size, state.tokenizer)


def load_model(checkpoint: Checkpoint, model: nn.Module) -> None:
    path = checkpoint.folder / MODEL_FILE
    tensors = read_tensors(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in tensors or tensors[name].shape != parameter.shape:
                raise _damaged(path, f"has no {name} of shape {tuple(parameter.shape)}")
            parameter.copy_(laid_out_like(tensors[name].to(parameter.dtype), parameter))


def load_optimizer(checkpoint: Checkpoint, model: nn.Module, optimizer: Optimizer) -> None:
    path = checkpoint.folder / OPTIMIZER_FILE
    tensors = read_tensors(path)
    entries: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, part = key.rpartition("/")
        entries.setdefault(name, {})[part] = tensor
    # One copies them to where it wants them; torch's kernels want all of it beside the parameter.
    for name, parameter in model.named_parameters():
        takes_over = takes_over_moments(optimizer, parameter)
        shapes = {part: tensor.shape for part, tensor in entries.get(name, {}).items()}
        if shapes != shapes_of_moments(optimizer, parameter):
            raise _damaged(path, f"does not hold the moments of {name}")
        optimizer.state[parameter] = {
            part: tensor if takes_over else laid_out_like(tensor.to(parameter.dtype), parameter)
            for part, tensor in entries[name].items()
        }


def _state(folder: Path) -> _State:
    path = folder / STATE_FILE
    try:
        return _State.model_validate_json(path.read_bytes())
    except OSError as error:
        raise _damaged(path, f"is missing: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "as a whole"
        raise _damaged(path, f"is damaged or of another version: {place}: {first['msg']}") from error


def _val_loss(folder: Path) -> float | None:
    try:
        return _state(folder).progress.val_loss
    except NanodynoError:
        return None


def _damaged(path: Path, words: str) -> NanodynoError:
    return NanodynoError(f"{path} {words}", "restore it from a copy")


def _optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }
