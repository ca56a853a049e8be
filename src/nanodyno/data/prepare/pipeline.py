"""Reading, encoding and writing side by side: one thread reads, many encode, the caller's writes in order.

Batches are written in the order in which they were read, so the output is the same for any number of workers.
Threads are enough: the tokenizers let go of Python's lock while they encode.
"""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from nanodyno.data.prepare.documents import Dropped, End, IsFirst, KeptDocument, documents
from nanodyno.data.prepare.encoding import Encoded, EncodingBatch, batches, encode
from nanodyno.data.prepare.parts import PartRecord, PartWriter
from nanodyno.data.prepare.plan import Input, PreparationPlan
from nanodyno.data.prepare.reading import blocks
from nanodyno.data.prepare.seen import SeenDocuments
from nanodyno.data.tokenizers import Tokenizer


class TextSource(Protocol):
    """Where inputs come from."""

    def present(self, given: Input, ahead: Input | None) -> Path:
        """The input as a local file (of a bundle, its folder); the one ahead is wanted next."""
        ...

    def release(self, given: Input) -> None:
        """The input is done with."""
        ...

    def stop(self) -> None:
        """Nothing more is wanted: a present() that waits in another thread ends with an error."""
        ...


@dataclass(frozen=True)
class Gap:
    """Rows of an input that have yet to be prepared: from first_row, where part begins, up to until_row."""

    number: int
    part: int = 0
    first_row: int = 0
    until_row: int | None = None
    duplicates: frozenset[int] | None = None
    """Rows that repeat an earlier document, where that is known; else it is asked of what was seen."""
    is_tail: bool = True
    """No valid part follows, so that plan.tokens may be reached here."""


@dataclass(frozen=True)
class FillJob:
    """What filling a gap needs."""

    plan: PreparationPlan
    source: TextSource
    tokenizer: Tokenizer
    folder: Path
    workers: int
    seen: SeenDocuments | None = None
    """None when nothing is removed, or every gap knows its duplicates."""


@dataclass(frozen=True)
class BatchWritten:
    """A batch has been written: which input, how much of it has been read, and what is new."""

    number: int
    fraction: float
    tokens: int
    documents: int
    finished: tuple[PartRecord, ...]


def fill(job: FillJob, gaps: list[Gap], tokens_before: int) -> Iterator[BatchWritten]:
    """Prepare the gaps in order. tokens_before is what stands before the first, counted for plan.tokens.

    What a step tells of is on disk. Closing the generator, or an error, discards the part at work and
    leaves all others valid.
    """
    with _Ahead(job, gaps) as ahead:
        tokens = tokens_before
        sink: _Sink | None = None
        try:
            for gap, future in ahead:
                if sink is None or sink.gap is not gap:
                    if gap.is_tail and job.plan.tokens is not None and tokens >= job.plan.tokens:
                        return
                    sink = _Sink(job, gap, tokens)
                encoded = future.result()
                documents_before = sink.documents
                finished = tuple(sink.write(encoded))
                new = sink.tokens_before - tokens, sink.documents - documents_before
                tokens = sink.tokens_before
                yield BatchWritten(gap.number, encoded.batch.fraction, *new, finished)
                if sink.is_enough:
                    return
        finally:
            if sink is not None:
                sink.discard()


