"""One run's result in one small file to send to others: what it was, what came of it, a thinned curve.

`nanodyno runs --export` writes it and `nanodyno import` takes it back; docs/result.md describes it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from nanodyno.records.exported import RESULT_FORMAT, format_of
from nanodyno.records.imported import ImportedEval, ImportedStep, LoggedSettings
from nanodyno.records.types import ArithmeticRecord, DataRecord, MachineRecord, Record, VersionsRecord

RESULT_VERSION = 2


class ResultRecord(Record):
    format: Literal["nanodyno-result"] = "nanodyno-result"
    version: int = RESULT_VERSION
    name: str
    program: str
    """What trained it."""
    settings: LoggedSettings
    """Under nanoGPT's names; no folder of the machine that it ran on."""
    tokens_per_iter: int | None = None
    parameters: int | None = None
    """As a foreign log counts them."""
    device_name: str | None = None
    device_memory_bytes: int | None = None
    processes: int | None = None
    resumed_at_iterations: tuple[int, ...] = ()
    machine: MachineRecord | None = None
    """None, as are the next three, of a run that was itself imported from a log."""
    versions: VersionsRecord | None = None
    data: DataRecord | None = None
    arithmetic: ArithmeticRecord | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None
    logged_iterations: int
    """Of which `steps` are some."""
    logged_evaluations: int
    summary: dict[str, Any]
    """What was derived from the whole run: to be read, and not imported."""
    steps: tuple[ImportedStep, ...]
    evals: tuple[ImportedEval, ...]


def result_text(result: ResultRecord) -> str:
    """JSON with a line for each step and evaluation."""
    head = result.model_dump_json(indent=2, exclude_none=True, exclude={"steps", "evals"})
    return (
        f"{head.removesuffix('}').rstrip()},\n"
        f'  "steps": [{_rows(result.steps)}],\n'
        f'  "evals": [{_rows(result.evals)}]\n}}\n'
    )


def _rows(records: Sequence[Record]) -> str:
    return ",".join(f"\n    {each.model_dump_json(exclude_none=True)}" for each in records)


def is_result(path: Path) -> bool:
    """By how it begins; a file that cannot be read is none."""
    return format_of(path) == RESULT_FORMAT
