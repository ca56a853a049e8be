"""Inputs spread over a Ray cluster: a node prepares one, and its parts are written here as they are done.

Files of the hub are fetched by the nodes themselves; local files must be at the same path on all of them. A
node that is lost costs the parts that it was at: they are made again elsewhere. What is written is what
pipeline.fill writes, to the byte.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nanodyno.data.prepare.node import NodeTask, Sent, hash_documents, packed, prepare_parts
from nanodyno.data.prepare.parts import PartRecord, delete_part, record_path
from nanodyno.data.prepare.pipeline import BatchWritten, FillJob, Gap, fill
from nanodyno.data.prepare.plan import write_aside
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Notify

_LOSSES = 3
_CONNECT_SECONDS = 5.0


@dataclass
class _Course:
    """How far a gap has come."""

    gap: Gap
    records: list[PartRecord] = field(default_factory=list)
    losses: int = 0

    @property
    def is_done(self) -> bool:
        return bool(self.records) and (
            self.records[-1].last or self.records[-1].next_row == self.gap.until_row
        )

    @property
    def rest(self) -> Gap:
        """What is missing of the gap after the parts that have arrived."""
        if not self.records:
            return self.gap
        last = self.records[-1]
        return replace(self.gap, part=last.part + 1, first_row=last.next_row)


@dataclass(frozen=True)
class _Cluster:
    """The connection to Ray, with what its nodes work on and how many threads an input gets there."""

    ray: Any
    task: Any
    threads: int

    def room(self) -> int:
        """Inputs under way at a time, one more than can be worked on so that no node stands idle."""
        return 1 + sum(cpus // self.threads for cpus in _cpus_of_nodes(self.ray))

    def begin(self, gap: Gap) -> Any:
        """A stream of the gap's parts, at most two of them ahead of what is taken."""
        remote = self.ray.remote(prepare_parts).options(
            num_cpus=self.threads,
            max_retries=0,
            num_returns="streaming",
            _generator_backpressure_num_objects=2,
        )
        return remote.remote(self.task, gap)

    def begin_hashes(self, gap: Gap) -> Any:
        remote = self.ray.remote(hash_documents).options(num_cpus=self.threads, max_retries=_LOSSES)
        return remote.remote(self.task, gap)

    def get(self, reference: Any) -> Any:
        """What a node sent, or the error that it met in our own code; RayError when the node was lost."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None


def fill_on_ray(
    job: FillJob, gaps: list[Gap], tokens_before: int, address: str, tell: Notify
) -> Iterator[BatchWritten]:
    """pipeline.fill on the cluster at address; steps come in any order of inputs, one for each part."""
    with connected(address) as ray:
        threads = _threads_each(ray, len(gaps))
        task = NodeTask(job.plan, packed(job.source), job.tokenizer, threads)
        cluster = _Cluster(ray, ray.put(task), threads)
        if job.plan.dedup:
            gaps = _with_duplicates(cluster, job, gaps)
        courses = [_Course(gap) for gap in gaps]
        for course, sent in _arrivals(cluster, courses, tell):
            _keep(job.folder, sent)
            record = sent.record
            course.records.append(record)
            yield BatchWritten(record.number, sent.fraction, record.tokens, record.documents, (record,))
            if (end := _reached(courses, tokens_before, job.plan.tokens)) is not None:
                break
        else:
            return
    yield from _up_to_the_limit(job, courses, *end)


def _arrivals(cluster: _Cluster, courses: Sequence[_Course], tell: Notify) -> Iterator[tuple[_Course, Sent]]:
    """Parts as they come. As many inputs are under way as the cluster has room for, the first ones first."""
    ray, running = cluster.ray, {}
    waiting = list(reversed(courses))
    try:
        while waiting or running:
            while waiting and len(running) < cluster.room():
                course = waiting.pop()
                running[cluster.begin(course.rest)] = course
            for stream in ray.wait(list(running), num_returns=1, timeout=1.0)[0]:
                course = running[stream]
                try:
                    sent = cluster.get(next(stream))
                    course.losses = 0
                    yield course, sent
                except StopIteration:
                    del running[stream]
                except ray.exceptions.RayError as error:
                    del running[stream]
                    waiting += _lost(course, error, tell)
    finally:
        for stream in running:
            ray.cancel(stream, force=True)


def _lost(course: _Course, error: Exception, tell: Notify) -> list[_Course]:
    """What is to be done again when a node was lost; an error when that happens to an input every time."""
    if course.is_done:
        return []
    course.losses += 1
    reported = f"input {course.gap.number} was lost on the cluster ({str(error).splitlines()[0]})"
    if course.losses == _LOSSES:
        raise _cluster_failed(f"{reported}, {_LOSSES} times in a row") from error
    tell(f"{reported}; repeating it")
    return [course]


def _with_duplicates(cluster: _Cluster, job: FillJob, gaps: Sequence[Gap]) -> list[Gap]:
    """The gaps with the rows that repeat an earlier document: hashed on the nodes, compared here in order."""
    seen = job.seen
    asked = [cluster.begin_hashes(gap) if gap.duplicates is None else None for gap in gaps]
    found: list[Gap] = []
    for index, gap in enumerate(gaps):
        reference, asked[index] = asked[index], None  # let go of, for its answer is large
        if reference is None:
            found.append(gap)
            continue
        assert seen is not None
        try:
            hashes: list[tuple[int, bytes]] = cluster.get(reference)
        except cluster.ray.exceptions.RayError as error:
            raise _cluster_failed(str(error).splitlines()[0]) from error
        again = frozenset(row for row, digest in hashes if not seen.is_first(digest, gap.number, row))
        found.append(replace(gap, duplicates=again))
    if seen is not None:
        seen.commit()
    return found


def _keep(folder: Path, sent: Sent) -> None:
    """Write a part that has arrived: files first, the record last."""
    for name, content in sent.files.items():
        aside = folder / f"{name}.partial"
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(folder / name)
    record = sent.record
    write_aside(record_path(folder, record.number, record.part), record.model_dump_json() + "\n")


def _reached(
    courses: Sequence[_Course], tokens: int, limit: int | None
) -> tuple[int, PartRecord, int] | None:
    """The course and the part of it that reach the limit, and the tokens before; None while that is open."""
    for index, course in enumerate(courses if limit is not None else ()):
        for record in course.records:
            if course.gap.is_tail and limit is not None and tokens + record.tokens >= limit:
                return index, record, tokens
            tokens += record.tokens
        if not course.is_done:
            return None
    return None


def _up_to_the_limit(
    job: FillJob, courses: Sequence[_Course], index: int, reaching: PartRecord, tokens: int
) -> Iterator[BatchWritten]:
    """Make the part that reaches plan.tokens again, here and with its end; what came after it is deleted."""
    for record in (record for course in courses[index:] for record in course.records):
        if (record.number, record.part) >= (reaching.number, reaching.part):
            delete_part(job.folder, record)
            yield BatchWritten(record.number, 0.0, -record.tokens, -record.documents, ())
    rest = replace(courses[index].gap, part=reaching.part, first_row=reaching.first_row)
    yield from fill(job, [rest, *(course.gap for course in courses[index + 1 :])], tokens)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The cluster; left again at the end."""
    try:
        import ray
    except ImportError as error:
        raise NanodynoError("--ray needs Ray", "install it: pip install 'nanodyno[ray]'") from error
    hint = "give auto, or HOST:PORT of the cluster's head, on a machine of the cluster (`ray start --head`)"
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and port.isdigit() and "/" not in host):
        raise NanodynoError(f"--ray: {address!r} is not the address of a cluster", hint)
    try:
        if address != "auto":
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (OSError, OverflowError, RuntimeError) as error:
        reported = str(error).splitlines()[0]
        raise NanodynoError(f"no Ray cluster answers at {address}: {reported}", hint) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _cluster_failed(message: str) -> RunFailed:
    return RunFailed(message, "see `ray status`, then repeat the command: it continues from what has arrived")


def _cpus_of_nodes(ray: Any) -> list[int]:
    found = (int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"])
    return [cpus for cpus in found if cpus]


def _threads_each(ray: Any, inputs: int) -> int:
    """Threads an input gets: more than one when there are fewer inputs than CPUs, and every node has them."""
    nodes = _cpus_of_nodes(ray)
    return max(1, min([*nodes, sum(nodes) // max(1, inputs)]))
