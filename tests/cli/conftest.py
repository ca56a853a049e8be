from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nanodyno.cli.main import app

TINY = [
    "--n_layer=1",
    "--n_head=1",
    "--n_embd=16",
    "--block_size=16",
    "--batch_size=2",
    "--gradient_accumulation_steps=2",
    "--max_iters=4",
    "--eval_interval=2",
    "--eval_tokens=64",
    "--device=cpu",
]


@pytest.fixture
def nanodyno(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command line in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def tiny() -> list[str]:
    """`train demo` made small enough for a fraction of a second."""
    return ["train", "demo", *TINY]
