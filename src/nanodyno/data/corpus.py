"""The embedded corpus: the source of the running Python's own standard library.

Text that every machine has, so that a first run needs no download and nothing is shipped. What differs
between machines with the same Python (build settings, site hooks, line endings) is left out or evened.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Split = Literal["train", "val"]

# Raised whenever the choice of files or the split changes, so that prepared datasets are made again.
CORPUS_VERSION = 1

_VAL_ONE_IN = 20
_SALT = "nanodyno:"  # with it val is 5% of the bytes too, not of the files only
_SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
_SITE_HOOKS = {"sitecustomize.py", "usercustomize.py"}
_BUILD_PREFIXES = ("_sysconfigdata", "config-")


@dataclass(frozen=True)
class CorpusDocument:
    """One text with the name that it is known by in its corpus."""

    name: str
    text: str


def stdlib_documents(split: Split, root: Path | None = None) -> Iterator[CorpusDocument]:
    """The split's source files, sorted by relative POSIX path; files that are not UTF-8 are skipped.

    root is the library's folder; by default the running Python's.
    """
    root = root or Path(sysconfig.get_path("stdlib"))
    for name in source_files(root):
        if split_of(name) == split:
            try:
                text = (root / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            yield CorpusDocument(name, text)


def stdlib_bytes(split: Split, root: Path | None = None) -> int:
    """Of the split's files, none of which is read."""
    root = root or Path(sysconfig.get_path("stdlib"))
    return sum((root / name).stat().st_size for name in source_files(root) if split_of(name) == split)


def source_files(root: Path) -> list[str]:
    """Relative POSIX paths of the library's own .py files, sorted, without tests and installed packages."""
    found: list[str] = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if not _skipped_folder(name)]
        relative = Path(folder).relative_to(root)
        found += [(relative / name).as_posix() for name in files if _is_source(name)]
    return sorted(found)


def split_of(name: str) -> Split:
    """Which split a file belongs to, by its path alone: the same on every machine, about 5% val."""
    digest = hashlib.sha256(f"{_SALT}{name}".encode()).digest()
    return "val" if int.from_bytes(digest[:8], "big") % _VAL_ONE_IN == 0 else "train"


def _skipped_folder(name: str) -> bool:
    return name in _SKIPPED_FOLDERS or name.startswith(_BUILD_PREFIXES)


def _is_source(name: str) -> bool:
    return name.endswith(".py") and name not in _SITE_HOOKS and not name.startswith(_BUILD_PREFIXES)
