"""A run as one JSON document: raw facts and what is derived from them, under the names of the code."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from nanodyno.analysis.metrics import Speed
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.summary import Summary
from nanodyno.noise import NoiseScale
from nanodyno.records.store import Run

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def run_document(run: Run, summary: Summary) -> dict[str, object]:
    derived = as_document(summary)
    sizes = summary.parameters
    if sizes is not None:
        derived["parameters"] = {**as_document(sizes), "total": sizes.total, "nanogpt": sizes.nanogpt}
    return {
        "folder": str(run.folder),
        "run": run.record.model_dump(mode="json") | {"name": run.name},
        "summary": derived,
        "evals": [entry.model_dump(mode="json") for entry in run.evals],
        "history": [entry.model_dump(mode="json") for entry in run.history],
    }


def as_document(record: "DataclassInstance") -> dict[str, Any]:
    """The fields of a dataclass under their names; estimates and speeds have one shape everywhere."""
    return {each.name: _plain(getattr(record, each.name)) for each in dataclasses.fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, Interval | NoiseScale | Speed):
        return value.document()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return as_document(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast(Mapping[str, object], value).items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in cast(Sequence[object], value)]
    return value


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
