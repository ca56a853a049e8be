"""The micro-step written by hand against autograd on the same weights."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nanodyno.config import ModelShape
from nanodyno.costs.setup import Recompute
from nanodyno.model.attention import packed
from nanodyno.model.fused import FusedStep, MicroStepPlan
from nanodyno.model.gpt import GPT

Shapes = Callable[..., ModelShape]
Models = Callable[..., GPT]
Tokens = Callable[..., Tensor]

EXACT = MicroStepPlan(torch.float64, torch.float64, packed("torch"), loss_chunk_size=7)
MIXED = MicroStepPlan(torch.bfloat16, torch.float32, packed("torch"), loss_chunk_size=16)
IGNORED = -100

every_recompute = pytest.mark.parametrize("recompute", ["none", "light", "mlp", "full"])


def by_hand(
    model: GPT, batches: list[tuple[Tensor, Tensor]], plan: MicroStepPlan, weight: float = 1.0
) -> FusedStep:
    step = FusedStep(copy.deepcopy(model), plan)
    step.begin(weight)
    for inputs, targets in batches:
        step(inputs, targets)
    step.finish()
    return step


def by_autograd(model: GPT, batches: list[tuple[Tensor, Tensor]], weight: float = 1.0) -> tuple[GPT, float]:
    model, total = copy.deepcopy(model), 0.0
    for inputs, targets in batches:
        loss = model(inputs, targets) * weight
        loss.backward()
        total += loss.item()
    return model, total


def gradients(model: GPT) -> dict[str, Tensor]:
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def assert_as_autograd(
    model: GPT, batches: list[tuple[Tensor, Tensor]], plan: MicroStepPlan, weight: float = 1.0
) -> None:
    step = by_hand(model, batches, plan, weight)
    reference, total = by_autograd(model, batches, weight)
    assert step.total.item() == pytest.approx(total, rel=1e-12)
    expected = gradients(reference)
    for name, gradient in gradients(step.model).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-12, msg=name)


@every_recompute
@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("bias", [False, True])
def test_loss_and_every_gradient_are_autograds(
    shape: Shapes, drawn_model: Models, tokens: Tokens, bias: bool, gelu: str, recompute: Recompute
) -> None:
    model = drawn_model(shape(bias=bias, gelu=gelu))
    batch = (tokens(seed=1), tokens(seed=2))
    assert_as_autograd(model, [batch], replace(EXACT, recompute=recompute), weight=0.25)


@pytest.mark.parametrize("rows", [1, 5, 23, 24, 1000])
def test_the_rows_of_logits_at_a_time_need_not_divide_the_positions(
    shape: Shapes, drawn_model: Models, tokens: Tokens, rows: int
) -> None:
    # 3 sequences of 8 positions are 24 rows.
    assert_as_autograd(
        drawn_model(shape()), [(tokens(seed=1), tokens(seed=2))], replace(EXACT, loss_chunk_size=rows)
    )


def test_ignored_targets_count_neither_in_the_loss_nor_in_the_mean(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    targets = tokens(seed=2)
    targets[0, :5] = targets[2] = IGNORED
    assert_as_autograd(drawn_model(shape()), [(tokens(seed=1), targets)], EXACT)


def test_with_every_target_ignored_loss_and_gradients_are_zero(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    inputs = tokens(seed=1)
    step = by_hand(drawn_model(shape()), [(inputs, torch.full_like(inputs, IGNORED))], EXACT)
    assert step.total.item() == 0
    assert not step.flat.gradients.any()


@every_recompute
def test_one_token_has_a_loss_and_a_gradient(
    shape: Shapes, drawn_model: Models, tokens: Tokens, recompute: Recompute
) -> None:
    batch = (tokens(1, 1, seed=1), tokens(1, 1, seed=2))
    assert_as_autograd(drawn_model(shape()), [batch], replace(EXACT, recompute=recompute))


def test_sequences_may_be_shorter_than_the_block(shape: Shapes, drawn_model: Models, tokens: Tokens) -> None:
    model = drawn_model(shape())
    batch = (tokens(columns=3, seed=1), tokens(columns=3, seed=2))
    assert_as_autograd(model, [batch], EXACT)
    unused = by_hand(model, [batch], EXACT).model.positions.weight.grad
    assert unused is not None
    assert not unused[3:].any()


@pytest.mark.parametrize("head_size", [48, 80])
def test_heads_may_have_any_size(shape: Shapes, drawn_model: Models, tokens: Tokens, head_size: int) -> None:
    model = drawn_model(shape(n_embd=2 * head_size))
    assert_as_autograd(model, [(tokens(seed=1), tokens(seed=2))], EXACT)


@every_recompute
def test_micro_steps_add_up(shape: Shapes, drawn_model: Models, tokens: Tokens, recompute: Recompute) -> None:
    batches = [(tokens(seed=1), tokens(seed=2)), (tokens(rows=2, seed=3), tokens(rows=2, seed=4))]
    assert_as_autograd(drawn_model(shape()), batches, replace(EXACT, recompute=recompute), weight=0.5)


def test_a_new_iteration_sees_changed_weights_and_counts_its_loss_from_zero(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    batch = (tokens(seed=1), tokens(seed=2))
    step = by_hand(drawn_model(shape()), [batch], EXACT)
    with torch.no_grad():
        step.flat.parameters.mul_(1.1)
        step.flat.gradients.zero_()
    expected, total = by_autograd(step.model, [batch])
    step.begin(1.0)
    step(*batch)
    step.finish()
    assert step.total.item() == pytest.approx(total, rel=1e-12)
    for name, gradient in gradients(step.model).items():
        torch.testing.assert_close(gradient, gradients(expected)[name], rtol=1e-9, atol=1e-12)


def test_dropped_micro_steps_leave_nothing_behind(shape: Shapes, drawn_model: Models, tokens: Tokens) -> None:
    model, batch = drawn_model(shape()), (tokens(seed=1), tokens(seed=2))
    once = by_hand(model, [batch], EXACT)
    step = FusedStep(copy.deepcopy(model), EXACT)
    step.begin(1.0)
    step(tokens(seed=3), tokens(seed=4))
    step.drop()
    step.begin(1.0)
    step(*batch)
    step.finish()
    assert step.flat.gradients.equal(once.flat.gradients)
    assert step.total.equal(once.total)


@pytest.mark.parametrize("recompute", ["light", "mlp", "full"])
@pytest.mark.parametrize("plan", [EXACT, MIXED], ids=["float64", "bf16"])
def test_making_activations_again_changes_no_bit(
    shape: Shapes, drawn_model: Models, tokens: Tokens, plan: MicroStepPlan, recompute: Recompute
) -> None:
    model = drawn_model(shape(), torch.float32 if plan is MIXED else torch.float64)
    batch = (tokens(seed=1), tokens(seed=2))
    kept = by_hand(model, [batch], plan)
    again = by_hand(model, [batch], replace(plan, recompute=recompute))
    assert again.flat.gradients.equal(kept.flat.gradients)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bias", [False, True])
def test_bf16_products_leave_the_gradient_as_near_to_float64_as_autocast_does(
    shape: Shapes, tokens: Tokens, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    model = GPT(shape(n_layer=4, n_embd=64, block_size=32, vocab_size=97, bias=bias))
    batch = (tokens(4, 32, 97, seed=seed), tokens(4, 32, 97, seed=seed + 10))
    truth, _ = by_autograd(model.double(), [batch])
    model = model.float()
    with torch.autocast("cpu", torch.bfloat16):
        autocast, _ = by_autograd(model, [batch])
    step = by_hand(model, [batch], MIXED)
    assert distance(step.model, truth) <= 1.2 * distance(autocast, truth)


def distance(model: GPT, truth: GPT) -> float:
    """Relative, over the gradients of all parameters together."""
    expected = gradients(truth)
    off = sum((each - expected[name]).square().sum() for name, each in gradients(model).items())
    whole = sum(each.square().sum() for each in expected.values())
    return float(off / whole) ** 0.5
