from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.config import build_config
from nanodyno.probe.repetition import ProbeJob

TINY: dict[str, Any] = {
    "n_layer": 1,
    "n_head": 1,
    "n_embd": 16,
    "block_size": 16,
    "batch_size": 2,
    "gradient_accumulation_steps": 2,
    "tokenizer": "bytes",
    "device": "cpu",
    "compile": False,
}


def build_job(**changes: Any) -> ProbeJob:
    """A config of a millisecond an iteration."""
    return ProbeJob(config=build_config(TINY | changes), threads=1)


@pytest.fixture(scope="session")
def job() -> Callable[..., ProbeJob]:
    return build_job
