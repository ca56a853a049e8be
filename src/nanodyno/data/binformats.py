"""Token files of other programs: llm.c's and modded-nanogpt's shards, and nanoGPT's train.bin and val.bin.

A shard of llm.c is a header of 256 int32 (a magic number, a version, the number of tokens, zeros) and the
tokens: uint16 after the header of its GPT-2 files, uint32 after that of its Llama 3 files. nanoGPT's files
are uint16 tokens and nothing else. Neither says which vocabulary its tokens are of.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nanodyno.errors import NanodynoError, RunFailed

if TYPE_CHECKING:
    from nanodyno.data.shards import Dataset

HEADER_BYTES = 256 * 4
LLMC_SHARD_TOKENS = 100_000_000

_DTYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_KINDS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
_MAGICS = {magic: dtype for dtype, (magic, _) in _KINDS.items()}
_MOST_TOKENS = 2**31 - 1
_SPLIT = re.compile(r"(?:^|[_-])(train|val)(?=[_.-])")
_COPIED_TOKENS = 2**22


@dataclass(frozen=True)
class TokenFile:
    """A token file of llm.c whose header agrees with its size; the tokens begin after offset_bytes."""

    path: Path
    tokens: int
    dtype: str
    offset_bytes: int = HEADER_BYTES


def is_llmc(path: Path) -> bool:
    """Whether a file begins with one of llm.c's magic numbers; a file of GPT-2's tokens cannot by chance."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(4), "little") in _MAGICS


def llmc_file(path: Path) -> TokenFile:
    """What a shard's header tells, checked against the file."""
    hint = "it may be cut off or of another kind: write it again with the program that made it"
    with path.open("rb") as file:
        raw = file.read(HEADER_BYTES)
    if len(raw) < HEADER_BYTES:
        raise NanodynoError(f"{path} has {len(raw)} bytes, less than the header of an llm.c shard", hint)
    magic, version, tokens = np.frombuffer(raw, dtype="<i4", count=3).tolist()
    if magic not in _MAGICS:
        raise NanodynoError(f"{path} is not an llm.c shard: its magic number is {magic}", hint)
    dtype = _MAGICS[magic]
    if version != _KINDS[dtype][1]:
        raise NanodynoError(
            f"{path} is an llm.c shard of version {version}; supported is version {_KINDS[dtype][1]}", hint
        )
    found = path.stat().st_size
    if tokens < 1 or found != HEADER_BYTES + tokens * _DTYPES[dtype].itemsize:
        raise NanodynoError(
            f"{path} reports {tokens:,} tokens, but {found:,} bytes of {dtype} and their header are "
            f"{(found - HEADER_BYTES) / _DTYPES[dtype].itemsize:,.1f}",
            hint,
        )
    return TokenFile(path, tokens, dtype)


def llmc_splits(folder: Path) -> dict[str, tuple[TokenFile, ...]]:
    """A folder's shards by split, which their names tell, in the order of their names; all of one dtype.

    Empty when the folder has no shard: files of other kinds are passed over.
    """
    splits: dict[str, list[TokenFile]] = {}
    for path in sorted(folder.glob("*.bin")):
        found = _SPLIT.search(path.name)
        if found and is_llmc(path):
            splits.setdefault(found[1], []).append(llmc_file(path))
    files = [file for several in splits.values() for file in several]
    other = next((file for file in files if file.dtype != files[0].dtype), None)
    if other:
        raise NanodynoError(
            f"{other.path} holds {other.dtype} tokens and {files[0].path.name} {files[0].dtype}",
            hint="they are of two vocabularies: put them into folders of their own",
        )
    return {split: tuple(several) for split, several in splits.items()}


def read_llmc(path: Path) -> np.ndarray:
    """A shard's tokens, memory-mapped."""
    file = llmc_file(path)
    return np.memmap(path, dtype=_DTYPES[file.dtype], mode="r", offset=file.offset_bytes)


