"""Triton's norm and rotation of queries and keys in the interpreter, against their twin in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain
from nanodyno.model.kernels.plain_modern import Rotation

EPS = 1e-6
POSITIONS = 3
ROWS = 7  # the last sequence is cut off

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

SHAPES = [(1, 2), (1, 6), (3, 8), (2, 12), (5, 32), (2, 80)]
every_shape = pytest.mark.parametrize(("heads", "size"), SHAPES)
turned_or_not = pytest.mark.parametrize("turned", [False, True])
normed_or_not = pytest.mark.parametrize("normed", [False, True])


def angles(draw: Draw, size: int) -> Rotation:
    """Of one position more than the sequences have."""
    angle = 3 * draw(POSITIONS + 1, size // 2)
    return angle.cos(), angle.sin()


def wide(rotation: Rotation | None) -> Rotation | None:
    return None if rotation is None else (rotation[0].double(), rotation[1].double())


def check_both(
    interpreted: Interpreted, near: Near, qkv: Tensor, heads: int, rotation: Rotation | None, normed: bool
) -> None:
    """Forward, and backward from what the kernel itself left; the values stay as they are."""
    values = 2 * qkv.shape[1] // 3
    rstd, left = interpreted("rope.apply_rope_", qkv, heads, POSITIONS, rotation, normed, EPS)
    want = qkv.double()
    want_rstd = plain.apply_rope_(want, heads, POSITIONS, wide(rotation), normed, EPS)
    near(left[0], want)
    assert left[0][:, values:].equal(qkv[:, values:])
    if normed:
        near(rstd, want_rstd)

    gradient = qkv.flip(0).neg()
    _, after = interpreted(
        "rope.apply_rope_backward_", gradient, left[0], rstd, heads, POSITIONS, rotation, normed
    )
    want = gradient.double()
    plain.apply_rope_backward_(want, left[0].double(), want_rstd, heads, POSITIONS, wide(rotation), normed)
    near(after[0], want)
    assert after[0][:, values:].equal(gradient[:, values:])


@turned_or_not
@normed_or_not
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_heads_are_normed_and_turned_as_asked(
    interpreted: Interpreted, assert_near: Near, draw: Draw, dtype: torch.dtype, normed: bool, turned: bool
) -> None:
    rotation = angles(draw, 8) if turned else None
    check_both(interpreted, assert_near, draw(ROWS, 3 * 24, dtype=dtype), 3, rotation, normed)


@every_shape
def test_heads_may_be_of_any_size_and_number(
    interpreted: Interpreted, assert_near: Near, draw: Draw, heads: int, size: int
) -> None:
    qkv = draw(ROWS, 3 * heads * size, dtype=torch.bfloat16)
    check_both(interpreted, assert_near, qkv, heads, angles(draw, size), True)


@pytest.mark.parametrize("size", [1, 5])
def test_what_is_not_turned_may_be_odd(
    interpreted: Interpreted, assert_near: Near, draw: Draw, size: int
) -> None:
    check_both(interpreted, assert_near, draw(2, 3 * 2 * size), 2, None, True)


def test_a_quarter_turn_at_the_second_position_of_each_sequence(interpreted: Interpreted) -> None:
    # 3 and 4 over their root mean square 5 / sqrt 2, then (x, y) to (-y, x) in every second row.
    qkv = torch.tensor([[3.0, 4.0, 4.0, 3.0, 7.0, 7.0]]).repeat(4, 1)
    rotation = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]])
    rstd, left = interpreted("rope.apply_rope_", qkv, 1, 2, rotation, True, 0.0)
    torch.testing.assert_close(rstd, torch.full((4, 2), 2**0.5 / 5))
    straight, turned = torch.tensor([[3.0, 4.0, 4.0, 3.0]]), torch.tensor([[-4.0, 3.0, -3.0, 4.0]])
    torch.testing.assert_close(left[0][:, :4], torch.cat([straight, turned] * 2) * 2**0.5 / 5)
    assert (left[0][:, 4:] == 7).all()
