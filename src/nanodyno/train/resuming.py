"""Going on with a run: which one, from which checkpoint, and with which other settings that can be done."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nanodyno.config import COUNTED_IN_MICRO_BATCHES, SETTINGS, TEXT_KEYS, RunConfig, keys_where
from nanodyno.data.shards import Dataset, verify
from nanodyno.errors import NanodynoError
from nanodyno.records.events import Message, WatchRun
from nanodyno.records.lock import FolderLock
from nanodyno.records.store import (
    CHECKPOINTS_FOLDER,
    RUN_FILE,
    Run,
    read_run,
    read_run_record,
    read_steps,
    run_folders,
)
from nanodyno.records.types import RunRecord, SaveRecord
from nanodyno.records.writer import locked, refuse_foreign_folder
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint
from nanodyno.train.job import TrainingJob

ABOUT_THE_COMMAND = keys_where(lambda each: each.on_resume == "command")
"""Settings that make no other run."""
FIXED = keys_where(lambda each: each.on_resume == "fixed")
"""The checkpoint fits no other model, and the position in the data means nothing in another order."""


@dataclass(frozen=True)
class Earlier:
    """The run that is gone on with, locked; without a checkpoint, from its beginning."""

    run: Run
    saved: Checkpoint | None
    lock: FolderLock | None
    """None for a mere look."""

    @property
    def iteration(self) -> int:
        return self.saved.progress.iteration if self.saved else 0

    @property
    def evaluated(self) -> bool:
        return self.saved is not None and self.saved.progress.val_loss is not None


def earlier(job: TrainingJob, watch: WatchRun) -> Earlier | None:
    """None for a new run. A command given again goes on with its run, unless that has ended."""
    asked = job.config.init_from == "resume"
    if not asked and not (job.folder / RUN_FILE).exists():
        refuse_foreign_folder(job.folder)
        return None
    read_run_record(job.folder)
    lock = None if job.config.eval_only else locked(job.folder)
    try:
        run = read_run(job.folder, up_to_damage=True)
        if not asked:
            _refuse_unless_the_same(run, job.config)
        return Earlier(run, _newest(job.folder, run, watch), lock)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _newest(folder: Path, run: Run, watch: WatchRun) -> Checkpoint | None:
    found = checkpoint.newest(folder / CHECKPOINTS_FOLDER)
    if found is None:
        if any(isinstance(entry, SaveRecord) for entry in run.history):
            raise NanodynoError(
                f"{folder} has lost its checkpoints: none of those that it saved is there",
                "restore one from a copy, or start again under another --name",
            )
        watch(Message(f"{folder} has saved nothing yet: it starts over"))
        return None
    at = found.checkpoint.progress.iteration
    if sum(step.iteration < at for step in run.steps) < at:
        read_steps(folder)  # tells where they are damaged; where they are only missing, that is noted
    for words in found.damaged:
        watch(Message(f"{words}; resuming from iteration {at}"))
    return found.checkpoint


def unfinished(root: Path, stem: str, config: RunConfig) -> Path | None:
    """The newest of the runs stem-1, stem-2, ... that this very config has left unfinished."""
    runs = of_the_same_settings(root, stem, config)
    return next((run.folder for run in runs if not run.running and not run.finished), None)


def of_the_same_settings(root: Path, stem: str, config: RunConfig) -> Iterator[Run]:
    """The runs stem-1, stem-2, ... of this very config, newest first."""
    for folder in reversed(run_folders(root)):
        number = folder.name.removeprefix(f"{stem}-")
        if number == folder.name or not number.isdigit():
            continue
        try:
            run = read_run(folder)
            same = not _changes(run.own.config, config)
        except NanodynoError:  # damaged, or imported
            continue
        if same:
            yield run


def has_ended(earlier: Earlier, config: RunConfig) -> bool:
    return earlier.run.finished and earlier.iteration >= config.max_iters and not config.eval_only


def check(earlier: Earlier, record: RunRecord, folder: Path) -> None:
    """Refuses what cannot be gone on with, and shows all that differs."""
    old, new = earlier.run.own, record
    changed = _changes(old.config, new.config)
    if old.vocab_size == new.vocab_size:
        changed.pop("vocab_size", None)
    if old.data.fingerprint == new.data.fingerprint:
        for key in TEXT_KEYS:
            changed.pop(key, None)
    elif not set(TEXT_KEYS) & set(changed):
        changed["dataset"] = f"{old.data.dataset} has changed since"
    impossible = [key for key in changed if key in FIXED]
    if new.config.max_iters < earlier.iteration:
        impossible.append("max_iters")
        changed["max_iters"] = f"max_iters is {new.config.max_iters}, but {earlier.iteration} are done"
    if impossible:
        rest = [words for key, words in changed.items() if key not in impossible]
        raise NanodynoError(
            f"{folder} cannot be resumed like this: " + "; ".join(changed[key] for key in impossible),
            "resume it with its own settings, or start a new run with "
            "another --name" + (f" (these can be changed: {'; '.join(rest)})" if rest else ""),
        )


def check_files(earlier: Earlier, record: RunRecord, dataset: Dataset, watch: WatchRun) -> None:
    """Reads all tokens when a file was written since the run began: sizes alone do not tell."""
    if earlier.run.own.data.stamp != record.data.stamp:
        watch(Message(f"{dataset.folder} was written since the run started: checking its checksums"))
        verify(dataset)


def continued(record: RunRecord, earlier: Earlier) -> RunRecord:
    """The new stretch under the run's own name and start, with what was noted before."""
    old = earlier.run.own
    changes = _changes(old.config, record.config).values()
    at = earlier.iteration
    notes = [f"from iteration {at} on: {words}" for words in changes]
    there = sum(step.iteration < at for step in earlier.run.steps)
    if there < at:
        notes.append(f"the records of {at - there} iterations before {at} are lost")
    stretches = (*(each for each in old.resumed_at_iterations if each < at), *([at] if at else []))
    return record.model_copy(
        update={
            "name": old.name,
            "started_at": old.started_at,
            "notes": tuple(dict.fromkeys((*old.notes, *record.notes, *notes))),
            "resumed_at_iterations": stretches,
        }
    )


def _refuse_unless_the_same(run: Run, config: RunConfig) -> None:
    changed = _changes(run.own.config, config)
    if changed:
        raise NanodynoError(
            f"{run.folder} was started with other settings: {'; '.join(changed.values())}",
            f"resume that run with --resume {run.folder}, or choose another --name or --out_dir",
        )
    if run.stop is not None and run.stop.reason == "diverged":
        raise NanodynoError(
            f"{run.folder} has stopped: {run.stop.words}",
            f"the same settings would stop again: --resume {run.folder} with a lower --learning_rate, or "
            "choose another --name",
        )


def _changes(old: RunConfig, new: RunConfig) -> dict[str, str]:
    """What differs, in words, by its key. A count whose pair is the same (eval_iters) does not differ."""
    there, here = old.model_dump(), new.model_dump()
    differing = {key for key in here if here[key] != there[key] and key not in ABOUT_THE_COMMAND}
    left_out = {
        key
        for key in differing.intersection(COUNTED_IN_MICRO_BATCHES)
        if None in (here[key], there[key]) and SETTINGS[key].pair not in differing
    }
    return {key: f"{key} is {here[key]}, and was {there[key]}" for key in here if key in differing - left_out}
