"""A result that nanodyno exported, made into a run again. It may come from anybody."""

import hashlib
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nanodyno.errors import NanodynoError
from nanodyno.records.files import write_new
from nanodyno.records.imported import ImportedRecord, ImportedStep, OriginRecord, Setting, SourceRecord
from nanodyno.records.importers.building import LONGEST_STEP
from nanodyno.records.importers.source import clean, unreadable
from nanodyno.records.result import RESULT_VERSION, ResultRecord
from nanodyno.records.store import EVALS_FILE, STEPS_FILE
from nanodyno.records.types import utc_now

KIND = "result"
PROGRAM = "nanodyno"
LOOKED_FOR = "the file that `nanodyno runs --export` wrote"
LARGEST = 1 << 24
"""Bytes: ours have some tens of thousands."""
MOST_ITERATIONS = 10**12
CARRIED = (
    "resumed_at_iterations",
    "parameters",
    "device_name",
    "device_memory_bytes",
    "processes",
    "machine",
    "versions",
    "data",
    "arithmetic",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "peak_host_bytes",
)
"""From a result into the record of a run, as they are."""


def read_result(path: Path) -> tuple[ResultRecord, SourceRecord]:
    name = clean(path.name)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > LARGEST:
        raise _damaged(name, "it is too large for one")
    result = _parsed(content, name)
    if why := _impossible(result):
        raise _damaged(name, why)
    digest = hashlib.sha256(content).hexdigest()
    return result, SourceRecord(name=name, kind=KIND, size_bytes=len(content), sha256=digest)


def write_records(result: ResultRecord, folder: Path) -> None:
    for name, records in ((STEPS_FILE, result.steps), (EVALS_FILE, result.evals)):
        lines = [each.model_dump_json(exclude_none=True) for each in records]
        write_new(folder / name, "".join(f"{line}\n" for line in lines))


def record_of(
    result: ResultRecord,
    source: SourceRecord,
    name: str,
    command: tuple[str, ...],
    settings: Mapping[str, Setting],
) -> ImportedRecord:
    """`settings` are all of them, those of the result too."""
    own = {"tokens_per_iter"}  # has a field of its own
    tokens = settings.get("tokens_per_iter")
    return ImportedRecord(
        name=clean(name),
        started_at=utc_now(),
        command=tuple(clean(word) for word in command),
        notes=_notes(result),
        origin=OriginRecord(
            program=result.program,
            files=(source,),
            iterations=len(result.steps),
            evaluations=len(result.evals),
            timed_iterations=sum(step.step_seconds is not None for step in result.steps),
            restarts=len(result.resumed_at_iterations),
        ),
        settings={key: value for key, value in settings.items() if key not in own},
        tokens_per_iter=tokens if isinstance(tokens, int) and tokens > 0 else result.tokens_per_iter,
        **{key: getattr(result, key) for key in CARRIED},
    )


def _parsed(content: bytes, name: str) -> ResultRecord:
    try:
        raw = _printable(json.loads(content))
        version = raw.get("version") if isinstance(raw, dict) else None
        if isinstance(version, int) and version > RESULT_VERSION:
            raise NanodynoError(f"{name} was written by a newer nanodyno", "upgrade nanodyno to read it")
        return ResultRecord.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(name, str(error)) from None


def _printable(value: Any) -> Any:
    """Without what no terminal should see, and no number that no computer counts to."""
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError("a number in it is too large")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def _impossible(result: ResultRecord) -> str | None:
    if not result.steps and not result.evals:
        return "it has no step and no evaluation"
    for records in (result.steps, result.evals):
        places = [-1, *(each.iteration for each in records), MOST_ITERATIONS]
        if any(one >= other for one, other in pairwise(places)):
            return "its iterations are not in order"
    for number, what in ((result.tokens_per_iter, "tokens per iteration"), (result.processes, "processes")):
        if number is not None and number <= 0:
            return f"it has {number} {what}"
    return next((why for step in result.steps if (why := _impossible_step(step))), None)


def _impossible_step(step: ImportedStep) -> str | None:
    if step.step_seconds is not None and not 0 < step.step_seconds < LONGEST_STEP:
        return f"its iteration {step.iteration} took {step.step_seconds} s"
    if step.tokens is not None and step.tokens <= 0:
        return f"its iteration {step.iteration} has {step.tokens} tokens"
    return None


def _notes(result: ResultRecord) -> tuple[str, ...]:
    kept = [
        f"{len(records):,} of {logged:,} {what}"
        for records, logged, what in (
            (result.steps, result.logged_iterations, "iterations"),
            (result.evals, result.logged_evaluations, "evaluations"),
        )
        if len(records) < logged
    ]
    return (f"the curve was thinned when it was exported: {' and '.join(kept)}",) if kept else ()


def _damaged(name: str, why: str) -> NanodynoError:
    return NanodynoError(f"{name} is not a complete result of nanodyno: {why}", "export it again")