def write_llmc(dataset: "Dataset", out: Path, shard_tokens: int = LLMC_SHARD_TOKENS) -> list[Path]:
    """The dataset as llm.c's shards in out: NAME_val_000000.bin, NAME_train_000001.bin and so on.

    As llm.c has them, shards are cut after shard_tokens wherever in a document that is.
    """
    assert 0 < shard_tokens <= _MOST_TOKENS
    written: list[Path] = []
    with _Replacing(dataset, out) as files:
        for split, first in (("val", 0), ("train", 1)):
            for number, pieces in _shards(dataset, split, shard_tokens):
                path = out / f"{dataset.name}_{split}_{first + number:06}.bin"
                length = min(shard_tokens, dataset.tokens(split) - number * shard_tokens)
                files.write(path, _header(dataset.dtype, length), pieces)
                written.append(path)
    return written


def write_nanogpt(dataset: "Dataset", out: Path) -> list[Path]:
    """The dataset as nanoGPT's train.bin and val.bin in out.

    nanoGPT's own scripts put the end of a text after it, we before: inside a file that is the same.
    """
    if dataset.dtype != "uint16":
        raise NanodynoError(
            f"nanoGPT's files hold uint16 and {dataset.name} has a vocabulary of {dataset.vocab_size}",
            hint="prepare it with a tokenizer of at most 65,536 tokens (gpt2), or choose llm.c",
        )
    written: list[Path] = []
    with _Replacing(dataset, out) as files:
        for split in dataset.splits:
            path = out / f"{split}.bin"
            files.write(path, b"", _pieces(dataset.split(split), 0, dataset.tokens(split)))
            written.append(path)
    return written


class _Replacing:
    """Files written aside into a folder; all of them take their places at the end, or none does."""

    def __init__(self, dataset: "Dataset", out: Path) -> None:
        self._dataset = dataset
        self._out = out
        self._aside: dict[Path, Path] = {}

    def __enter__(self) -> "_Replacing":
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            if self._out.samefile(self._dataset.folder):
                raise NanodynoError(
                    f"{self._out} already holds the dataset itself", hint="choose another folder for the copy"
                )
            self._check_space()
        except OSError as error:
            raise NanodynoError(
                f"cannot write to {self._out}: {error.strerror or error}", hint="choose another folder"
            ) from error
        return self

    def write(self, path: Path, header: bytes, pieces: Iterable[np.ndarray]) -> None:
        aside = self._aside[path] = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            with aside.open("wb") as file:
                file.write(header)
                for piece in pieces:
                    file.write(piece.data)
        except OSError as error:
            raise RunFailed(
                f"cannot write {path}: {error.strerror or error}",
                hint="free some space or choose another folder",
            ) from error

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Backwards: killed in between, one split is missing, and readers refuse what else looks whole.
        for path, aside in reversed(self._aside.items()):
            if kind is None:
                aside.replace(path)
            else:
                with suppress(OSError):
                    aside.unlink()

    def _check_space(self) -> None:
        dataset = self._dataset
        needed = sum(dataset.tokens(split) for split in dataset.splits) * _DTYPES[dataset.dtype].itemsize
        if (free := shutil.disk_usage(self._out).free) < needed:
            raise RunFailed(
                f"no space for {dataset.name} in {self._out}: it needs {needed / 2**30:.2f} GiB and "
                f"{free / 2**30:.2f} GiB are free",
                hint="free some space or choose another folder",
            )


def _header(dtype: str, tokens: int) -> bytes:
    header = np.zeros(256, dtype="<i4")
    header[:3] = (*_KINDS[dtype], tokens)
    return header.tobytes()


def _shards(dataset: "Dataset", split: str, size: int) -> Iterator[tuple[int, Iterator[np.ndarray]]]:
    tokens, arrays = dataset.tokens(split), dataset.split(split)
    for number, start in enumerate(range(0, tokens, size)):
        yield number, _pieces(arrays, start, min(start + size, tokens))


def _pieces(arrays: Iterable[np.ndarray], start: int, end: int) -> Iterator[np.ndarray]:
    """Tokens start to end of the arrays one after the other, a few MiB at a time."""
    passed = 0
    for array in arrays:
        first, last = max(start - passed, 0), min(end - passed, len(array))
        for begin in range(first, last, _COPIED_TOKENS):
            yield np.array(array[begin : min(begin + _COPIED_TOKENS, last)])
        passed += len(array)
