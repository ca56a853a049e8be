"""Kernels in Triton's interpreter, and how near to a float64 answer is right."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]


@pytest.fixture(scope="session")
def interpreted() -> Iterator[Interpreted]:
    """`interpreted("norm.add_norm", x, ...)`: what it returned, and its arguments as it left them."""
    if find_spec("triton") is None:
        pytest.skip("there is no Triton for this system")
    child = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("interpreter.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    calls, answers = child.stdin, child.stdout

    def call(name: str, *arguments: Any) -> tuple[Any, tuple[Any, ...]]:
        packet = BytesIO()
        torch.save((name, arguments), packet)  # pickle alone knows no fp8
        pickle.dump(packet.getvalue(), calls)
        calls.flush()
        answer = torch.load(BytesIO(pickle.load(answers)), weights_only=False)
        if isinstance(answer, str):
            pytest.fail(answer)
        return answer

    with child:
        yield call
        calls.close()


@pytest.fixture
def draw() -> Callable[..., torch.Tensor]:
    """Normal numbers, another sequence in each test but the same in each run."""
    generator = torch.Generator().manual_seed(3)

    def of(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    return of


ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2**-8 + 1e-5, torch.float64: 1e-12}
"""Half a step of bf16; fp32 has its sums besides, whose order is the kernel's own."""


@pytest.fixture
def assert_near() -> Callable[..., None]:
    """That numbers are the float64 ones up to the rounding of their type; `scale` is what was summed."""

    def check(got: torch.Tensor, want: torch.Tensor, scale: float = 1.0, rounding: float = 0.0) -> None:
        torch.testing.assert_close(
            got.double(), want.double(), rtol=ROUNDING[got.dtype] + rounding, atol=2e-6 * scale
        )

    return check
