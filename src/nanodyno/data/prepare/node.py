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
from nanodyno.data.prepare.pipeline import FillJob, Gap, TextSource, fill
from nanodyno.data.prepare.plan import Input, PreparationPlan, parts_folder
from nanodyno.data.prepare.reading import blocks
from nanodyno.data.prepare.transfer import Transfer
from nanodyno.data.tokenizers import Tokenizer
from nanodyno.errors import NanodynoError


@dataclass(frozen=True)
class NodeTask:
    """What a node needs to know for any input; source is made there, given a folder for what it fetches."""

    plan: PreparationPlan
    source: Callable[[Path], TextSource]
    tokenizer: Tokenizer
    threads: int


@dataclass(frozen=True)
class Sent:
    """A part as it comes from a node."""

    record: PartRecord
    fraction: float
    files: dict[str, bytes]


def prepare_parts(task: NodeTask, gap: Gap) -> Iterator[Sent]:
    """The parts of a gap, one after the other. plan.tokens is minded where all parts are known, not here."""
    with TemporaryDirectory(prefix="nanodyno-") as made:
        folder = Path(made)
        parts_folder(folder).mkdir()
        source = task.source(folder / "downloads")
        job = FillJob(task.plan, source, task.tokenizer, folder, task.threads, seen=None)
        for step in fill(job, [replace(gap, is_tail=False)], 0):
            for record in step.finished:
                paths = [folder / shard.file for shard in record.shards.values()]
                yield Sent(record, step.fraction, {path.name: path.read_bytes() for path in paths})
                for path in paths:
                    path.unlink()


def hash_documents(task: NodeTask, gap: Gap) -> list[tuple[int, bytes]]:
    """The rows of a gap that hold documents, and the hash of each."""
    found: list[tuple[int, bytes]] = []

    def note(digest: bytes, row: int) -> bool:
        if gap.until_row is None or row < gap.until_row:
            found.append((row, digest))
        return True

    with TemporaryDirectory(prefix="nanodyno-") as folder:
        given = task.plan.inputs[gap.number]
        path = task.source(Path(folder)).present(given, None)
        for _ in documents(blocks(path, given, task.plan, gap.first_row), task.plan, note, gap.first_row):
            pass
    return found


def packed(source: TextSource) -> Callable[[Path], TextSource]:
    """A source as it can be sent: what fetches from the hub is set up anew on the node."""
    if isinstance(source, HubFiles):
        fetching = (source.inputs, source.files, dict(source.transfer.headers), source.transfer.patience)
        return partial(_hub_source, *fetching)
    return partial(_Shared, source)


def _hub_source(inputs: Any, files: Any, headers: Any, patience: Any, folder: Path) -> TextSource:
    return HubFiles("", "", inputs, folder, keep=False, transfer=Transfer(headers, patience), files=files)


class _Shared:
    """Local files as a node finds them. A missing one is no bad input that --skip-bad may pass over."""

    def __init__(self, source: TextSource, folder: Path) -> None:
        del folder
        self._source = source

    def present(self, given: Input, ahead: Input | None) -> Path:
        path = self._source.present(given, ahead)
        if not path.exists():
            raise NanodynoError(
                f"{path} is not on the node {socket.gethostname()}",
                "--ray needs local files at the same path on every machine, such as a shared folder",
            )
        return path

    def release(self, given: Input) -> None:
        pass

    def stop(self) -> None:
        pass
