"""Triton's GELU in the interpreter against its twin in float64, in its tails above all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

BF16_STEP = 2**-7
SERIES = 2e-3
"""Relative, for u above -5: what the polynomial for erfc adds to the rounding."""

either_form = pytest.mark.parametrize("approximate", ["none", "tanh"])


def backward_in_float64(u: Tensor, dg: Tensor, approximate: str) -> Tensor:
    gradient = dg.double()
    plain.gelu_backward_(u.double(), gradient, approximate, False)
    return gradient


@either_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 48), (2, 1024), (7, 5 * 199)])
def test_gelu_is_the_float64_one_at_any_size(
    interpreted: Interpreted,
    assert_near: Near,
    draw: Draw,
    shape: tuple[int, int],
    dtype: torch.dtype,
    approximate: str,
) -> None:
    u = (1.5 * draw(*shape)).clamp(min=-5).to(dtype)
    got, _ = interpreted("gelu.gelu", u, approximate)
    assert got.dtype == dtype
    assert_near(got, plain.gelu(u.double(), approximate), rounding=SERIES)


@either_form
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 48), (7, 5 * 199)])
def test_the_backward_pass_leaves_the_gradient_and_when_asked_the_output(
    interpreted: Interpreted,
    assert_near: Near,
    draw: Draw,
    shape: tuple[int, int],
    again: bool,
    approximate: str,
) -> None:
    u = (1.5 * draw(*shape)).clamp(min=-5).bfloat16()
    dg = draw(*shape, dtype=torch.bfloat16)
    _, left = interpreted("gelu.gelu_backward_", u, dg, approximate, again)
    assert_near(left[1], backward_in_float64(u, dg, approximate), rounding=SERIES)
    if again:
        assert_near(left[0], plain.gelu(u.double(), approximate), rounding=SERIES)
    else:
        assert left[0].equal(u)


def test_the_series_for_erfc_is_off_by_at_most_0_4_percent_down_to_minus_six(
    interpreted: Interpreted,
) -> None:
    u = torch.linspace(-6, -3, 3001)
    got, _ = interpreted("gelu.gelu", u, "none")
    want = plain.gelu(u.double(), "none")
    off = ((got.double() - want) / want).abs()
    assert off.max() < 4e-3
    assert off[u > -5].max() < 2e-3
    assert off[u > -4].max() < 5e-4


@pytest.mark.parametrize("backward", [False, True])
def test_the_tail_in_bf16_is_at_most_one_step_from_the_rounded_truth(
    interpreted: Interpreted, backward: bool
) -> None:
    """Rounding alone may be half a step off; the series moves a value to its neighbour and no further."""
    u = torch.linspace(-6, -3, 3001).bfloat16()
    if backward:
        ones = torch.ones_like(u)
        _, (_, got, _, _) = interpreted("gelu.gelu_backward_", u, ones, "none", False)
        want = backward_in_float64(u, ones, "none")
    else:
        got, _ = interpreted("gelu.gelu", u, "none")
        want = plain.gelu(u.double(), "none")
    assert ((got.double() - want) / want).abs().max() < BF16_STEP


@either_form
def test_far_out_gelu_is_nothing_or_everything(interpreted: Interpreted, approximate: str) -> None:
    u = torch.tensor([-1e4, -100.0, -20.0, 20.0, 100.0, 1e4], dtype=torch.bfloat16)
    dg = torch.ones_like(u)
    got, _ = interpreted("gelu.gelu", u, approximate)
    _, left = interpreted("gelu.gelu_backward_", u, dg, approximate, False)
    assert got.tolist() == [0, 0, 0, *u[3:].tolist()]
    assert left[1].tolist() == [0, 0, 0, 1, 1, 1]
