"""Files that survive a crash: they grow by whole lines, or are written aside, flushed and renamed.

Every byte goes through os.write and every flush through os.fsync, so that tests can let them fail.
"""

import os
from contextlib import suppress
from pathlib import Path

ASIDE = ".new"
LOG_FILE = "log.txt"
"""What a run in the background prints."""
_BINARY = getattr(os, "O_BINARY", 0)


class GrowingFile:
    """A file of lines. A line that could not be written whole is taken back; a cut last one is dropped."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
        self._size = _length_of_whole_lines(path)
        os.ftruncate(self._file, self._size)

    def append(self, line: str) -> None:
        data = line.encode() + b"\n"
        try:
            write_all(self._file, data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def flush(self) -> None:
        """To the disk itself, where a power cut leaves it."""
        os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def write_all(file: int, data: bytes | memoryview) -> None:
    """All of it: the system may take less at a time."""
    rest = memoryview(data).cast("B")
    while len(rest):
        rest = rest[os.write(file, rest) :]


def write_whole(path: Path, text: str) -> None:
    """Replaces a file: a reader sees the old one or the new one, never half."""
    aside = path.with_name(path.name + ASIDE)
    try:
        write_new(aside, text)
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink()
        raise
    flush_folder(path.parent)


def write_new(path: Path, text: str) -> None:
    """Writes a file and brings it to the disk."""
    file = create(path)
    try:
        write_all(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)


def create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o666)


def flush_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk; Windows can do no such thing, and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _length_of_whole_lines(path: Path) -> int:
    """Up to the last newline, found from the end: the file may be long."""
    step = 1 << 16
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - step)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
