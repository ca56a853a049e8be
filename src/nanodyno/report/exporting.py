"""What was written of a run for others."""

import shlex
from pathlib import Path

from nanodyno.records.result import ResultRecord


def export_words(result: ResultRecord, path: str, size_bytes: int) -> str:
    steps, evals = len(result.steps), len(result.evals)
    return (
        f"{path}: {size_bytes / 1000:,.0f} kB, {_of(steps, result.logged_iterations)} iterations and "
        f"{_of(evals, result.logged_evaluations)} evaluations of {result.name}; no folder, host or command\n"
        f"next: nanodyno import {shlex.quote(Path(path).name)}, wherever you send it"
    )


def export_document(result: ResultRecord, path: str, size_bytes: int) -> dict[str, object]:
    return {
        "file": path,
        "bytes": size_bytes,
        "run": result.name,
        "steps": len(result.steps),
        "evals": len(result.evals),
        "logged_iterations": result.logged_iterations,
        "logged_evaluations": result.logged_evaluations,
    }


def _of(kept: int, logged: int) -> str:
    return f"{kept:,} of {logged:,}" if kept < logged else f"{kept:,}"
