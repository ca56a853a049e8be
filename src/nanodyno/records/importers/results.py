"""A result that nanodyno exported, made into a run again. It may come from anybody."""

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from nanodyno.records.exported import damaged, read_export
from nanodyno.records.files import write_new
from nanodyno.records.imported import ImportedRecord, ImportedStep, OriginRecord, Setting, SourceRecord
from nanodyno.records.importers.building import LONGEST_STEP
from nanodyno.records.importers.source import clean
from nanodyno.records.result import RESULT_VERSION, ResultRecord
from nanodyno.records.store import EVALS_FILE, STEPS_FILE, Run
from nanodyno.records.types import utc_now

KIND = "result"
PROGRAM = "nanodyno"
LOOKED_FOR = "the file that `nanodyno runs --export` wrote"
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
    content, raw = read_export(path, KIND, RESULT_VERSION)
    try:
        result = ResultRecord.model_validate(raw)
    except ValidationError as error:
        raise damaged(path, KIND, error) from None
    if why := _impossible(result):
        raise damaged(path, KIND, why)
    digest = hashlib.sha256(content).hexdigest()
    return result, SourceRecord(name=clean(path.name), kind=KIND, size_bytes=len(content), sha256=digest)


def run_of_result(path: Path) -> Run:
    """Return the run that `import` would make of a result, without a folder of its own on the disk."""
    result, source = read_result(path)
    record = record_of(result, source, result.name, (), result.settings)
    return Run(path, record, result.steps, result.evals)


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
