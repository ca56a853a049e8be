"""Files with measurements that others sent: results of runs and ceilings of GPUs, one of them or a folder."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nanodyno.errors import NanodynoError
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.records.ceilings import read_ceilings
from nanodyno.records.exported import CEILINGS_FORMAT, RESULT_FORMAT, format_of
from nanodyno.records.importers.results import run_of_result
from nanodyno.records.importers.source import clean, unreadable
from nanodyno.records.store import Run

HINT = "`nanodyno runs --export` and `nanodyno doctor --export` write such files"


@dataclass(frozen=True)
class MeasuredFiles:
    """What was read, in the order of the files' names."""

    runs: tuple[Run, ...]
    ceilings: tuple[Ceilings, ...]
    damaged: tuple[str, ...] = ()
    """Why files of a folder were passed over, each with the file's name."""


def read_measured(path: Path) -> MeasuredFiles:
    """Return what a file holds, or the files of a folder that end in .json and are of such a format.

    A damaged file is an error, and in a folder it is passed over. Raises NanodynoError if nothing is left.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - unlike Path's, false for an impossible name
        return _sorted([_read(path)], [])
    found: list[Run | Ceilings] = []
    faults: list[str] = []
    for each in _of_folder(path):
        try:
            found.append(_read(each))
        except NanodynoError as error:
            faults.append(error.message)
    if not found:
        why = f": {faults[0]}" if faults else ""
        raise NanodynoError(f"{clean(str(path))} has no result and no ceilings of a GPU{why}", HINT)
    return _sorted(found, faults)


def _of_folder(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(folder.glob("*.json"))
    except OSError as error:
        raise NanodynoError(f"{clean(str(folder))} cannot be read: {error.strerror}") from error
    return (each for each in paths if format_of(each) in (RESULT_FORMAT, CEILINGS_FORMAT))


def _read(path: Path) -> Run | Ceilings:
    kind = format_of(path)
    if kind == RESULT_FORMAT:
        return run_of_result(path)
    if kind == CEILINGS_FORMAT:
        return read_ceilings(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise unreadable(path, error) from None
    raise NanodynoError(f"{clean(path.name)} holds no result and no ceilings of nanodyno", HINT)


def _sorted(found: list[Run | Ceilings], faults: list[str]) -> MeasuredFiles:
    return MeasuredFiles(
        tuple(each for each in found if isinstance(each, Run)),
        tuple(each for each in found if isinstance(each, Ceilings)),
        tuple(faults),
    )
