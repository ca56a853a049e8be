"""A preparation from beginning to end: begun, gone on with, or verified and repaired."""

import errno
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from nanodyno.data.manifest import MANIFEST
from nanodyno.data.prepare.documents import documents
from nanodyno.data.prepare.finish import EmptySplit, finish, summary
from nanodyno.data.prepare.parts import delete_part, record_places
from nanodyno.data.prepare.pipeline import BatchWritten, FillJob, Gap, TextSource, fill
from nanodyno.data.prepare.plan import PreparationPlan, differences, parts_folder, read_plan, write_plan
from nanodyno.data.prepare.reading import blocks
from nanodyno.data.prepare.seen import SeenDocuments
from nanodyno.data.prepare.state import State, beyond_tokens, state_of
from nanodyno.data.shards import DTYPES, is_dataset
from nanodyno.data.tokenizers import Tokenizer
from nanodyno.data.writer import stopped
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Message
from nanodyno.records.lock import FolderIsTaken, FolderLock, remove_if_unused
from nanodyno.records.preparation import (
    PreparationProgress,
    PreparationRecord,
    PreparationStarted,
    PreparationWatch,
)

SEEN = "seen.sqlite"


Fill = Callable[[FillJob, list[Gap], int], Iterator[BatchWritten]]
"""A generator like pipeline.fill: closing it ends the work."""


@dataclass(frozen=True)
class PreparationResources:
    """The folder that is prepared, the number of threads that encode, and who watches."""

    folder: Path
    workers: int
    watch: PreparationWatch
    fill: Fill = fill
    """What does the work: the threads of this machine, or those of many."""


Planner = Callable[[PreparationPlan | None], tuple[PreparationPlan, Tokenizer]]
"""From the plan that a folder has already, the plan that is wanted and its tokenizer, opened or trained."""


def prepare(source: TextSource, means: PreparationResources, planner: Planner) -> PreparationRecord:
    """Everything that the folder does not have yet of the plan, then its manifest."""
    folder = means.folder
    old = _old_plan(folder)
    with _own(folder):
        is_finished = (folder / MANIFEST).exists()
        if old is not None and not is_finished and not any(record_places(folder)):
            old = None  # nothing came of it: what it asked for binds nobody
            _forget_seen(folder)
        plan, tokenizer = planner(old)
        if old is not None and (others := differences(old, plan)):
            raise prepared_otherwise(folder, others)
        write_plan(folder, plan)
        state = state_of(folder, plan)
        if not is_finished and (extra := beyond_tokens(state, plan)):
            for record in extra:
                delete_part(folder, record)
            state = state_of(folder, plan)
        return _complete(plan, tokenizer, means, state, lambda: source)


def verify(
    plan: PreparationPlan,
    tokenizer: Tokenizer,
    means: PreparationResources,
    find_source: Callable[[], TextSource],
) -> PreparationRecord:
    """Check every byte of a folder against its records, and make again what is not as it was.

    The source is looked for only when something has to be made again.
    """
    with _own(means.folder):
        state = state_of(means.folder, plan, checksums=True, threads=means.workers)
        for name in state.broken_files:
            means.watch(Message(f"not as it was prepared: {name}"))
        manifest = means.folder / MANIFEST
        before = manifest.read_bytes() if manifest.exists() else None
        record = _complete(plan, tokenizer, means, state, find_source)
        if manifest.read_bytes() != before:
            means.watch(Message(f"{MANIFEST} was not as it should be and has been written again"))
        elif not state.gaps:
            means.watch(Message(f"all {record.shards:,} shards are as they were prepared, to the byte"))
        return record


def prepared_otherwise(folder: Path, others: Sequence[str]) -> NanodynoError:
    return NanodynoError(
        f"{folder} was prepared with {'; '.join(others)}",
        "choose another folder with --out, or delete this one",
    )


def _complete(
    plan: PreparationPlan,
    tokenizer: Tokenizer,
    means: PreparationResources,
    state: State,
    find_source: Callable[[], TextSource],
) -> PreparationRecord:
    began = time.perf_counter()
    new_tokens, final = 0, state
    if state.gaps:
        means.watch(_started(plan, means, state))
        new_tokens = _fill(FillJob(plan, find_source(), tokenizer, means.folder, means.workers), means, state)
        final = state_of(means.folder, plan)
    assert not final.gaps
    try:
        dataset = finish(means.folder, plan, final.records)
    except EmptySplit:
        for record in final.records:  # so that other settings, as the hint has them, may fill the folder
            delete_part(means.folder, record)
        raise
    _forget_seen(means.folder)
    for leftover in means.folder.glob("*.bin.partial"):
        leftover.unlink()
    seconds = time.perf_counter() - began
    return summary(dataset, plan, final.records, len(state.damaged), new_tokens, seconds)


def _started(plan: PreparationPlan, means: PreparationResources, state: State) -> PreparationStarted:
    return PreparationStarted(
        folder=means.folder,
        source=plan.source,
        inputs=sum(max(1, len(given.members)) for given in plan.inputs),
        input_bytes=plan.bytes,
        tokenizer=plan.tokenizer,
        workers=means.workers,
        done_tokens=state.tokens,
        wanted_tokens=plan.tokens,
    )


