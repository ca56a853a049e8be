"""Triton's embedding in the interpreter against its twin in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

positions_or_not = pytest.mark.parametrize("placed", [False, True])
INPUTS = torch.tensor([[1, 1, 5], [0, 1, 6]])


def wide(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.double()


@positions_or_not
@pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("C", [1, 48, 80])
def test_the_stream_begins_with_tokens_and_positions(
    interpreted: Interpreted, assert_near: Near, draw: Draw, C: int, stream: torch.dtype, placed: bool
) -> None:
    tokens, positions = draw(7, C), draw(5, C) if placed else None
    x, _ = interpreted("embedding.embed", tokens, positions, INPUTS, stream)
    assert x.dtype == stream
    assert_near(x, plain.embed(tokens.double(), wide(positions), INPUTS, torch.float64))


@positions_or_not
@pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "inputs", [INPUTS, INPUTS[:1], torch.full((3, 1), 4)], ids=["several", "one", "same"]
)
def test_gradients_are_added_to_what_is_there(
    interpreted: Interpreted, assert_near: Near, draw: Draw, inputs: Tensor, stream: torch.dtype, placed: bool
) -> None:
    dx, tokens, positions = draw(inputs.numel(), 48, dtype=stream), draw(7, 48), draw(5, 48)
    _, left = interpreted("embedding.embed_backward", dx, inputs, tokens, positions if placed else None)
    tokens, positions = tokens.double(), positions.double()
    plain.embed_backward(dx.double(), inputs, tokens, positions if placed else None)
    assert_near(left[2], tokens)
    if placed:
        assert_near(left[3], positions)
