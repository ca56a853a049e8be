"""Triton's norm, forward and backward, in the interpreter against its twin in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain

EPS = 1e-5
HALF = torch.bfloat16
PROGRAMS = 4

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

bias_or_not = pytest.mark.parametrize("bias", [False, True])
added_or_not = pytest.mark.parametrize("added", [False, True])
either_stream = pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])


def wide(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.double()


def check_forward(
    interpreted: Interpreted,
    near: Near,
    x: Tensor,
    y: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
) -> None:
    (out, n, mean, rstd), _ = interpreted("norm.add_norm", x, y, weight, bias, HALF, EPS)
    want = plain.add_norm(x, y, weight.double(), wide(bias), torch.float64, EPS)
    assert out.dtype == x.dtype
    assert out.equal(want[0])
    assert n.dtype == HALF
    near(n, want[1])
    near(mean, want[2])
    near(rstd, want[3])


@either_stream
@added_or_not
@bias_or_not
def test_the_forward_pass_is_the_float64_norm(
    interpreted: Interpreted, assert_near: Near, draw: Draw, bias: bool, added: bool, stream: torch.dtype
) -> None:
    x, y = draw(5, 80, dtype=stream), draw(5, 80, dtype=HALF) if added else None
    check_forward(interpreted, assert_near, x, y, draw(80), draw(80) if bias else None)


@pytest.mark.parametrize(("N", "C"), [(1, 48), (3, 33), (3, 768), (1, 1000), (2, 1280), (2, 1600), (1, 1)])
def test_the_forward_pass_takes_any_width_and_one_token(
    interpreted: Interpreted, assert_near: Near, draw: Draw, N: int, C: int
) -> None:
    check_forward(interpreted, assert_near, draw(N, C), draw(N, C, dtype=HALF), draw(C), draw(C))


@either_stream
@added_or_not
@pytest.mark.parametrize("C", [33, 80])
def test_not_centred_it_is_the_float64_rms_norm_and_there_is_no_mean(
    interpreted: Interpreted, assert_near: Near, draw: Draw, C: int, added: bool, stream: torch.dtype
) -> None:
    x, y = 1 + draw(3, C, dtype=stream), draw(3, C, dtype=HALF) if added else None
    weight = draw(C)
    (out, n, mean, rstd), _ = interpreted("norm.add_norm", x, y, weight, None, HALF, EPS, False)
    want = plain.add_norm(x, y, weight.double(), None, torch.float64, EPS, centred=False)
    assert mean is None
    assert out.equal(want[0])
    assert_near(n, want[1])
    assert_near(rstd, want[3])


def test_a_mean_far_from_zero_costs_no_precision(
    interpreted: Interpreted, assert_near: Near, draw: Draw
) -> None:
    # E[x^2] - E[x]^2 in fp32 would leave 10^6 * 2^-24 = 0.06 of a variance of 1.
    x = 1000 + draw(3, 48)
    _, n, _, rstd = interpreted("norm.add_norm", x, None, torch.ones(48), None, HALF, EPS)[0]
    want = plain.add_norm(x, None, torch.ones(48).double(), None, torch.float64, EPS)
    assert_near(n, want[1], scale=100)
    assert_near(rstd, want[3], scale=10)


@dataclass(frozen=True)
class Backward:
    """What a backward pass is asked for."""

    rows: int
    width: int
    stream: torch.dtype = torch.float32
    bias: bool = True
    added: bool = True
    again: bool = True
    centred: bool = True


EVERY_FORM = [
    Backward(7, 80, *form)
    for form in product((torch.float32, torch.bfloat16), (False, True), (False, True), (False, True))
]
NOT_CENTRED = [
    Backward(7, 33, stream, False, added, again, centred=False)
    for stream, added, again in product((torch.float32, torch.bfloat16), (False, True), (False, True))
] + [Backward(2, 80, bias=True, centred=False)]
SIZES = [(1, 48), (2, 33), (9, 768), (1, 1000), (5, 1280), (4, 1600), (3, 1)]


@pytest.mark.parametrize("asked", EVERY_FORM + NOT_CENTRED + [Backward(*size) for size in SIZES], ids=str)
def test_the_backward_pass_is_the_float64_one_at_any_width_and_with_fewer_rows_than_programs(
    interpreted: Interpreted, assert_near: Near, draw: Draw, asked: Backward
) -> None:
    N, C = asked.rows, asked.width
    x, dn = draw(N, C, dtype=asked.stream), draw(N, C, dtype=HALF)
    dx = draw(N, C, dtype=asked.stream) if asked.added else None
    weight, bias = draw(C), draw(C) if asked.bias else None
    _, _, mean, rstd = plain.add_norm(x, None, weight.double(), wide(bias), torch.float64, EPS, asked.centred)
    weight_before, bias_before = draw(PROGRAMS, C), draw(PROGRAMS, C) if asked.bias else None
    (got_dx, half, n), left = interpreted(
        "norm.norm_backward", dn, x, None if mean is None else mean.float(), rstd.float(), weight, bias, dx,
        weight_before, bias_before, asked.again,
    )  # fmt: skip
    weight_sum = weight_before.double().sum(0, keepdim=True)
    bias_sum = None if bias_before is None else bias_before.double().sum(0, keepdim=True)
    want_dx, _, want_n = plain.norm_backward(
        dn.double(), x.double(), mean, rstd, weight.double(), wide(bias), wide(dx), weight_sum, bias_sum, True
    )
    assert (got_dx.dtype, half.dtype) == (asked.stream, HALF)
    assert_near(got_dx, want_dx)
    assert_near(half, want_dx)
    assert_near(left[7].sum(0), weight_sum[0], scale=N)
    if bias_sum is not None:
        assert_near(left[8].sum(0), bias_sum[0], scale=N)
    assert (n is not None) == asked.again
    if asked.again:
        assert_near(n, want_n)


def test_the_residual_streams_gradient_is_added_to_in_place(interpreted: Interpreted, draw: Draw) -> None:
    x, dx = draw(3, 48), draw(3, 48)
    arguments = (draw(3, 48, dtype=HALF), x, x.mean(1), x.var(1).rsqrt(), draw(48), None, dx)
    (got, _, _), left = interpreted("norm.norm_backward", *arguments, torch.zeros(PROGRAMS, 48), None, False)
    assert got is left[6]
