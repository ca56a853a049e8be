"""The one writer of a run folder: claims it, appends records, and takes it up again after a stop."""

import errno
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.files import ASIDE, LOG_FILE, GrowingFile, flush_folder, write_whole
from nanodyno.records.lock import LOCK_FILE, FolderIsTaken, FolderLock, remove_if_unused
from nanodyno.records.store import (
    EVALS_FILE,
    HISTORY_FILE,
    RUN_FILE,
    STEPS_FILE,
    TELEMETRY_FILE,
    read_evals,
    read_history,
    read_steps,
    read_telemetry,
)
from nanodyno.records.types import (
    EvalRecord,
    HistoryRecord,
    Record,
    RunRecord,
    StartRecord,
    StepRecord,
    TelemetryRecord,
)

ELSEWHERE = "choose another --name or --out_dir"
LEFT_BY_A_KILL = (RUN_FILE + ASIDE, LOCK_FILE, LOG_FILE)
"""All that a run killed in its first moment leaves behind."""
GROWING_FILES = (STEPS_FILE, EVALS_FILE, HISTORY_FILE, TELEMETRY_FILE)


class RunWriter:
    """Appends records to one run folder; every record is handed to the operating system at once.

    Until it is closed no other process writes there.
    """

    def __init__(self, folder: Path, lock: FolderLock | None = None) -> None:
        self.folder = folder
        self._lock = lock or locked(folder)
        try:
            self._steps, self._evals, self._history, self._telemetry = self._files = tuple(
                GrowingFile(folder / name) for name in GROWING_FILES
            )
        except OSError:
            self._lock.release()
            raise

    @classmethod
    def create(cls, folder: Path, record: RunRecord) -> Self:
        """Claims a folder for a new run; refuses one that holds anything already."""
        refuse_foreign_folder(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            writer = cls(folder)
        except OSError as error:
            raise _cannot_write(folder, error) from error
        try:
            # Of two processes that start under one new name at once, the first to lock the folder has it.
            if (folder / RUN_FILE).exists():
                raise _belongs_to_another(folder)
            writer.replace_run(record)
            flush_folder(folder.parent)
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def resume(
        cls,
        folder: Path,
        record: RunRecord,
        iteration: int,
        evaluated: bool,
        lock: FolderLock | None = None,
    ) -> Self:
        """Reopens a run at an iteration; records of later work, which will be done again, are dropped.

        evaluated tells whether the evaluation at that very iteration is part of what was saved. The lock may
        have been taken before, so that what was read of the run is still so.
        """
        lock = lock or locked(folder)
        last = iteration if evaluated else iteration - 1
        steps, evals = read_steps(folder, up_to_damage=True), read_evals(folder, up_to_damage=True)
        try:
            _replace(folder / STEPS_FILE, (step for step in steps if step.iteration < iteration))
            _replace(folder / EVALS_FILE, (entry for entry in evals if entry.iteration <= last))
            _replace(folder / HISTORY_FILE, read_history(folder, up_to_damage=True))
            samples = read_telemetry(folder)
            _replace(folder / TELEMETRY_FILE, (each for each in samples if each.iteration <= iteration))
            _write_run(folder, record)
            return cls(folder, lock)
        except OSError as error:
            lock.release()
            raise _cannot_write(folder, error) from error

    def replace_run(self, record: RunRecord) -> None:
        _write_run(self.folder, record)

    def append(self, record: StepRecord | EvalRecord | HistoryRecord | TelemetryRecord) -> None:
        match record:
            case StepRecord():
                file = self._steps
            case EvalRecord():
                file = self._evals
            case TelemetryRecord():
                file = self._telemetry
            case _:
                file = self._history
        file.append(_line(record))

    def flush(self) -> None:
        """Brings all records to the disk, so that no checkpoint is there without the steps before it."""
        for file in self._files:
            file.flush()

    def abandon(self) -> None:
        """Takes back a run that ended before its first record, so that its name is free again."""
        for name in (RUN_FILE, *GROWING_FILES, LOCK_FILE):
            with suppress(PermissionError):  # Windows removes no open file
                (self.folder / name).unlink(missing_ok=True)
        self.close()
        remove_if_unused(self.folder)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def claim_folder(stem: Path) -> Path:
    """Makes the first free one of stem-1, stem-2, ... and no other process gets the same."""
    number = 1
    while True:
        folder = stem.with_name(f"{stem.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise _cannot_write(folder, error) from error
        else:
            return folder


def refuse_foreign_folder(folder: Path) -> None:
    """A new run starts in an empty or absent folder, so that nobody's files are written over."""
    try:
        if not folder.exists():
            return
        if (folder / RUN_FILE).exists():
            raise _belongs_to_another(folder)
        if not folder.is_dir():
            raise NanodynoError(f"{folder} is a file, but a run needs a folder", ELSEWHERE)
        for path in folder.iterdir():
            left = path.name in LEFT_BY_A_KILL or (path.name in GROWING_FILES and not path.stat().st_size)
            if not left:
                raise NanodynoError(f"{folder} is not empty and is not a run of nanodyno", ELSEWHERE)
    except OSError as error:
        raise NanodynoError(f"cannot use {folder}: {error.strerror}", ELSEWHERE) from error


def _taken(folder: Path) -> NanodynoError:
    history = read_history(folder, up_to_damage=True)
    starts = [entry for entry in history if isinstance(entry, StartRecord)]
    who = f"process {starts[-1].process} on {starts[-1].host}" if starts else "another process"
    return NanodynoError(
        f"{folder} is being written by {who}",
        "`nanodyno runs --watch` shows it. Wait for its end, stop it, or choose another --name",
    )


def disk_is_full(place: Path) -> RunFailed:
    return RunFailed(
        f"the disk is full: {place}",
        "free space and repeat the command. The records and the last checkpoint are kept",
    )


def locked(folder: Path) -> FolderLock:
    """Two processes never write one run."""
    try:
        return FolderLock(folder)
    except FolderIsTaken:
        raise _taken(folder) from None
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _belongs_to_another(folder: Path) -> NanodynoError:
    return NanodynoError(
        f"{folder} belongs to another run",
        f"resume that run with --resume {folder}, or {ELSEWHERE}",
    )


def _cannot_write(folder: Path, error: OSError) -> NanodynoError:
    if error.errno == errno.ENOSPC:
        return disk_is_full(folder)
    return NanodynoError(
        f"cannot write the run folder {folder}: {error.strerror}",
        "check its permissions, or choose another with --out_dir",
    )


def _replace(path: Path, records: Iterable[Record]) -> None:
    write_whole(path, "".join(_line(record) + "\n" for record in records))


def _line(record: Record) -> str:
    """A sample of a machine without a GPU leaves half of its fields out."""
    return record.model_dump_json(exclude_none=isinstance(record, TelemetryRecord))


def _write_run(folder: Path, record: RunRecord) -> None:
    write_whole(folder / RUN_FILE, record.model_dump_json(indent=2) + "\n")
