"""Documents to a dataset folder, so that a preparation that is killed leaves nothing that looks complete."""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.manifest import FORMAT, MANIFEST, VERSION
from nanodyno.data.shards import DTYPES, Dataset, dataset_from_manifest
from nanodyno.data.tokenizers import Tokenizer
from nanodyno.errors import NanodynoError, RunFailed


def write_dataset(
    folder: Path,
    tokenizer: Tokenizer,
    splits: Mapping[str, Iterable[CorpusDocument]],
    source: Mapping[str, Any],
) -> Dataset:
    """Tokenise every split into folder, an end-of-text before each document; what was there is replaced.

    All files are written aside first. Only when they are whole is the old manifest taken away, the files
    moved into place and, last, the new manifest: at no moment does a manifest stand beside files of
    another preparation.
    """
    dtype = "uint16" if tokenizer.vocab_size <= 2**16 else "uint32"
    aside = {split: folder / f"{split}.bin.{os.getpid()}.partial" for split in splits}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder, "*.bin.*.partial")
        entries = {
            split: [{"file": f"{split}.bin", **_write_tokens(aside[split], tokenizer, documents, dtype)}]
            for split, documents in splits.items()
        }
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "tokenizer": tokenizer.name,
            "vocab_size": tokenizer.vocab_size,
            "end_of_text": tokenizer.end_of_text,
            "dtype": dtype,
            "source": dict(source),
            "splits": entries,
        }
        _publish(folder, aside, manifest)
    except OSError as error:
        raise stopped(folder, error) from error
    finally:
        for path in aside.values():
            with suppress(OSError):
                path.unlink()
    return dataset_from_manifest(folder, manifest)


def _write_tokens(
    path: Path, tokenizer: Tokenizer, documents: Iterable[CorpusDocument], dtype: str
) -> dict[str, int | str]:
    """Stream the documents' tokens into path and return what the manifest tells of them."""
    tokens = count = 0
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for document in documents:
            ids = np.append(tokenizer.end_of_text, tokenizer.encode(document.text))
            data = ids.astype(DTYPES[dtype]).tobytes()
            file.write(data)
            digest.update(data)
            tokens += len(ids)
            count += 1
    if count == 0:
        raise NanodynoError(f"no documents for {path.name.split('.')[0]}", hint="give it at least one text")
    return {"tokens": tokens, "documents": count, "sha256": digest.hexdigest()}


def _publish(folder: Path, aside: Mapping[str, Path], manifest: Mapping[str, Any]) -> None:
    """Move everything into place; until the end a partial manifest tells readers that it is under way."""
    partial = folder / f"{MANIFEST}.{os.getpid()}.partial"
    partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    # Not sooner: a killed preparation's partial manifest keeps half-moved files from passing for nanoGPT's.
    _remove_leftovers(folder, f"{MANIFEST}.*.partial")
    (folder / MANIFEST).unlink(missing_ok=True)
    for split, path in aside.items():
        path.replace(folder / f"{split}.bin")
    partial.replace(folder / MANIFEST)


def _remove_leftovers(folder: Path, pattern: str) -> None:
    """Delete partial files whose process, named in the file's name, has ended."""
    for path in folder.glob(pattern):
        process = re.search(r"\.([1-9]\d{0,8})\.partial$", path.name)
        if process and not is_alive(int(process[1])):
            with suppress(OSError):
                path.unlink()


def is_alive(process: int) -> bool:
    """Whether a process of that number runs here; on Windows, where asking would end it, always yes."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def stopped(folder: Path, error: OSError) -> NanodynoError:
    """A full disk is a run that failed; a path that cannot be written is the user's to change."""
    message = f"preparing {folder} stopped: {error}"
    if error.errno == errno.ENOSPC:
        return RunFailed(message, hint="free some space or choose another folder")
    if isinstance(error, FileExistsError | NotADirectoryError):
        return NanodynoError(
            message, hint="a file stands where a folder is needed: choose another data folder"
        )
    if isinstance(error, PermissionError):
        return NanodynoError(
            message, hint=f"see who may use {error.filename or folder}, or choose another folder"
        )
    return RunFailed(message, hint="choose another folder")
