"""All runs there are, read again and again: each only when it has changed since."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanodyno.analysis.summary import Summary, summarise
from nanodyno.errors import NanodynoError
from nanodyno.records.lock import is_locked
from nanodyno.records.store import EVALS_FILE, HISTORY_FILE, RUN_FILE, STEPS_FILE, Run, read_run

RunRow = tuple[Run, Summary]
Stamp = tuple[bool, tuple[tuple[int, int] | None, ...]]
"""Whether a process writes it, which alone changes when a run dies; and the time and size of each file."""


@dataclass(frozen=True)
class Listed:
    rows: tuple[RunRow, ...]
    unreadable: tuple[str, ...]
    """A sentence each."""


class Listing:
    """Remembers what it read. `folders` is asked every time: runs come and go."""

    def __init__(self, folders: Callable[[], Sequence[Path]]) -> None:
        self._folders = folders
        self._known: dict[Path, tuple[Stamp, RunRow]] = {}

    def read(self) -> Listed:
        known: dict[Path, tuple[Stamp, RunRow]] = {}
        unreadable: list[str] = []
        for folder in self._folders():
            try:
                known[folder] = self._look(folder)
            except NanodynoError as error:
                unreadable.append(error.message)
        self._known = known
        return Listed(tuple(row for _, row in known.values()), tuple(unreadable))

    def _look(self, folder: Path) -> tuple[Stamp, RunRow]:
        stamp = _stamp(folder)  # before the files are read: what is written meanwhile is seen the next time
        before = self._known.get(folder)
        if before is not None and before[0] == stamp:
            return before
        run = read_run(folder)
        summary = summarise(run)
        # A table needs no steps, and those of 100,000 iterations hold some 180 MB.
        return stamp, (dataclasses.replace(run, steps=(), evals=(), telemetry=()), summary)


def _stamp(folder: Path) -> Stamp:
    names = (RUN_FILE, STEPS_FILE, EVALS_FILE, HISTORY_FILE)
    return is_locked(folder), tuple(_time_and_size(folder / name) for name in names)


def _time_and_size(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
