from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.records.types import EvalRecord, RunRecord, StepRecord, StopRecord
from nanodyno.records.writer import RunWriter


@pytest.fixture
def record(record: Callable[..., RunRecord]) -> Callable[..., RunRecord]:
    """Four iterations on a CPU, with a note beyond ASCII; any field can be changed."""

    def build(name: str = "one", **changes: Any) -> RunRecord:
        plain = record({"n_embd": 64, "max_iters": 4, "min_lr": 0.0}, gpu=None, dtype="float32")
        return plain.model_copy(update={"name": name, "notes": ("größer — a note",), **changes})

    return build


@pytest.fixture
def folder(
    tmp_path: Path,
    record: Callable[..., RunRecord],
    step: Callable[..., StepRecord],
    evaluation: Callable[..., EvalRecord],
) -> Path:
    """A run of four iterations with an evaluation before and after."""
    folder = tmp_path / "runs" / "one"
    with RunWriter.create(folder, record()) as writer:
        writer.append(evaluation(0))
        for iteration in range(4):
            writer.append(step(iteration))
        writer.append(evaluation(4))
        writer.append(StopRecord(iteration=4, reason="finished", wall_time=0.0))
    return folder
