"""A run from its config to its folder: opens the data and the device, trains, and writes every record."""

import errno
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

from nanodyno import __version__
from nanodyno.config import ModelShape, RunConfig, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import Dataset
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Message, Started, Watch
from nanodyno.records.store import CHECKPOINTS_FOLDER, RunWriter, read_run_record, refuse_foreign_folder
from nanodyno.records.types import (
    ArithmeticRecord,
    DataRecord,
    EvalRecord,
    RunRecord,
    StepRecord,
    VersionsRecord,
    utc_now,
)
from nanodyno.schedule import learning_rate_at
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint
from nanodyno.train.device import Choice, choose, describe_machine
from nanodyno.train.trainer import Trainer

DATA_FOLDER = Path("data")


@dataclass(frozen=True)
class Job:
    """What to train and where."""

    config: RunConfig
    name: str
    folder: Path
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data_folder: Path = DATA_FOLDER


def run_training(job: Job, watch: Watch) -> None:
    """Trains to the end of the config; every record is on disk before it is shown."""
    try:
        _run(job, watch)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        raise RunFailed(
            f"out of memory: {(str(error).splitlines() or [''])[0]}",
            f"halve --batch_size (now {job.config.batch_size}) and keep --tokens_per_iter="
            f"{job.config.tokens_per_iter}: the arithmetic stays the same",
        ) from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise RunFailed(
            f"the disk is full: {error.filename or job.folder}",
            "make room; what was recorded and the last checkpoint are kept",
        ) from error


def _is_out_of_memory(error: Exception) -> bool:
    """On the host torch has no class of its own for it."""
    told = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return (
        told or "can't allocate memory" in str(error) or "Storage size calculation overflowed" in str(error)
    )


def _run(job: Job, watch: Watch) -> None:
    config = job.config
    earlier = _earlier(job)
    choice = choose(config)
    dataset = resolve_dataset(
        config.dataset,
        job.data_folder,
        config.tokenizer,
        config.vocab_size,
        lambda text: watch(Message(text)),
    )
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    record = _describe(job, choice, dataset, vocab_size)
    if earlier is not None:
        _refuse_other_model(earlier.saved.shape, config.model_shape(vocab_size), job.folder)
        _refuse_other_data(earlier.record, record, job.folder)
        record = _continued(record, earlier)
    trainer = Trainer(config, dataset, vocab_size, choice, job.folder / CHECKPOINTS_FOLDER)
    if earlier is not None:
        trainer.restore(earlier.saved)
        if config.eval_only:
            _look_only(trainer, Started(record, job.folder, trainer.iteration), watch)
            return
    recorded = earlier is not None
    with _writer(job.folder, record, earlier) as writer:
        try:
            record = _warm_up(trainer, record, watch)
            writer.replace_run(record)
            watch(Started(record, job.folder, trainer.iteration))
            for event in trainer.events():
                if isinstance(event, StepRecord | EvalRecord):
                    writer.append(event)
                    recorded = True
                watch(event)
        finally:
            if not recorded:
                writer.abandon()


@dataclass(frozen=True)
class _Earlier:
    """The run that a resume goes on with."""

    record: RunRecord
    saved: Checkpoint


def _earlier(job: Job) -> _Earlier | None:
    if job.config.init_from == "scratch":
        refuse_foreign_folder(job.folder)
        return None
    return _Earlier(read_run_record(job.folder), checkpoint.newest(job.folder / CHECKPOINTS_FOLDER))


def _continued(record: RunRecord, earlier: _Earlier) -> RunRecord:
    """The new stretch under the run's own name and start, with what was noted before."""
    old = earlier.record
    return record.model_copy(
        update={
            "name": old.name,
            "started_at": old.started_at,
            "notes": tuple(dict.fromkeys((*old.notes, *record.notes, *_changes(earlier, record)))),
            "resumed_at_iterations": (*old.resumed_at_iterations, earlier.saved.progress.iteration),
        }
    )


def _changes(earlier: _Earlier, record: RunRecord) -> list[str]:
    """What the settings of the new stretch do differently."""
    old, new = earlier.record.config.model_dump(), record.config.model_dump()
    at = earlier.saved.progress.iteration
    return [
        f"from iteration {at} on, {key} is {new[key]}; it was {old[key]}"
        for key in new
        if old[key] != new[key] and key not in ("init_from", "out_dir", "eval_only")
    ]


