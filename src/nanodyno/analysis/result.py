"""A run as a result to send to others: small, and without what is its owner's own business."""

import math
import random
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import PureWindowsPath
from typing import Any, TypeVar

from nanodyno.analysis.curves import RECENT
from nanodyno.analysis.metrics import latest_stretch, stretches
from nanodyno.analysis.summary import LAST_STEPS, Summary
from nanodyno.config import RunConfig, keys_where
from nanodyno.records.imported import AnyEval, AnyStep, ImportedEval, ImportedRecord, ImportedStep, Setting
from nanodyno.records.result import ResultRecord
from nanodyno.records.store import Run
from nanodyno.records.types import DataRecord, MachineRecord, RunRecord, VersionsRecord

MOST_STEADY = 400
"""Iterations whose times make the rates; of the others a quarter as many."""
MOST_OTHERS = 100
MOST_EVALS = 200
PLACE = re.compile(r"^[~./\\]|[^\w.-][~/\\]")
NOT_TOLD = {"out_dir", *keys_where(lambda each: each.group == "record" and not each.nanogpt)}
TELLING = (
    "iterations_done", "tokens_seen", "peak_allocated_bytes", "peak_reserved_bytes", "peak_host_bytes",
    "last_train_loss", "best_val", "last_val", "training_seconds",
)  # fmt: skip
"""Of a summary."""

Item = TypeVar("Item")


def result_of(run: Run, summary: Summary) -> ResultRecord:
    """Every setting, fact and figure that a comparison reads, with a thinned curve."""
    record = run.record
    facts = _imported_facts(record) if isinstance(record, ImportedRecord) else _own_facts(record, summary)
    return ResultRecord(
        name=run.name,
        settings=_settings(run),
        tokens_per_iter=run.tokens_per_iter,
        resumed_at_iterations=record.resumed_at_iterations,
        logged_iterations=len(run.steps),
        logged_evaluations=len(run.evals),
        summary=_telling(summary),
        steps=_thinned_steps(run),
        evals=_thinned_evals(run.evals),
        **facts,
    )


def _own_facts(record: RunRecord, summary: Summary) -> dict[str, Any]:
    return {
        "program": f"nanodyno {record.versions.nanodyno}",
        "device_name": record.machine.device_name,
        "device_memory_bytes": record.machine.device_memory_bytes,
        "processes": record.arithmetic.processes,
        "machine": _machine(record.machine),
        "versions": _versions(record.versions),
        "data": _data(record.data),
        "arithmetic": record.arithmetic,
        "peak_allocated_bytes": summary.peak_allocated_bytes,
        "peak_reserved_bytes": summary.peak_reserved_bytes,
        "peak_host_bytes": summary.peak_host_bytes,
    }


def _imported_facts(record: ImportedRecord) -> dict[str, Any]:
    names = (
        "parameters", "device_name", "device_memory_bytes", "processes", "arithmetic",
        "peak_allocated_bytes", "peak_reserved_bytes", "peak_host_bytes",
    )  # fmt: skip
    return {
        "program": record.origin.program,
        "machine": None if record.machine is None else _machine(record.machine),
        "versions": None if record.versions is None else _versions(record.versions),
        "data": None if record.data is None else _data(record.data),
        **{name: getattr(record, name) for name in names},
    }


def _settings(run: Run) -> dict[str, Setting]:
    """Those of a training; text only under names whose meaning is known. The model's vocabulary is told."""
    reported: dict[str, Setting] = {
        key: without_folders(value) if isinstance(value, str) else value
        for key, value in run.settings.items()
        if value is not None and key not in NOT_TOLD
        if not isinstance(value, str) or key in RunConfig.model_fields
    }
    if isinstance(run.record, RunRecord):
        reported["vocab_size"] = run.record.vocab_size
    return reported


def without_folders(text: str) -> str:
    """The last part of a path that tells where on a machine something lies: data/edu stays, ~/edu not."""
    return PureWindowsPath(text).name or "-" if PLACE.search(text) else text


def _machine(machine: MachineRecord) -> MachineRecord:
    """Which system it is, and not its build, in which some write the name of their machine."""
    return machine.model_copy(update={"platform": machine.platform.partition("-")[0]})


def _versions(versions: VersionsRecord) -> VersionsRecord:
    return versions.model_copy(update={"git_commit": None, "git_dirty": None})


def _data(data: DataRecord) -> DataRecord:
    tokenizer = None if data.tokenizer is None else without_folders(data.tokenizer)
    return data.model_copy(
        update={"dataset": without_folders(data.dataset), "tokenizer": tokenizer, "stamp": None}
    )


def _telling(summary: Summary) -> dict[str, Any]:
    whole = asdict(summary)
    sizes = summary.parameters
    count = summary.counted_parameters if sizes is None else sizes.total
    reported = {
        "parameters": count,
        **{name: whole[name] for name in TELLING},
        "speed": summary.speed.document(),
        "noise_scale": None if summary.noise_scale is None else summary.noise_scale.document(),
    }
    return {name: value for name, value in reported.items() if value is not None}


def _thinned_steps(run: Run) -> tuple[ImportedStep, ...]:
    """A sample of the steady ones, so that their mean and scatter stay; others and the end are kept longer.

    Steps that are in no rate are marked, as those of a log are: also those of earlier stretches.
    """
    newest = latest_stretch(stretches(run.own_steps, run.history, run.record.resumed_at_iterations))
    steady = {step.iteration for step in newest.steady} if newest else set[int]()
    steps = [_step(step, steady) for step in run.steps]
    last = steps[-LAST_STEPS:]
    plain = [step for step in steps[:-LAST_STEPS] if step.overhead is None and _is_finite(step.loss)]
    kept = {step.iteration for step in plain}
    others = [step for step in steps[:-LAST_STEPS] if step.iteration not in kept]
    found = [*thinned(plain, MOST_STEADY), *thinned(others, MOST_OTHERS), *last]
    return tuple(sorted(found, key=lambda step: step.iteration))


def _is_finite(loss: float | None) -> bool:
    return loss is None or math.isfinite(loss)


def _step(step: AnyStep, steady: set[int]) -> ImportedStep:
    if isinstance(step, ImportedStep):
        return step.model_copy(update={"wall_time": None, "elapsed_seconds": None})
    return ImportedStep(
        iteration=step.iteration,
        loss=step.loss,
        grad_norm=step.grad_norm,
        learning_rate=step.learning_rate,
        tokens=step.tokens,
        step_seconds=step.step_seconds,
        micro_steps=step.micro_steps,
        overhead=None if step.iteration in steady else "start",
    )


def _thinned_evals(evals: Sequence[AnyEval]) -> tuple[ImportedEval, ...]:
    """The last ones whole: their scatter is how the noise is judged."""
    kept = [
        ImportedEval(iteration=each.iteration, val_loss=each.val_loss, train_loss=each.train_loss)
        for each in evals
    ]
    return (*thinned(kept[:-RECENT], MOST_EVALS - RECENT), *kept[-RECENT:])


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """One of each of `most` equal stretches, drawn the same way every time: a fixed place in each could meet
    what comes again every so many iterations."""
    if len(items) <= most:
        return list(items)
    draw = random.Random(0)
    edges = [len(items) * number // most for number in range(most + 1)]
    return [items[draw.randrange(low, high)] for low, high in pairwise(edges)]
