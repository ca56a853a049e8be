"""A run as one JSON document: raw facts and what is derived from them, under the names of the code."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

from nanodyno.analysis.summary import Summary
from nanodyno.records.store import Run


def run_document(run: Run, summary: Summary) -> dict[str, object]:
    derived = dataclasses.asdict(summary)
    sizes = summary.parameters
    if sizes is not None:
        derived["parameters"] = {**dataclasses.asdict(sizes), "total": sizes.total, "nanogpt": sizes.nanogpt}
    if summary.noise is not None:
        derived["noise"] = {**dataclasses.asdict(summary.noise), "settled": summary.noise.settled}
    return {
        "folder": str(run.folder),
        "run": run.record.model_dump(mode="json"),
        "summary": derived,
        "evals": [entry.model_dump(mode="json") for entry in run.evals],
        "history": [entry.model_dump(mode="json") for entry in run.history],
    }


def to_json(document: object) -> str:
    """Standard JSON: what is not a finite number becomes null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast(Mapping[str, object], value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in cast(Sequence[object], value)]
    return value
