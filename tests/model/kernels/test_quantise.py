"""Tensors in fp8: the twin by hand, and Triton's kernels in the interpreter against it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain
from nanodyno.model.kernels.plain import LOGIT_UNITS, Fp8Slot

Draw = Callable[..., Tensor]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def slot(dtype: torch.dtype, scale: float, places: int = 4) -> Fp8Slot:
    return Fp8Slot(dtype, torch.tensor(scale), torch.zeros(places))


def steps_apart(one: Tensor, other: Tensor) -> int:
    """In steps of fp8: neighbours of one sign are one apart as bytes. There is one zero."""
    one, other = ((each.float() + 0.0).to(each.dtype).view(torch.uint8).int() for each in (one, other))
    return int((one - other).abs().max())


def test_a_value_is_scaled_rounded_cut_off_and_the_largest_is_noted() -> None:
    x = torch.tensor([1.0, -1.06, 100.0, 0.0])
    how = slot(E4M3, 8.0)
    assert plain.quantise(x, how).float().tolist() == [
        8.0,
        -8.0,
        448.0,
        0.0,
    ]  # 8.48 lies nearer to 8 than to 9
    assert how.largest.max() == 100.0
    plain.quantise(torch.tensor([-3.0]), how)
    assert how.largest.max() == 100.0


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("count", [1, 2048, 5000])
def test_the_kernel_quantises_as_its_twin(
    interpreted: Interpreted, draw: Draw, count: int, dtype: torch.dtype
) -> None:
    x = draw(count, dtype=torch.bfloat16)
    want = plain.quantise(x, slot(dtype, 100.0))
    got, (_, left) = interpreted("quantise.quantise", x, slot(dtype, 100.0))
    assert got.dtype == dtype
    assert steps_apart(got, want) == 0
    assert left.largest.max() == x.float().abs().max()


def test_gelus_output_and_gradient_come_in_fp8_besides(interpreted: Interpreted, draw: Draw) -> None:
    u, dg = 1.5 * draw(3, 700), draw(3, 700)
    want = plain.gelu(u, "none", slot(E4M3, 50.0))
    got, (_, _, left) = interpreted("gelu.gelu", u, "none", slot(E4M3, 50.0))
    assert steps_apart(got, want) <= 1
    assert left.largest.max() == pytest.approx(float(plain.gelu(u, "none").abs().max()), rel=1e-5)
    gradient = dg.clone()
    want = plain.gelu_backward_(u.clone(), gradient, "none", True, slot(E5M2, 1000.0))
    got, (_, _, _, _, left) = interpreted(
        "gelu.gelu_backward_", u.clone(), dg.clone(), "none", True, slot(E5M2, 1000.0)
    )
    assert want is not None
    assert steps_apart(got, want) <= 1
    assert left.largest.max() == pytest.approx(float(gradient.abs().max()), rel=1e-5)


@pytest.mark.parametrize("cap", [None, 3.0])
def test_the_logits_gradient_comes_in_fp8_in_units_of_the_scale(
    interpreted: Interpreted, draw: Draw, cap: float | None
) -> None:
    logits, targets = 2 * draw(5, 300), torch.tensor([0, 299, 7, -100, 150])
    scale, losses = torch.tensor(0.125), torch.zeros(5)
    want = torch.zeros(5, 300, dtype=E5M2)
    plain.cross_entropy_(logits.clone(), targets, scale, losses, want, cap)
    _, left = interpreted("loss.cross_entropy_", logits, targets, scale, losses, torch.zeros_like(want), cap)
    assert steps_apart(left[4], want) <= 1
    at_target = float(want[0, 0].float() / LOGIT_UNITS)
    bent, slope = logits[0], 1.0
    if cap is not None:
        bent, slope = cap * (bent / cap).tanh(), 1 - (bent[0] / cap).tanh().item() ** 2
    assert at_target == pytest.approx((float(bent.softmax(0)[0]) - 1) * slope, rel=0.13)
    assert not want[3].float().any()