class _Sink:
    """Writes the batches of one gap, part by part. A new part begins with the document before which the
    part has its shard_tokens; all ends with the document that reaches plan.tokens."""

    def __init__(self, job: FillJob, gap: Gap, tokens_before: int) -> None:
        self.gap = gap
        self.tokens_before = tokens_before
        self.documents = 0
        self.is_enough = False
        self._job = job
        self._name = job.plan.inputs[gap.number].name
        self._limit = job.plan.tokens if gap.is_tail else None
        self._part = gap.part
        self._writer: PartWriter | None = PartWriter(job.folder, gap.number, gap.part, gap.first_row)

    def write(self, encoded: Encoded) -> Iterator[PartRecord]:
        start, count = 0, len(encoded.lengths)
        while start < count:
            end = self._next_cut(encoded, start)
            self._append(encoded, start, end)
            start = end
            if end < count:
                self.is_enough = self._reached(self.tokens_before)
                row = encoded.batch.documents[end].since_row
                yield self._finish(row, last=self.is_enough)
                if self.is_enough:
                    return
                self._part += 1
                self._writer = PartWriter(self._job.folder, self.gap.number, self._part, row)
        if encoded.batch.end is not None:
            ending = encoded.batch.end
            self._current.drop(ending.dropped)
            yield self._finish(ending.row, last=self.gap.until_row is None, bad=ending.bad)

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()

    @property
    def _current(self) -> PartWriter:
        assert self._writer is not None
        return self._writer

    def _reached(self, tokens: int) -> bool:
        return self._limit is not None and tokens >= self._limit

    def _next_cut(self, encoded: Encoded, start: int) -> int:
        """The first document from start on that does not belong to this part any more."""
        lengths = encoded.lengths[start:]
        before = np.cumsum(lengths) - lengths
        full = before + self._current.tokens >= self._job.plan.shard_tokens
        if self._limit is not None:
            full |= before + self.tokens_before >= self._limit
        cuts = np.flatnonzero(full & encoded.first[start:])
        return start + int(cuts[0]) if len(cuts) else len(encoded.lengths)

    def _append(self, encoded: Encoded, start: int, end: int) -> None:
        here = slice(start, end)
        for is_val in (False, True):
            of_split = encoded.is_val == is_val
            first = int(encoded.lengths[:start][of_split[:start]].sum())
            count = int(encoded.lengths[here][of_split[here]].sum())
            begun = int((encoded.first[here] & of_split[here]).sum())
            self._current.write(is_val, encoded.tokens[is_val][first : first + count], begun)
            self.documents += begun
        self.tokens_before += int(encoded.lengths[here].sum())
        for number in np.flatnonzero(encoded.first[here]).tolist():
            self._current.drop(encoded.batch.documents[start + number].dropped)
        if end > start:
            rows = range(encoded.batch.documents[start].row, encoded.batch.documents[end - 1].row + 1)
            for row in encoded.invalid_rows:
                if row in rows:
                    self._current.count_invalid(row)

    def _finish(self, next_row: int, last: bool, bad: str | None = None) -> PartRecord:
        if self._job.seen is not None:
            self._job.seen.commit()
        record = self._current.finish(self._name, next_row, last, bad)
        self._writer = None
        return record


class _Ahead:
    """The thread that reads, the threads that encode, and the batches between them, few at any time."""

    def __init__(self, job: FillJob, gaps: list[Gap]) -> None:
        self._job = job
        self._gaps = gaps
        self._stop = threading.Event()
        self._queue: queue.Queue[tuple[Gap, Future[Encoded]] | BaseException | None] = queue.Queue(
            2 * job.workers + 2
        )
        self._pool = ThreadPoolExecutor(job.workers, thread_name_prefix="encode")
        self._thread = threading.Thread(target=self._read, name="read", daemon=True)

    def __enter__(self) -> "_Ahead":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._job.source.stop()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread.join()
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[Gap, Future[Encoded]]]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _read(self) -> None:
        try:
            for index, gap in enumerate(self._gaps):
                ahead = self._gaps[index + 1].number if index + 1 < len(self._gaps) else None
                for batch in self._batches(gap, ahead):
                    if self._stop.is_set():
                        return
                    future = self._pool.submit(encode, batch, self._job.tokenizer, self._job.plan.dtype)
                    self._queue.put((gap, future))
            self._queue.put(None)
        except BaseException as error:  # handed over: __iter__ raises it where the user is answered
            self._queue.put(error)

    def _batches(self, gap: Gap, ahead: int | None) -> Iterator[EncodingBatch]:
        plan, given = self._job.plan, self._job.plan.inputs[gap.number]
        path = self._job.source.present(given, None if ahead is None else plan.inputs[ahead])
        rows = blocks(path, given, plan, gap.first_row)
        stream = documents(rows, plan, _is_first(self._job, gap), gap.first_row)
        return batches(_until(stream, gap.until_row))


def _is_first(job: FillJob, gap: Gap) -> IsFirst | None:
    seen, known = job.seen, gap.duplicates
    if not job.plan.dedup:
        return None
    if known is not None:
        return lambda _, row: row not in known
    assert seen is not None
    return lambda digest, row: seen.is_first(digest, gap.number, row)


def _until(stream: Iterator[KeptDocument | End], row: int | None) -> Iterator[KeptDocument | End]:
    for item in stream:
        if row is not None and item.row >= row:
            yield End(row, Dropped())
            return
        yield item