def _fill(job: FillJob, means: PreparationResources, state: State) -> int:
    """Fill every gap and return the number of new tokens."""
    progress = _Progress(job.plan, state, means.watch)
    try:
        with _seen(job, means, state) as seen:
            steps = means.fill(replace(job, seen=seen), list(state.gaps), state.tokens)
            with closing(cast("Generator[BatchWritten, None, None]", steps)):
                for step in steps:
                    progress.add(step)
                    for record in step.finished:
                        if record.bad:
                            means.watch(Message(f"passed over: {record.bad}"))
                        if record.last:
                            job.source.release(job.plan.inputs[record.number])
        for given in job.plan.inputs:  # what was fetched ahead and not needed
            job.source.release(given)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise RunFailed(
            f"the disk is full: {means.folder} needs about {progress.missing_bytes / 2**20:,.1f} MiB "
            "more; finished shards stay valid",
            "free some space, then repeat the command: it continues from there",
        ) from error
    return progress.tokens


class _Progress:
    """Adds up steps and tells how far it is."""

    def __init__(self, plan: PreparationPlan, state: State, watch: PreparationWatch) -> None:
        self.tokens = self._documents = 0
        self._plan, self._watch = plan, watch
        self._began = time.perf_counter()
        self._before = state.tokens
        self._open = {gap.number: 0.0 for gap in state.gaps}
        self._done_bytes = plan.bytes - sum(plan.inputs[number].bytes for number in self._open)
        self._fraction = 0.0

    def add(self, step: BatchWritten) -> None:
        """Steps may come from several inputs by turns."""
        self._done_bytes += (step.fraction - self._open[step.number]) * self._plan.inputs[step.number].bytes
        self._open[step.number] = step.fraction
        self.tokens += step.tokens
        self._documents += step.documents
        self._fraction = self._done_bytes / max(1, self._plan.bytes)
        if self._plan.tokens is not None:
            self._fraction = max(self._fraction, (self._before + self.tokens) / self._plan.tokens)
        self._watch(
            PreparationProgress(
                tokens=self.tokens,
                documents=self._documents,
                seconds=time.perf_counter() - self._began,
                fraction=min(1.0, self._fraction),
            )
        )

    @property
    def missing_bytes(self) -> int:
        """What is still to be written, the part at work included: by the share that is done, or before
        anything is, as much as the text."""
        if not self._fraction:
            return self._plan.bytes
        tokens = (self._before + self.tokens) / self._fraction - self._before
        return int(tokens * DTYPES[self._plan.dtype].itemsize)


@contextmanager
def _seen(job: FillJob, means: PreparationResources, state: State) -> Iterator[SeenDocuments | None]:
    """What was seen before the gaps: kept since the preparation was stopped, or else read again."""
    unknown = [gap for gap in state.gaps if gap.duplicates is None]
    if not job.plan.dedup or not unknown:
        yield None
        return
    path = parts_folder(job.folder) / SEEN
    if not path.exists() and state.records:
        means.watch(Message("reading the source again for identical documents that came before"))
        _read_again(path, job.source, job.plan, unknown[-1])
    seen = SeenDocuments(path)
    try:
        yield seen
    finally:
        seen.close()


def _read_again(path: Path, source: TextSource, plan: PreparationPlan, until: Gap) -> None:
    _forget_seen(path.parent.parent)  # the log of a lost file is not that of the new one
    aside = path.with_name(f"{path.name}.partial")
    seen = SeenDocuments(aside)
    for number, given in enumerate(plan.inputs[: until.number + 1]):
        rows = blocks(source.present(given, None), given, plan)
        for _ in documents(rows, plan, lambda digest, row, n=number: seen.is_first(digest, n, row)):
            pass
        source.release(given)
    seen.close()
    aside.replace(path)


def _forget_seen(folder: Path) -> None:
    """With its log and what was read again and not to the end."""
    for leftover in parts_folder(folder).glob(f"{SEEN}*"):
        leftover.unlink()


def _old_plan(folder: Path) -> PreparationPlan | None:
    plan = read_plan(folder)
    if plan is None and is_dataset(folder):
        raise NanodynoError(
            f"{folder} holds a dataset that `nanodyno prepare` did not make",
            "choose another folder with --out, or delete this one",
        )
    return plan


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    """One process at a time works in a folder; the lock of one that was killed is free."""
    try:
        parts_folder(folder).mkdir(parents=True, exist_ok=True)
        lock = FolderLock(parts_folder(folder))
    except FolderIsTaken:
        raise NanodynoError(
            f"{folder} is being prepared by another process", "wait for it, or choose another --out"
        ) from None
    except OSError as error:
        raise stopped(folder, error) from error
    try:
        yield
    except OSError as error:
        raise stopped(folder, error) from error
    finally:
        lock.release()
        for made in (parts_folder(folder), folder):
            remove_if_unused(made)
