"""Triton's cross-entropy in the interpreter against its twin in float64."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain

IGNORED = plain.IGNORED
BLOCK = 8 * 2048

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]


def run(
    interpreted: Interpreted, logits: Tensor, targets: Tensor, scale: float = 1.0, cap: float | None = None
) -> tuple[Tensor, Tensor]:
    """Losses, poisoned before, and gradients."""
    losses = torch.full((len(targets),), torch.nan)
    _, left = interpreted("loss.cross_entropy_", logits, targets, torch.tensor(scale), losses, None, cap)
    return left[3], left[0]


def in_float64(
    logits: Tensor, targets: Tensor, scale: float = 1.0, cap: float | None = None
) -> tuple[Tensor, Tensor]:
    gradients, losses = logits.double(), torch.empty(len(targets), dtype=torch.float64)
    plain.cross_entropy_(gradients, targets, torch.tensor(scale, dtype=torch.float64), losses, cap=cap)
    return losses, gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("V", [1, 37, 1000, BLOCK, 2 * BLOCK + 1, 50257])
def test_loss_and_gradient_are_the_float64_ones_for_any_vocabulary(
    interpreted: Interpreted, assert_near: Near, draw: Draw, V: int, dtype: torch.dtype
) -> None:
    logits, targets = 3 * draw(3, V).to(dtype), torch.tensor([0, V - 1, V // 2])
    losses, gradients = run(interpreted, logits, targets, 0.125)
    want = in_float64(logits, targets, 0.125)
    assert_near(losses, want[0])
    assert gradients.dtype == dtype
    assert_near(gradients, want[1], scale=1e-2)


def test_one_token_has_a_loss_and_a_gradient(interpreted: Interpreted) -> None:
    # Of logits 0 and ln 3 the softmax is 1/4 and 3/4; the loss of the first is ln 4.
    losses, gradients = run(interpreted, torch.tensor([[1.0, 3.0]]).log(), torch.tensor([0]), 2.0)
    torch.testing.assert_close(losses, torch.tensor([4.0]).log())
    torch.testing.assert_close(gradients, torch.tensor([[-1.5, 1.5]]))


def test_an_ignored_target_leaves_zeros_and_the_others_as_they_were(
    interpreted: Interpreted, assert_near: Near, draw: Draw
) -> None:
    logits, targets = draw(4, 37), torch.tensor([5, IGNORED, 0, IGNORED])
    losses, gradients = run(interpreted, logits, targets, 0.5)
    assert losses[[1, 3]].tolist() == [0, 0]
    assert not gradients[[1, 3]].any()
    want = in_float64(logits, targets, 0.5)
    assert_near(losses, want[0])
    assert_near(gradients, want[1])


@pytest.mark.parametrize("V", [37, BLOCK + 5])
def test_with_every_target_ignored_there_is_no_loss_and_no_gradient(
    interpreted: Interpreted, draw: Draw, V: int
) -> None:
    losses, gradients = run(interpreted, 1e4 * draw(3, V), torch.full((3,), IGNORED))
    assert not losses.any()
    assert not gradients.any()


def test_a_scale_of_nothing_gives_a_gradient_of_nothing(interpreted: Interpreted, draw: Draw) -> None:
    losses, gradients = run(interpreted, draw(2, 37), torch.tensor([3, 4]), 0.0)
    assert (losses > 0).all()
    assert not gradients.any()


@pytest.mark.parametrize("V", [37, 2 * BLOCK + 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_of_ten_thousand_neither_overflow_nor_lose_the_loss(
    interpreted: Interpreted, assert_near: Near, draw: Draw, V: int, dtype: torch.dtype
) -> None:
    logits = (1e4 * draw(4, V)).to(dtype)
    logits[0] = 1e4  # all alike: the loss is log V
    targets = torch.tensor([1, V - 1, 2, 3])
    losses, gradients = run(interpreted, logits, targets)
    want = in_float64(logits, targets)
    # fp32 holds 10^4 to 10^-3, and an exponent that far off makes a probability as far off, relatively.
    assert_near(losses, want[0], scale=1e3)
    assert_near(gradients, want[1], rounding=4e-3)
    assert losses[0].item() == pytest.approx(torch.tensor(V).log().item(), abs=2e-3)


def test_a_logit_of_minus_infinity_has_no_probability_and_no_gradient(
    interpreted: Interpreted, assert_near: Near, draw: Draw
) -> None:
    logits = draw(3, 37)
    logits[:, 20:] = -torch.inf
    targets = torch.tensor([0, 7, 19])
    losses, gradients = run(interpreted, logits, targets)
    assert not gradients[:, 20:].any()
    want = in_float64(logits, targets)
    assert_near(losses, want[0])
    assert_near(gradients, want[1])


@pytest.mark.parametrize("hidden", [slice(0, BLOCK), slice(BLOCK, 2 * BLOCK), slice(2 * BLOCK, None)])
def test_a_whole_block_of_minus_infinity_changes_nothing_for_the_others(
    interpreted: Interpreted, assert_near: Near, draw: Draw, hidden: slice
) -> None:
    logits = draw(2, 2 * BLOCK + 5)
    logits[:, hidden] = -torch.inf
    shown = torch.arange(2 * BLOCK + 5)[logits[0].isfinite()]
    targets = shown[[0, -1]]
    losses, gradients = run(interpreted, logits, targets)
    want = in_float64(logits, targets)
    assert_near(losses, want[0])
    assert_near(gradients, want[1], scale=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("V", [1, 37, BLOCK, 2 * BLOCK + 5])
def test_a_capped_loss_and_gradient_are_the_float64_ones_for_any_vocabulary(
    interpreted: Interpreted, assert_near: Near, draw: Draw, V: int, dtype: torch.dtype
) -> None:
    logits, targets = (10 * draw(4, V)).to(dtype), torch.tensor([0, V - 1, V // 2, IGNORED])
    losses, gradients = run(interpreted, logits, targets, 0.125, cap=15.0)
    want = in_float64(logits, targets, 0.125, cap=15.0)
    assert_near(losses, want[0], scale=10)
    assert_near(gradients, want[1], scale=1e-2)


def test_a_cap_of_ln_3_holds_far_logits_and_counts_none_beyond_the_vocabulary(
    interpreted: Interpreted,
) -> None:
    # exp(+-ln 3) is 3 and 1/3; of 1/3 + 3 + 3 these are 1/19 and 9/19. Far out nothing changes the loss.
    far = torch.tensor([[-1e4, 1e4, 1e4], [-torch.inf, torch.inf, torch.inf]])
    losses, gradients = run(interpreted, far, torch.tensor([0, 1]), cap=math.log(3))
    torch.testing.assert_close(losses, torch.tensor([19, 19 / 9]).log())
    assert not gradients.any()


@pytest.mark.parametrize("cap", [0.5, 1e3])
def test_a_cap_may_be_narrow_or_wide(
    interpreted: Interpreted, assert_near: Near, draw: Draw, cap: float
) -> None:
    logits, targets = 500 * draw(3, BLOCK + 5), torch.tensor([1, BLOCK, BLOCK + 4])
    losses, gradients = run(interpreted, logits, targets, cap=cap)
    want = in_float64(logits, targets, cap=cap)
    assert_near(losses, want[0], scale=10)
    assert_near(gradients, want[1], rounding=4e-4)  # fp32 holds an exponent of 1000 to 10^-4


@pytest.mark.parametrize("cap", [35.0, 35.5, 100.0])
def test_a_target_at_the_other_end_of_a_wide_cap_costs_its_width(
    interpreted: Interpreted, cap: float
) -> None:
    """Also where exponentials alone would be beyond float32: the others are twice the cap above it."""
    logits = torch.full((2, BLOCK + 5), 1e4)
    logits[0, 0] = logits[1, -1] = -1e4
    losses, _ = run(interpreted, logits, torch.tensor([0, BLOCK + 4]), cap=cap)
    torch.testing.assert_close(losses, torch.full((2,), 2 * cap + math.log(BLOCK + 4)))


@pytest.mark.parametrize("cap", [None, 15.0])
def test_a_logit_that_is_no_number_shows_in_the_loss(
    interpreted: Interpreted, draw: Draw, cap: float | None
) -> None:
    logits = draw(2, 37)
    logits[1, 5] = torch.nan
    losses, _ = run(interpreted, logits, torch.tensor([1, 2]), cap=cap)
    assert losses.isnan().tolist() == [False, True]
