"""From what a user typed to a list of inputs: local files and folders, and the embedded corpus."""

import platform
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanodyno.data.corpus import source_files
from nanodyno.data.prepare.plan import Input
from nanodyno.data.prepare.reading import SUFFIXES, TEXT, suffix_of
from nanodyno.errors import NanodynoError

BUNDLE_BYTES = 64 * 2**20
"""Text files that follow each other are taken together up to this size: a shard each would be too small."""


@dataclass(frozen=True)
class LocalFiles:
    """Inputs that are on this machine already; name is what the source is, path where it was found."""

    name: str
    path: str
    root: Path
    inputs: tuple[Input, ...]

    def present(self, given: Input, ahead: Input | None) -> Path:
        del ahead
        return self.root if given.members else self.root / given.name

    def release(self, given: Input) -> None:
        pass

    def stop(self) -> None:
        pass


def local_files(typed: str) -> LocalFiles:
    """A file or a folder of text, all its files in the order of their paths."""
    path = Path(typed)
    if path.is_file():
        if not suffix_of(path.name):
            raise NanodynoError(f"{path} is not a known text format", f"known: {', '.join(SUFFIXES)}")
        return LocalFiles("files", typed, path.parent, tuple(_inputs(path.parent, [_unicode(path.name)])))
    names = sorted(_names_in(path))
    if not names:
        raise NanodynoError(f"{path} has no text files", f"known: {', '.join(SUFFIXES)}")
    return LocalFiles("files", typed, path, tuple(_inputs(path, names)))


def embedded() -> LocalFiles:
    """The source of the running Python's standard library, one document a file."""
    root = Path(sysconfig.get_path("stdlib"))
    bundle = tuple(_bundles(root, source_files(root)))
    return LocalFiles(f"python {platform.python_version()}", "python", root, bundle)


def _names_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        if suffix_of(path.name) and path.is_file() and not any(part.startswith(".") for part in inner.parts):
            yield _unicode(inner.as_posix())


def _unicode(name: str) -> str:
    """The name, which the plan will tell, or an error when it cannot."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise NanodynoError(f"the name of {name!r} is not Unicode text", "rename the file") from error
    return name


def _inputs(root: Path, names: Sequence[str]) -> Iterator[Input]:
    """One input a file, but text files together in bundles, after the others."""
    texts = [name for name in names if name.endswith(TEXT)]
    for name in names:
        if not name.endswith(TEXT):
            yield Input(name=name, bytes=(root / name).stat().st_size)
    yield from _bundles(root, texts)


def _bundles(root: Path, names: Sequence[str]) -> Iterator[Input]:
    members: list[str] = []
    size = 0
    for name in names:
        more = (root / name).stat().st_size
        if members and size + more > BUNDLE_BYTES:
            yield _bundle(members, size)
            members, size = [], 0
        members.append(name)
        size += more
    if members:
        yield _bundle(members, size)


def _bundle(members: list[str], size: int) -> Input:
    return Input(name=members[0], bytes=size, members=tuple(members))
