"""A checkpoint is a folder `checkpoints/iter-00000500/`: safetensors and one JSON file with their checksums.

It is written under another name and renamed when whole, so a kill leaves the older one. Nothing is pickled:
loading a checkpoint from a stranger runs no code.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from nanodyno.config import ModelShape
from nanodyno.errors import NanodynoError, RunFailed

FORMAT = "nanodyno-checkpoint"
VERSION = 1
STATE_FILE = "state.json"
MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"


@dataclass(frozen=True)
class Progress:
    """Where training stands, besides the tensors."""

    iteration: int
    """Updates made."""
    sequences: int
    """Position in the data stream."""
    scaler: dict[str, float]
    """State of the fp16 loss scaler; empty without one."""


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint on disk."""

    folder: Path
    shape: ModelShape
    progress: Progress
    vocab_size: int
    """Of the tokenizer: ids from it on are padding."""
    tokenizer: str | None


def save(
    about: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, rng: dict[str, Tensor]
) -> None:
    """Writes `about.folder`, then drops older checkpoints beside it."""
    folder = about.folder
    aside = folder.with_name(folder.name + ".new")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _write(aside, about, model, optimizer, rng)
    except (OSError, SafetensorError) as error:  # safetensors wraps the operating system's
        shutil.rmtree(aside, ignore_errors=True)
        raise RunFailed(
            f"cannot save the checkpoint {folder}: {error}",
            "make room or mend the disk; what was recorded and the checkpoint before it are kept",
        ) from error
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)
    for older in folder.parent.glob("iter-*"):
        if older != folder:
            shutil.rmtree(older)


def _write(
    aside: Path,
    about: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rng: dict[str, Tensor],
) -> None:
    aside.mkdir(parents=True)
    names = {parameter: name for name, parameter in model.named_parameters()}
    save_file(_on_cpu(dict(model.named_parameters())), aside / MODEL_FILE)
    save_file(_on_cpu(_optimizer_tensors(optimizer, names) | rng), aside / OPTIMIZER_FILE)
    state = {
        "format": FORMAT,
        "version": VERSION,
        "shape": asdict(about.shape),
        "progress": asdict(about.progress),
        "vocab_size": about.vocab_size,
        "tokenizer": about.tokenizer,
        "sha256": {name: _sha256(aside / name) for name in (MODEL_FILE, OPTIMIZER_FILE)},
    }
    (aside / STATE_FILE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    for path in [*aside.iterdir(), aside]:
        _flush(path)


def newest(checkpoints: Path) -> Checkpoint:
    """The newest complete checkpoint of a run."""
    folders = sorted(checkpoints.glob("iter-????????"))
    if not folders:
        raise NanodynoError(
            f"there is no checkpoint under {checkpoints}",
            "a run saves its first one at its first evaluation after the start, and one at its end",
        )
    return _read(folders[-1])


def folder_for(checkpoints: Path, iteration: int) -> Path:
    return checkpoints / f"iter-{iteration:08d}"


def load_model(checkpoint: Checkpoint, model: nn.Module) -> None:
    tensors = _load_tensors(checkpoint.folder / MODEL_FILE)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def load_optimizer(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    tensors = _load_tensors(checkpoint.folder / OPTIMIZER_FILE)
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        entries = {
            key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
        }
        # The fused kernels want the step count beside the parameter.
        optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in entries.items()}


def rng_state(device: torch.device) -> dict[str, Tensor]:
    state = {"rng.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["rng.cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_rng_state(state: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["rng.cpu"])
    if device.type == "cuda" and "rng.cuda" in state:
        torch.cuda.set_rng_state(state["rng.cuda"], device)


def load_rng(checkpoint: Checkpoint) -> dict[str, Tensor]:
    tensors = _load_tensors(checkpoint.folder / OPTIMIZER_FILE)
    return {name: tensor for name, tensor in tensors.items() if name.startswith("rng.")}


def _read(folder: Path) -> Checkpoint:
    path = folder / STATE_FILE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["version"] > VERSION:
            raise NanodynoError(f"{path} was written by a newer nanodyno", "upgrade nanodyno to read it")
        checkpoint = Checkpoint(
            folder,
            ModelShape(**state["shape"]),
            Progress(**state["progress"]),
            state["vocab_size"],
            state["tokenizer"],
        )
        sums = dict(state["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NanodynoError(f"{path} is damaged or missing: {error}", "restore it from a copy") from error
    for name in (MODEL_FILE, OPTIMIZER_FILE):
        file = folder / name
        if not file.exists() or _sha256(file) != sums.get(name):
            raise NanodynoError(f"{file} is missing or not as it was saved", "restore it from a copy")
    return checkpoint


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise NanodynoError(f"{path} is damaged: {error}", "restore it from a copy") from error


def _optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[Any, str]) -> dict[str, Tensor]:
    return {
        f"{names[parameter]}/{key}": value
        for parameter, entries in optimizer.state.items()
        for key, value in entries.items()
    }


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """To the disk itself; Windows cannot open a folder for it, and needs no such thing."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