def _look_only(trainer: Trainer, started: Started, watch: Watch) -> None:
    """Evaluates a saved run and leaves its records as they are."""
    watch(started)
    for event in trainer.events():
        watch(event)


def _writer(folder: Path, record: RunRecord, earlier: _Earlier | None) -> RunWriter:
    if earlier is None:
        return RunWriter.create(folder, record)
    return RunWriter.resume(folder, record, earlier.saved.progress.iteration)


def _warm_up(trainer: Trainer, record: RunRecord, watch: Watch) -> RunRecord:
    """Compiles where asked, and puts how that went into the record."""
    if not trainer.config.compile or trainer.config.eval_only:  # evaluations are never compiled
        return record
    watch(Message("compiling the model (up to a minute, less the next time)"))
    compiled = trainer.warm_up()
    arithmetic = record.arithmetic.model_copy(
        update={"compiled": compiled.worked, "compile_seconds": compiled.seconds if compiled.worked else None}
    )
    notes = record.notes
    if not compiled.worked:
        note = f"torch.compile failed, so this runs without it, slower: {compiled.reason}"
        if "compile" in (compiled.reason or "").lower():
            note += " (it needs a C++ compiler and Python's headers; --compile=False asks for none)"
        notes = (*notes, note)
    return record.model_copy(update={"arithmetic": arithmetic, "notes": notes})


def _describe(job: Job, choice: Choice, dataset: Dataset, vocab_size: int) -> RunRecord:
    return RunRecord(
        name=job.name,
        started_at=utc_now(),
        command=job.command,
        config=job.config,
        vocab_size=vocab_size,
        machine=describe_machine(choice.device),
        versions=_versions(),
        data=DataRecord(
            dataset=dataset.name,
            tokenizer=dataset.tokenizer,
            vocab_size=dataset.vocab_size,
            train_tokens=dataset.tokens("train"),
            val_tokens=dataset.tokens("val"),
            fingerprint=dataset.fingerprint,
        ),
        arithmetic=ArithmeticRecord(device=str(choice.device), dtype=choice.dtype, compiled=False),
        notes=(*job.notes, *choice.notes, *_schedule_notes(job.config)),
    )


def _schedule_notes(config: RunConfig) -> list[str]:
    if not config.decay_lr or config.warmup_iters < config.max_iters:
        return []
    highest = learning_rate_at(config, config.max_iters - 1)
    return [
        f"warm-up takes {config.warmup_iters} iterations and the run has {config.max_iters}: the learning "
        f"rate ends at {highest:.2e} and never reaches {config.learning_rate:.2e}"
    ]


def _versions() -> VersionsRecord:
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain")
    return VersionsRecord(
        nanodyno=__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        git_commit=commit or None,
        git_dirty=None if status is None else bool(status),
    )


def _git(*arguments: str) -> str | None:
    """Of the folder the run was started in, where a user's own changes are; None outside a repository."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _refuse_other_model(saved: ModelShape, wanted: ModelShape, folder: Path) -> None:
    differing = [
        f"{key} is {getattr(saved, key)} there and {getattr(wanted, key)} here"
        for key in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias", "gelu")
        if getattr(saved, key) != getattr(wanted, key)
    ]
    if differing:
        raise NanodynoError(
            f"{folder} holds another model: {'; '.join(differing)}",
            "resume it with the settings it was started with, or start a new run with another --name",
        )


def _refuse_other_data(old: RunRecord, new: RunRecord, folder: Path) -> None:
    """The position in the stream means nothing in another stream."""
    there, here = (old.data.fingerprint, old.config.seed), (new.data.fingerprint, new.config.seed)
    if there != here:
        raise NanodynoError(
            f"{folder} was trained on {old.data.dataset} with seed {old.config.seed}, and this is "
            f"{new.data.dataset}{' (changed since)' if old.data.dataset == new.data.dataset else ''} "
            f"with seed {new.config.seed}",
            "resume it with the data and the seed it was started with",
        )
