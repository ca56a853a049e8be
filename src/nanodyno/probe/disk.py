"""How fast a folder's disk takes bytes for good, and gives them back."""

import os
import shutil
import tempfile
import time
from pathlib import Path

from nanodyno.records.checkup import DiskRecord
from nanodyno.records.files import write_all

CHUNK_BYTES = 2**23
LIMIT_SECONDS = 2.0
"""A slow disk gets fewer bytes."""
LARGEST_SHARE = 4
"""No more is written than this part of what is free."""


def try_disk(folder: Path, most_bytes: int = 2**28) -> DiskRecord:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return DiskRecord(folder=str(folder), fault=error.strerror or str(error))
    room = min(most_bytes, free // LARGEST_SHARE)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".nanodyno-disk-", buffering=0) as file:
            return _timed(file.fileno(), folder, free, room)
    except OSError as error:
        return DiskRecord(folder=str(folder), free_bytes=free, fault=error.strerror or str(error))


def _timed(file: int, folder: Path, free: int, room: int) -> DiskRecord:
    chunk = os.urandom(min(CHUNK_BYTES, max(1, room)))  # nothing that a file system could press together
    written = 0
    began = time.perf_counter()
    while written + len(chunk) <= room and time.perf_counter() - began < LIMIT_SECONDS:
        write_all(file, chunk)
        written += len(chunk)
    os.fsync(file)
    write_seconds = time.perf_counter() - began
    return DiskRecord(
        folder=str(folder),
        free_bytes=free,
        bytes=written or None,
        write_seconds=write_seconds if written else None,
        read_seconds=_read_seconds(file) if written else None,
    )


def _read_seconds(file: int) -> float | None:
    """From the disk and not from memory, where the system can be told to forget."""
    if not hasattr(os, "posix_fadvise"):
        return None
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.lseek(file, 0, os.SEEK_SET)
    began = time.perf_counter()
    while os.read(file, CHUNK_BYTES):
        pass
    return time.perf_counter() - began
