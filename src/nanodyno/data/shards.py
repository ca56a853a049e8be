"""Datasets on disk: a folder of raw little-endian token files with a manifest that says what they are.

The token files have no header, so nanoGPT reads them too; nanoGPT's own folders (train.bin and val.bin
without a manifest) and llm.c's shards are read as they are. Opening a dataset checks its manifest and the
size of every file, and up to 64 MiB the checksums too; above that `verify` computes them on request. Whether
ids lie within the vocabulary is checked batch by batch, by the loader.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nanodyno.data.binformats import TokenFile, is_llmc, llmc_splits
from nanodyno.data.manifest import (
    MANIFEST,
    PARTS,
    PLAN,
    again_hint,
    checked_manifest,
    read_manifest,
    reported_os_errors,
)
from nanodyno.data.stamp import sampled_digest
from nanodyno.errors import NanodynoError

SPLITS = ("train", "val")
DTYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}

# Up to this size a dataset's checksums are computed at every opening: well under a second.
_VERIFIED_AT_OPENING_BYTES = 64 * 2**20
# How far into a nanoGPT file its largest token is looked for, when its vocabulary is asked: milliseconds.
_LOOKED_AT_TOKENS = 1_000_000


class NoDataset(NanodynoError):
    """There is none of that name, or nothing in its folder."""


@dataclass(frozen=True)
class Shard:
    """One token file; documents and sha256 are None where no manifest told them."""

    path: Path
    tokens: int
    documents: int | None = None
    sha256: str | None = None
    offset_bytes: int = 0
    """Where the tokens begin."""


@dataclass(frozen=True, eq=False)
class TokenFiles(Sequence[np.ndarray]):
    """The memory-mapped token files of one split, with the names that errors call them by."""

    label: str
    names: tuple[str, ...]
    arrays: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, index: Any) -> Any:
        return self.arrays[index]


@dataclass(frozen=True)
class Dataset:
    """An opened dataset: what its tokens are and where they lie. tokenizer is None when nobody told."""

    folder: Path
    tokenizer: str | None
    vocab_size: int
    end_of_text: int | None
    dtype: str
    source: Mapping[str, Any]
    splits: Mapping[str, tuple[Shard, ...]]
    fingerprint: str

    @property
    def name(self) -> str:
        return self.folder.name

    @reported_os_errors()
    def split(self, name: str) -> TokenFiles:
        shards = self.splits[name]
        arrays = tuple(
            np.memmap(shard.path, dtype=DTYPES[self.dtype], mode="r", offset=shard.offset_bytes)
            for shard in shards
        )
        return TokenFiles(f"{self.name}/{name}", tuple(str(shard.path) for shard in shards), arrays)

    def tokens(self, split: str) -> int:
        return sum(shard.tokens for shard in self.splits[split])

    def shards(self) -> Iterator[Shard]:
        for shards in self.splits.values():
            yield from shards


@reported_os_errors()
def open_dataset(folder: Path, vocab_size: int | None = None) -> Dataset:
    """The dataset in folder, checked. vocab_size is the model's; nanoGPT's folders cannot do without it."""
    if is_begun(folder):
        raise NanodynoError(
            f"the preparation of {folder} is not finished",
            hint="repeat its command: it continues from there",
        )
    if not is_dataset(folder):
        raise NoDataset(f"no dataset in {folder}", hint=_neighbours_hint(folder))
    if (folder / MANIFEST).exists():
        dataset = dataset_from_manifest(folder, read_manifest(folder))
        check_vocabulary(dataset, vocab_size)
        check_sizes(dataset)
    elif splits := llmc_splits(folder):
        dataset = _llmc_dataset(folder, splits, vocab_size)
    else:
        dataset = _nanogpt_dataset(folder, vocab_size)
    item_bytes = DTYPES[dataset.dtype].itemsize
    if sum(shard.tokens for shard in dataset.shards()) * item_bytes <= _VERIFIED_AT_OPENING_BYTES:
        verify(dataset)
    return dataset


def is_dataset(folder: Path) -> bool:
    """Whether folder looks like a dataset of ours, nanoGPT's or llm.c's; open_dataset says if it is sound."""
    named = any((folder / name).is_file() for name in (MANIFEST, *(f"{split}.bin" for split in SPLITS)))
    return named or (not is_begun(folder) and any(is_llmc(path) for path in folder.glob("*_train_*.bin")))


def is_begun(folder: Path) -> bool:
    """Whether folder is a preparation that has not come to its manifest yet."""
    return (folder / PARTS / PLAN).is_file() and not (folder / MANIFEST).exists()


def datasets_in(data_dir: Path) -> list[str]:
    """Names of the datasets directly in data_dir, sorted; what cannot be read is left out."""
    found: list[str] = []
    with suppress(OSError):
        for path in data_dir.iterdir():
            with suppress(OSError):
                found += [path.name] if is_dataset(path) else []
    return sorted(found)


@reported_os_errors()
def verify(dataset: Dataset) -> None:
    """Recompute every checksum that the manifest tells and name the first file that is not as it was."""
    for shard in dataset.shards():
        if shard.sha256 is None:
            continue
        with shard.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != shard.sha256:
            raise NanodynoError(
                f"{shard.path} has changed since it was prepared (sha256 {found[:12]}, "
                f"its manifest says {shard.sha256[:12]})",
                hint=again_hint(dataset.folder),
            )


@reported_os_errors()
def check_sizes(dataset: Dataset) -> None:
    """Every file is there and holds exactly its tokens."""
    for shard in dataset.shards():
        if not shard.path.is_file():
            raise NanodynoError(f"{shard.path} is missing", hint=again_hint(dataset.folder))
        expected = shard.tokens * DTYPES[dataset.dtype].itemsize
        found = shard.path.stat().st_size
        if found != expected:
            raise NanodynoError(
                f"{shard.path} should have {expected} bytes ({shard.tokens} tokens) but has {found}",
                hint=again_hint(dataset.folder),
            )
    for split in SPLITS:
        if not dataset.splits.get(split):
            raise NanodynoError(
                f"{dataset.folder} has no {split} tokens",
                hint=again_hint(dataset.folder) + (", with a --val above 0" if split == "val" else ""),
            )


def dataset_from_manifest(folder: Path, reported: dict[str, Any]) -> Dataset:
    """The dataset that a manifest describes, its files not yet looked at."""
    manifest = checked_manifest(folder / MANIFEST, reported)
    splits = {
        split: tuple(
            Shard(folder / entry.file, entry.tokens, entry.documents, entry.sha256) for entry in entries
        )
        for split, entries in manifest.splits.items()
    }
    return Dataset(
        folder=folder,
        tokenizer=manifest.tokenizer,
        vocab_size=manifest.vocab_size,
        end_of_text=manifest.end_of_text,
        dtype=manifest.dtype,
        source=manifest.source,
        splits=splits,
        fingerprint=_fingerprint(reported),
    )


def check_vocabulary(dataset: Dataset, vocab_size: int | None) -> None:
    """A model of vocab_size has a row for each of the dataset's tokens; None leaves it to the dataset."""
    if vocab_size is not None and vocab_size < dataset.vocab_size:
        raise NanodynoError(
            f"{dataset.folder} has a vocabulary of {dataset.vocab_size} ({dataset.tokenizer}), "
            f"more than vocab_size={vocab_size}",
            hint=f"set vocab_size to {dataset.vocab_size} or more, or leave it out",
        )


