"""What a node of a Ray cluster does: prepare an input in a folder of its own and send the parts back."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nanodyno.data.prepare.documents import documents
from nanodyno.data.prepare.hubfiles import HubFiles
from nanodyno.data.prepare.parts import PartRecord
from nanodyno.data.prepare.pipeline import Gap, Job, Source, fill
from nanodyno.data.prepare.plan import Input, Plan, parts_folder
from nanodyno.data.prepare.reading import blocks
from nanodyno.data.prepare.transfer import Transfer
from nanodyno.data.tokenizers import Tokenizer
from nanodyno.errors import NanodynoError


@dataclass(frozen=True)
class Errand:
    """What a node needs to know for any input; source is made there, given a folder for what it fetches."""

    plan: Plan
    source: Callable[[Path], Source]
    tokenizer: Tokenizer
    threads: int


@dataclass(frozen=True)
class Sent:
    """A part as it comes from a node."""

    record: PartRecord
    fraction: float
    files: dict[str, bytes]


def prepare_parts(errand: Errand, gap: Gap) -> Iterator[Sent]:
    """The parts of a gap, one after the other. plan.tokens is minded where all parts are known, not here."""
    with TemporaryDirectory(prefix="nanodyno-") as made:
        folder = Path(made)
        parts_folder(folder).mkdir()
        source = errand.source(folder / "downloads")
        job = Job(errand.plan, source, errand.tokenizer, folder, errand.threads, seen=None)
        for step in fill(job, [replace(gap, is_tail=False)], 0):
            for record in step.finished:
                paths = [folder / shard.file for shard in record.shards.values()]
                yield Sent(record, step.fraction, {path.name: path.read_bytes() for path in paths})
                for path in paths:
                    path.unlink()


def hash_documents(errand: Errand, gap: Gap) -> list[tuple[int, bytes]]:
    """The rows of a gap that hold documents, and the hash of each."""
    found: list[tuple[int, bytes]] = []

    def note(digest: bytes, row: int) -> bool:
        if gap.until_row is None or row < gap.until_row:
            found.append((row, digest))
        return True

    with TemporaryDirectory(prefix="nanodyno-") as folder:
        given = errand.plan.inputs[gap.number]
        path = errand.source(Path(folder)).present(given, None)
        for _ in documents(blocks(path, given, errand.plan, gap.first_row), errand.plan, note, gap.first_row):
            pass
    return found


def packed(source: Source) -> Callable[[Path], Source]:
    """A source as it can be sent: what fetches from the hub is set up anew on the node."""
    if isinstance(source, HubFiles):
        fetching = (source.inputs, source.files, dict(source.transfer.headers), source.transfer.patience)
        return partial(_hub_source, *fetching)
    return partial(_Shared, source)


def _hub_source(inputs: Any, files: Any, headers: Any, patience: Any, folder: Path) -> Source:
    return HubFiles("", "", inputs, folder, keep=False, transfer=Transfer(headers, patience), files=files)


class _Shared:
    """Local files as a node finds them. A missing one is no bad input that --skip-bad may pass over."""

    def __init__(self, source: Source, folder: Path) -> None:
        del folder
        self._source = source

    def present(self, given: Input, ahead: Input | None) -> Path:
        path = self._source.present(given, ahead)
        if not path.exists():
            raise NanodynoError(
                f"{path} is not on the node {socket.gethostname()}",
                "--ray needs local files at the same path on every machine, as in a folder that they share",
            )
        return path

    def release(self, given: Input) -> None:
        pass

    def stop(self) -> None:
        pass
