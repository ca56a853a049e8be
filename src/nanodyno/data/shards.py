"""Datasets on disk: a folder of raw little-endian token files with a manifest that says what they are.

The token files have no header, so nanoGPT reads them too, and nanoGPT's own folders (train.bin and val.bin
without a manifest) are read as they are. Everything is checked when a dataset is opened, before a run has
spent anything on it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nanodyno.errors import NanodynoError

MANIFEST = "manifest.json"
FORMAT = "nanodyno-shards"
VERSION = 1
SPLITS = ("train", "val")
DTYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}

# Up to this size a dataset's checksums are computed at every opening: well under a second.
_VERIFIED_AT_OPENING_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Shard:
    """One token file; documents and sha256 are None where no manifest told them."""

    path: Path
    tokens: int
    documents: int | None = None
    sha256: str | None = None


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

    def split(self, name: str) -> TokenFiles:
        shards = self.splits[name]
        arrays = tuple(np.memmap(shard.path, dtype=DTYPES[self.dtype], mode="r") for shard in shards)
        return TokenFiles(f"{self.name}/{name}", tuple(str(shard.path) for shard in shards), arrays)

    def tokens(self, split: str) -> int:
        return sum(shard.tokens for shard in self.splits[split])

    def shards(self) -> Iterator[Shard]:
        for shards in self.splits.values():
            yield from shards


def open_dataset(folder: Path, vocab_size: int | None = None) -> Dataset:
    """The dataset in folder, checked. vocab_size is the model's; nanoGPT's folders cannot do without it."""
    if not is_dataset(folder):
        raise NanodynoError(f"no dataset in {folder}", hint=_neighbours_hint(folder))
    if (folder / MANIFEST).exists():
        dataset = dataset_from_manifest(folder, _read_manifest(folder))
        check_vocabulary(dataset, vocab_size)
    else:
        dataset = _nanogpt_dataset(folder, vocab_size)
    check_sizes(dataset)
    item_bytes = DTYPES[dataset.dtype].itemsize
    if sum(shard.tokens for shard in dataset.shards()) * item_bytes <= _VERIFIED_AT_OPENING_BYTES:
        verify(dataset)
    return dataset


def is_dataset(folder: Path) -> bool:
    """Whether folder looks like a dataset of ours or of nanoGPT's; open_dataset says whether it is sound."""
    return (folder / MANIFEST).is_file() or any((folder / f"{split}.bin").is_file() for split in SPLITS)


def datasets_in(data_dir: Path) -> list[str]:
    """Names of the datasets directly in data_dir, sorted."""
    if not data_dir.is_dir():
        return []
    return sorted(path.name for path in data_dir.iterdir() if is_dataset(path))


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
                hint=_again_hint(dataset.folder),
            )


def check_sizes(dataset: Dataset) -> None:
    """Every file is there and holds exactly its tokens."""
    for shard in dataset.shards():
        if not shard.path.is_file():
            raise NanodynoError(f"{shard.path} is missing", hint=_again_hint(dataset.folder))
        expected = shard.tokens * DTYPES[dataset.dtype].itemsize
        found = shard.path.stat().st_size
        if found != expected:
            raise NanodynoError(
                f"{shard.path} should have {expected} bytes ({shard.tokens} tokens) but has {found}",
                hint=_again_hint(dataset.folder),
            )
    for split in SPLITS:
        if not dataset.splits.get(split) or dataset.tokens(split) == 0:
            raise NanodynoError(f"{dataset.folder} has no {split} tokens", hint=_again_hint(dataset.folder))


def dataset_from_manifest(folder: Path, manifest: dict[str, Any]) -> Dataset:
    """The dataset that a manifest describes, its files not yet looked at."""
    path = folder / MANIFEST
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise NanodynoError(
            f"{path} is {manifest.get('format')!r} version {manifest.get('version')!r}; "
            f"this nanodyno reads {FORMAT!r} version {VERSION}",
            hint="prepare the dataset again, or use the nanodyno that wrote it",
        )
    try:
        splits = {
            split: tuple(_shard(folder, entry) for entry in entries)
            for split, entries in manifest["splits"].items()
        }
        dataset = Dataset(
            folder=folder,
            tokenizer=manifest["tokenizer"],
            vocab_size=int(manifest["vocab_size"]),
            end_of_text=manifest["end_of_text"],
            dtype=manifest["dtype"],
            source=dict(manifest["source"]),
            splits=splits,
            fingerprint=_fingerprint(manifest),
        )
        DTYPES[dataset.dtype]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NanodynoError(
            f"{path} is damaged: {type(error).__name__} {error}", hint=_again_hint(folder)
        ) from error
    return dataset


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NanodynoError(f"{path} is not JSON: {error}", hint=_again_hint(folder)) from error
    if not isinstance(manifest, dict):
        raise NanodynoError(f"{path} is not a manifest", hint=_again_hint(folder))
    return manifest


def _shard(folder: Path, entry: dict[str, Any]) -> Shard:
    name = entry["file"]
    if Path(name).name != name:
        raise ValueError(f"file {name!r} is not a plain name")
    return Shard(folder / name, int(entry["tokens"]), entry["documents"], entry["sha256"])


def check_vocabulary(dataset: Dataset, vocab_size: int | None) -> None:
    """A model of vocab_size has a row for each of the dataset's tokens; None leaves it to the dataset."""
    if vocab_size is not None and vocab_size < dataset.vocab_size:
        raise NanodynoError(
            f"{dataset.folder} has a vocabulary of {dataset.vocab_size} ({dataset.tokenizer}), "
            f"more than vocab_size={vocab_size}",
            hint=f"set vocab_size to {dataset.vocab_size} or more, or leave it out",
        )


def _nanogpt_dataset(folder: Path, vocab_size: int | None) -> Dataset:
    if any(folder.glob(f"{MANIFEST}.*.partial")):
        raise NanodynoError(f"the preparation of {folder} was interrupted", hint=_again_hint(folder))
    if vocab_size is None:
        raise NanodynoError(f"{folder} does not say its vocabulary", hint=_vocabulary_hint(folder))
    dtype = "uint16"
    splits: dict[str, tuple[Shard, ...]] = {}
    for split in SPLITS:
        path = folder / f"{split}.bin"
        if not path.is_file():
            raise NanodynoError(f"{path} is missing", hint="nanoGPT's prepare.py writes both files")
        tokens, rest = divmod(path.stat().st_size, DTYPES[dtype].itemsize)
        if rest:
            raise NanodynoError(
                f"{path} has an odd number of bytes ({path.stat().st_size}): no file of uint16 tokens",
                hint="it may be cut off: write it again with nanoGPT's prepare.py",
            )
        splits[split] = (Shard(path, tokens),)
    sizes = {shard.path.name: shard.tokens for shards in splits.values() for shard in shards}
    return Dataset(folder, None, vocab_size, None, dtype, {}, splits, _fingerprint(sizes))


def _vocabulary_hint(folder: Path) -> str:
    hint = "give vocab_size, e.g. vocab_size=50304 for GPT-2's tokens"
    if (folder / "meta.pkl").exists():
        hint += "; meta.pkl may hold it, but a pickle can run code when it is read, so it is never opened"
    return hint


def _fingerprint(told: Mapping[str, Any]) -> str:
    canonical = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _neighbours_hint(folder: Path) -> str:
    there = datasets_in(folder.parent)
    return f"datasets beside it: {', '.join(there)}" if there else f"there are none in {folder.parent}"


def _again_hint(folder: Path) -> str:
    return f"delete {folder} and prepare it again"