def _llmc_dataset(
    folder: Path, found: Mapping[str, tuple[TokenFile, ...]], vocab_size: int | None
) -> Dataset:
    for split in SPLITS:
        if not found.get(split):
            raise NanodynoError(
                f"{folder} has no {split} shards", hint="llm.c's scripts write both: NAME_val_*, NAME_train_*"
            )
    if vocab_size is None:
        raise NanodynoError(
            f"{folder} does not report its vocabulary", hint="set vocab_size: 50304 for GPT-2's tokens"
        )
    splits = {
        split: tuple(Shard(f.path, f.tokens, offset_bytes=f.offset_bytes) for f in files)
        for split, files in found.items()
    }
    dtype = found["train"][0].dtype
    return Dataset(folder, None, vocab_size, None, dtype, {}, splits, _sampled_fingerprint(splits))


def _nanogpt_dataset(folder: Path, vocab_size: int | None) -> Dataset:
    if any(folder.glob(f"{MANIFEST}.*.partial")):
        raise NanodynoError(f"the preparation of {folder} was interrupted", hint=again_hint(folder))
    dtype = "uint16"
    splits = {split: (_nanogpt_shard(folder / f"{split}.bin", dtype),) for split in SPLITS}
    if vocab_size is None:
        raise NanodynoError(f"{folder} does not report its vocabulary", hint=_vocabulary_hint(folder, dtype))
    return Dataset(folder, None, vocab_size, None, dtype, {}, splits, _sampled_fingerprint(splits))


def _nanogpt_shard(path: Path, dtype: str) -> Shard:
    if not path.is_file():
        raise NanodynoError(f"{path} is missing", hint="nanoGPT's prepare.py writes both files")
    size = path.stat().st_size
    tokens, rest = divmod(size, DTYPES[dtype].itemsize)
    if rest:
        raise NanodynoError(
            f"{path} has an odd number of bytes ({size}): no file of {dtype} tokens",
            hint="it may be cut off: write it again with the program that made it",
        )
    if tokens == 0:
        raise NanodynoError(
            f"{path} is empty: there are no {path.stem} tokens",
            hint="write it again with the program that made it",
        )
    return Shard(path, tokens)


def _vocabulary_hint(folder: Path, dtype: str) -> str:
    tokens = np.fromfile(folder / "train.bin", dtype=DTYPES[dtype], count=_LOOKED_AT_TOKENS)
    largest = int(tokens.max())
    hint = (
        f"the first {len(tokens):,} tokens of train.bin go up to {largest}, "
        f"so vocab_size={largest + 1} or more; 50304 for GPT-2's"
    )
    if (folder / "meta.pkl").exists():
        hint += "; meta.pkl may hold it, but a pickle can run code when it is read, so it is never opened"
    return hint


def _fingerprint(reported: Mapping[str, Any]) -> str:
    canonical = json.dumps(reported, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _sampled_fingerprint(splits: Mapping[str, tuple[Shard, ...]]) -> str:
    """Of files that come with no checksum."""
    return _fingerprint(
        {
            shard.path.name: [shard.tokens, sampled_digest(shard.path)]
            for shards in splits.values()
            for shard in shards
        }
    )


def _neighbours_hint(folder: Path) -> str:
    there = datasets_in(folder.parent)
    return f"datasets beside it: {', '.join(there)}" if there else f"there are none in {folder.parent}"
