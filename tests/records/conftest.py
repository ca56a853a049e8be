"""One builder per record, and a run folder made of them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanodyno.config import build_config
from nanodyno.records.store import RunWriter
from nanodyno.records.types import (
    ArithmeticRecord,
    DataRecord,
    EvalRecord,
    MachineRecord,
    RunRecord,
    StepRecord,
    VersionsRecord,
)


def build_step(iteration: int, **changes: Any) -> StepRecord:
    values: dict[str, Any] = {
        "iteration": iteration,
        "loss": 5.0 - 0.1 * iteration,
        "grad_norm": 0.7,
        "learning_rate": 1e-3,
        "tokens": 1024,
        "step_seconds": 0.25,
        "data_seconds": 0.001,
        "wall_time": 1.7e9 + iteration,
    }
    return StepRecord(**(values | changes))


def build_eval(iteration: int, **changes: Any) -> EvalRecord:
    values: dict[str, Any] = {
        "iteration": iteration,
        "val_loss": 5.1,
        "train_loss": 5.0,
        "val_tokens": 256,
        "train_tokens": 256,
        "eval_seconds": 0.5,
        "wall_time": 1.7e9 + iteration,
    }
    return EvalRecord(**(values | changes))


def build_record(name: str = "one", **changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "name": name,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "command": ("nanodyno", "train", "demo"),
        "config": build_config({"n_embd": 64, "max_iters": 4, "min_lr": 0.0}),
        "vocab_size": 320,
        "machine": MachineRecord(
            device_type="cpu",
            device_name="some CPU",
            cpu_name="some CPU",
            cpu_count=2,
            cpu_threads=1,
            platform="Linux",
        ),
        "versions": VersionsRecord(nanodyno="0", python="3.11", torch="2.13"),
        "data": DataRecord(
            dataset="tiny",
            tokenizer="bytes",
            vocab_size=257,
            train_tokens=1000,
            val_tokens=100,
            fingerprint="0",
        ),
        "arithmetic": ArithmeticRecord(device="cpu", dtype="float32", compiled=False),
        "notes": ("größer — a note beyond ASCII",),
    }
    return RunRecord(**(values | changes))


@pytest.fixture
def step() -> Callable[..., StepRecord]:
    return build_step


@pytest.fixture
def evaluation() -> Callable[..., EvalRecord]:
    return build_eval


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    return build_record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of four iterations with an evaluation before and after."""
    folder = tmp_path / "runs" / "one"
    with RunWriter.create(folder, build_record()) as writer:
        writer.append(build_eval(0))
        for iteration in range(4):
            writer.append(build_step(iteration))
        writer.append(build_eval(4))
    return folder
