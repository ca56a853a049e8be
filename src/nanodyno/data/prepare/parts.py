"""Parts: a stretch of an input's documents as at most one token file per split, and a record written last.

A part is valid when its record is there and its files are what the record says. Whatever is not valid is
made again, so a preparation may be killed at any moment.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from pydantic import Field, ValidationError

from nanodyno.data.manifest import ShardEntry
from nanodyno.data.prepare.documents import Dropped
from nanodyno.data.prepare.plan import Frozen, parts_folder, write_aside
from nanodyno.data.shards import DTYPES
from nanodyno.errors import RunFailed

SPLIT_OF = {False: "train", True: "val"}


class PartRecord(Frozen):
    """What one part holds and where in its input it lies."""

    input: str
    number: int
    part: int
    first_row: int
    next_row: int
    last: bool
    """Nothing of this input follows: it ended, or the tokens that were asked for are there."""
    shards: Mapping[str, ShardEntry]
    empty: int
    low_score: int
    broken: int
    invalid_utf8: int
    duplicates: tuple[int, ...] = Field(strict=False)
    bad: str | None = None
    """Why the input could not be read to its end, where such input is passed over."""

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards.values())

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards.values())


def record_path(folder: Path, number: int, part: int) -> Path:
    return parts_folder(folder) / f"{number:05d}-{part:03d}.json"


def record_places(folder: Path) -> Iterator[tuple[int, int]]:
    """The number and part of every record that there is, sound or not."""
    for path in parts_folder(folder).iterdir():
        if found := re.fullmatch(r"(\d{5,})-(\d{3,})\.json", path.name):
            yield int(found[1]), int(found[2])


def read_record(folder: Path, number: int, part: int) -> PartRecord | None:
    """The record of a part; None when it is missing or damaged."""
    try:
        record = PartRecord.model_validate_json(record_path(folder, number, part).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return record if (record.number, record.part) == (number, part) else None


def delete_part(folder: Path, record: PartRecord) -> None:
    """The record first: without it the files are nothing."""
    record_path(folder, record.number, record.part).unlink(missing_ok=True)
    for shard in record.shards.values():
        (folder / shard.file).unlink(missing_ok=True)


def broken_files(folder: Path, record: PartRecord, dtype: str, checksums: bool) -> list[str]:
    """Files of a part that are missing or of the wrong size, and with checksums, of the wrong content."""
    item_bytes = DTYPES[dtype].itemsize
    shards = record.shards.values()
    return [s.file for s in shards if not _is_file_whole(folder / s.file, s, item_bytes, checksums)]


def _is_file_whole(path: Path, shard: ShardEntry, item_bytes: int, checksum: bool) -> bool:
    try:
        if path.stat().st_size != shard.tokens * item_bytes:
            return False
        if not checksum:
            return True
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256
    except FileNotFoundError:
        return False


class _TokenFile:
    """One split of a part, written aside until it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.aside = path.with_name(f"{path.name}.partial")
        self.tokens = self.documents = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO = self.aside.open("wb")

    def write(self, tokens: np.ndarray, documents: int) -> None:
        data = tokens.data.cast("B")
        self._file.write(data)
        self._digest.update(data)
        self.tokens += len(tokens)
        self.documents += documents

    def close(self) -> ShardEntry:
        """All is on the disk, still aside."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return ShardEntry(
            file=self.path.name,
            tokens=self.tokens,
            documents=self.documents,
            sha256=self._digest.hexdigest(),
        )

    def discard(self) -> None:
        self._file.close()
        self.aside.unlink(missing_ok=True)


class PartWriter:
    """Collects one part; finish() makes it valid, discard() leaves nothing of it."""

    def __init__(self, folder: Path, number: int, part: int, first_row: int) -> None:
        self._folder = folder
        self._number, self._part, self._first_row = number, part, first_row
        self._files: dict[bool, _TokenFile] = {}
        self._dropped = Dropped()
        self._invalid_utf8 = 0
        self._last_invalid = -1

    @property
    def tokens(self) -> int:
        return sum(file.tokens for file in self._files.values())

    def write(self, is_val: bool, tokens: np.ndarray, documents: int) -> None:
        if len(tokens) == 0:
            return
        if is_val not in self._files:
            name = f"{SPLIT_OF[is_val]}-{self._number:05d}-{self._part:03d}.bin"
            self._files[is_val] = _TokenFile(self._folder / name)
        self._files[is_val].write(tokens, documents)

    def drop(self, dropped: Dropped) -> None:
        self._dropped.add(dropped)

    def count_invalid(self, row: int) -> None:
        """Rows come in order, a long document's once per piece."""
        self._invalid_utf8 += row != self._last_invalid
        self._last_invalid = row

    def finish(self, name: str, next_row: int, last: bool, bad: str | None = None) -> PartRecord:
        """Files first, the record last. A part that is made again must come out as it was."""
        record = PartRecord(
            input=name,
            number=self._number,
            part=self._part,
            first_row=self._first_row,
            next_row=next_row,
            last=last,
            shards={SPLIT_OF[is_val]: self._files[is_val].close() for is_val in sorted(self._files)},
            empty=self._dropped.empty,
            low_score=self._dropped.low_score,
            broken=self._dropped.broken,
            invalid_utf8=self._invalid_utf8,
            duplicates=tuple(self._dropped.duplicates),
            bad=bad,
        )
        old = read_record(self._folder, self._number, self._part)
        if old is not None and old != record:
            raise RunFailed(
                f"{name} has changed since {self._folder} was prepared: its tokens differ",
                f"delete {self._folder} and prepare it again",
            )
        for file in self._files.values():
            file.aside.replace(file.path)
        write_aside(record_path(self._folder, self._number, self._part), record.model_dump_json() + "\n")
        return record

    def discard(self) -> None:
        for file in self._files.values():
            file.discard()
