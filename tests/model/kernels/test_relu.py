"""Triton's ReLU squared in the interpreter against its twin in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain
from nanodyno.model.kernels.plain import Fp8Slot

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

HALF = torch.bfloat16
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1024), (7, 5 * 199)])
def test_the_output_is_the_float64_one_at_any_size(
    interpreted: Interpreted, assert_near: Near, draw: Draw, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    u = draw(*shape, dtype=dtype)
    got, _ = interpreted("relu.relu2", u)
    assert got.dtype == dtype
    assert_near(got, plain.relu2(u.double()))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 5 * 199)])
def test_the_backward_pass_leaves_the_gradient_and_when_asked_the_output(
    interpreted: Interpreted, assert_near: Near, draw: Draw, shape: tuple[int, int], again: bool
) -> None:
    u, dg = draw(*shape, dtype=HALF), draw(*shape, dtype=HALF)
    _, left = interpreted("relu.relu2_backward_", u, dg, again)
    want_u, want_dg = u.double(), dg.double()
    plain.relu2_backward_(want_u, want_dg, again)
    assert_near(left[0], want_u)
    assert_near(left[1], want_dg)


def test_both_come_in_fp8_besides(interpreted: Interpreted) -> None:
    # 2^2 = 4 and 3^2 = 9 by 16 are 64 and 144; 30^2 by 16 is beyond 448. Gradients: 2 * 5 and so on, by 4.
    u, dg = torch.tensor([-1.0, 2.0, 3.0, 30.0], dtype=HALF), torch.full((4,), 5.0, dtype=HALF)
    got, (_, left) = interpreted("relu.relu2", u, Fp8Slot(E4M3, torch.tensor(16.0), torch.zeros(2)))
    assert got.dtype == E4M3
    assert got.float().tolist() == [0, 64, 144, 448]
    assert left.largest.max() == 900
    slot = Fp8Slot(E5M2, torch.tensor(4.0), torch.zeros(2))
    got, (_, gradient, _, left) = interpreted("relu.relu2_backward_", u, dg, False, slot)
    assert got.dtype == E5M2
    assert got.float().tolist() == [0, 80, 128, 1280]  # 120 lies between 112 and 128, whose last bit is 0
    assert gradient.float().tolist() == [0, 20, 30, 300]
    assert left.largest.max() == 300


def test_what_is_no_number_stays_none(interpreted: Interpreted) -> None:
    u, dg = torch.tensor([torch.nan, -torch.inf, torch.inf]), torch.ones(3)
    assert interpreted("relu.relu2", u)[0].isnan().tolist() == [True, False, False]
    _, left = interpreted("relu.relu2_backward_", u, dg, False)
    assert left[1].isnan().tolist() == [True, False, False]
