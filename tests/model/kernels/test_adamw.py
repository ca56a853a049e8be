"""The optimiser's kernel, its twin and the rounding of bf16 moments, against formulas in float64."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain
from nanodyno.model.kernels.plain import Update

Draw = Callable[..., Tensor]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

UPDATE = Update(step=7, learning_rate=0.01, beta1=0.8, beta2=0.9, eps=1e-8, weight_decay=0.3)
TOTAL, DECAYED = 2500, 1300  # neither a multiple of the block


def expected(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, clip: float, cautious: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The paper's formula at step 7 in float64."""
    p, g, m, v = p.double(), g.double() * clip, m.double(), v.double()
    m = 0.8 * m + 0.2 * g
    v = 0.9 * v + 0.1 * g * g
    decay = torch.tensor([0.3] * DECAYED + [0.0] * (TOTAL - DECAYED), dtype=torch.float64)
    if cautious:
        decay *= m * p > 0
    step = m / (1 - 0.8**7) / ((v / (1 - 0.9**7)).sqrt() + 1e-8)
    return p - 0.01 * decay * p - 0.01 * step, m, v


def stretches(draw: Draw, moments: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return draw(TOTAL), draw(TOTAL), draw(TOTAL, dtype=moments), draw(TOTAL).square().to(moments)


@pytest.mark.parametrize("clip", [1.0, 0.25])
@pytest.mark.parametrize(("keep", "cautious"), [(True, False), (False, False), (False, True)])
def test_a_step_is_that_of_the_formula(
    clip: float,
    keep: bool,
    cautious: bool,
    interpreted: Interpreted,
    draw: Draw,
    assert_near: Callable[..., None],
) -> None:
    p, g, m, v = stretches(draw)
    update = replace(UPDATE, cautious=cautious)
    _, after = interpreted("adamw.adamw_", p, g, m, v, torch.tensor(clip), DECAYED, update, keep)
    for got, want in zip((after[0], after[2], after[3]), expected(p, g, m, v, clip, cautious), strict=True):
        assert_near(got, want)
    assert after[1].equal(g if keep else torch.zeros_like(g))


def test_bf16_moments_are_rounded_to_a_neighbour_and_leave_the_update_as_it_is(
    interpreted: Interpreted, draw: Draw, assert_near: Callable[..., None]
) -> None:
    p, g, m, v = stretches(draw, torch.bfloat16)
    _, after = interpreted("adamw.adamw_", p, g, m, v, torch.tensor(0.5), DECAYED, UPDATE, False)
    want_p, want_m, want_v = expected(p, g, m, v, 0.5)
    assert_near(after[0], want_p)
    for got, want in ((after[2], want_m), (after[3], want_v)):
        assert got.dtype == torch.bfloat16
        off = (got.double() - want) / want.abs()
        assert off.abs().max() < 2**-7 * 1.001
        assert abs(off.mean()) < 3e-4  # one is off by 2e-3 or so, and there are 2,500


def test_kernel_and_twin_draw_the_same(interpreted: Interpreted, draw: Draw) -> None:
    p, g, m, v = stretches(draw, torch.bfloat16)
    clip = torch.tensor(1.0)
    _, after = interpreted("adamw.adamw_", p, g, m, v, clip, DECAYED, UPDATE, False)
    plain.adamw_(p, g, m, v, clip, DECAYED, UPDATE, False)
    for ours, theirs in ((m, after[2]), (v, after[3])):
        assert (ours == theirs).double().mean() > 0.999  # else half of them would differ by a step


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0x7FC00000])  # a GPU's own NaN has all bits set
def test_a_gradient_that_is_no_number_shows_in_bf16_moments(
    bits: int, interpreted: Interpreted, draw: Draw
) -> None:
    p, _, m, v = stretches(draw, torch.bfloat16)
    g = torch.full([TOTAL], bits, dtype=torch.int32).view(torch.float32)
    clip = torch.tensor(1.0)
    _, after = interpreted("adamw.adamw_", p, g, m, v, clip, DECAYED, UPDATE, False)
    plain.adamw_(p, g, m, v, clip, DECAYED, UPDATE, False)
    assert all(each.isnan().all() for each in (after[0], after[2], after[3], p, m, v))


def test_it_does_not_matter_where_the_twin_cuts_a_stretch(draw: Draw) -> None:
    total, decayed = 2 * plain.ADAMW_CHUNK + 77, plain.ADAMW_CHUNK + 55
    p, g, m, v = draw(total), draw(total), draw(total), draw(total).square()
    whole = [each.clone() for each in (p, g, m, v)]
    clip = torch.tensor(1.0)
    for start in range(0, total, 50_000):
        here = slice(start, start + 50_000)
        plain.adamw_(p[here], g[here], m[here], v[here], clip, max(decayed - start, 0), UPDATE, False)
    plain.adamw_(whole[0], whole[1], whole[2], whole[3], clip, decayed, UPDATE, False)
    for ours, theirs in zip((p, g, m, v), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("value", [1.0012345, -3.7e-20, 65537.0])
def test_the_mean_over_all_noise_is_the_number_itself(value: float) -> None:
    x = torch.full([2**16], value)
    got = plain.rounded(x, torch.arange(2**16)).double()
    assert got.unique().numel() == 2
    assert got.mean().item() == pytest.approx(x[0].item(), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.5, -(2.0**-100), float("inf"), float("-inf")])
def test_what_bf16_can_hold_is_left_as_it_is(value: float) -> None:
    assert (plain.rounded(torch.full([2**16], value), torch.arange(2**16)) == value).all()


def test_a_second_moment_comes_down_by_thousandths() -> None:
    p, g, m = (torch.zeros(4096) for _ in range(3))
    m, v = m.bfloat16(), torch.ones(4096, dtype=torch.bfloat16)
    assert (v * 0.999 == v).all()  # to the nearest it would stand still
    clip = torch.tensor(1.0)
    for step in range(1, 694):
        plain.adamw_(p, g, m, v, clip, 0, Update(step, 0.0, 0.9, 0.999, 1e-8, 0.0), False)
    assert v.double().mean().item() == pytest.approx(0.999**693, rel=0.01)  # that is one half


def test_the_generator_is_philox() -> None:
    # The first known answer of Random123's own tests for seven rounds: key and counter zero.
    assert plain.philox(0, torch.tensor([0])).item() == 0x5F6FB709


def test_noise_differs_from_step_to_step_and_from_place_to_place() -> None:
    places = torch.arange(2**12) + 2**32 - 2**11  # across the end of 32 bits
    drawn = torch.stack([plain.philox(step, places) for step in (1, 2)])
    assert drawn.unique().numel() > 0.999 * drawn.numel()
    assert drawn.double().mean().item() == pytest.approx(2**31, rel=0.05)
