"""The step by hand against autograd in float64, with each part that came after GPT-2, and with all."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.config import ModelShape
from nanodyno.costs.setup import Recompute
from nanodyno.model.attention import packed
from nanodyno.model.fused import FusedStep, MicroStepPlan
from nanodyno.model.fused_modern import ModernStep, make_step
from nanodyno.model.gpt import GPT
from nanodyno.model.modern import ModernGPT, rotation

Shapes = Callable[..., ModelShape]
Models = Callable[..., GPT]
Tokens = Callable[..., Tensor]

EXACT = MicroStepPlan(torch.float64, torch.float64, packed("torch"), loss_chunk_size=7)
PARTS: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "value_embeddings": 1,
    "untied_head": True, "logit_softcap": 3.0,
}  # fmt: skip


def modern_model(shape: ModelShape) -> ModernGPT:
    """Weights of 0.2, and angles in float64: in float32 a turn and back is a little off."""
    model, generator = ModernGPT(shape).double(), torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64) + 0.1
            )
    if shape.positions == "rope":
        angles = torch.arange(shape.block_size)[:, None] * shape.rope_base ** -(
            torch.arange(shape.head_size // 2, dtype=torch.float64) / (shape.head_size // 2)
        )
        torch.testing.assert_close(angles.cos().float(), rotation(shape)[0])
        model.register_buffer("cos_TK", angles.cos(), persistent=False)
        model.register_buffer("sin_TK", angles.sin(), persistent=False)
    return model


def assert_as_autograd(model: GPT, batches: list[tuple[Tensor, Tensor]], plan: MicroStepPlan) -> FusedStep:
    step = make_step(copy.deepcopy(model), plan)
    step.begin(0.25)
    total = torch.zeros((), dtype=torch.float64)
    for inputs, targets in batches:
        step(inputs, targets)
        loss = model(inputs, targets) * 0.25
        loss.backward()
        total += loss.detach()
    step.finish()
    torch.testing.assert_close(step.total, total, rtol=1e-12, atol=0)
    expected = dict(model.named_parameters())
    for name, parameter in step.model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-9, atol=1e-13, msg=name)
        assert parameter.grad is not None
        assert parameter.grad.any()
    return step


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("recompute", ["none", "light", "mlp", "full"])
def test_all_parts_together_have_autograds_loss_and_gradients(
    shape: Shapes, tokens: Tokens, recompute: Recompute, bias: bool
) -> None:
    batches = [(tokens(seed=1), tokens(seed=2)), (tokens(rows=2, seed=3), tokens(rows=2, seed=4))]
    model = modern_model(shape(**PARTS, bias=bias))
    assert_as_autograd(model, batches, replace(EXACT, recompute=recompute))


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone_has_them(shape: Shapes, tokens: Tokens, part: str) -> None:
    model = modern_model(shape(**{part: PARTS[part]}))
    step = assert_as_autograd(model, [(tokens(seed=1), tokens(seed=2))], EXACT)
    assert isinstance(step, ModernStep)


def test_gpt2_takes_the_plain_step(shape: Shapes, drawn_model: Models) -> None:
    assert type(make_step(drawn_model(shape()), EXACT)) is FusedStep


def test_a_table_serves_two_blocks_and_its_gradient_is_the_sum_of_both(shape: Shapes, tokens: Tokens) -> None:
    model = modern_model(shape(n_layer=4, value_embeddings=2))
    assert [block.values for block in model.blocks] == [0, 1, 0, 1]
    assert_as_autograd(model, [(tokens(seed=1), tokens(seed=2))], EXACT)


def test_sequences_may_be_shorter_than_the_block_and_targets_ignored(shape: Shapes, tokens: Tokens) -> None:
    inputs, targets = tokens(columns=5, seed=1), tokens(columns=5, seed=2)
    targets[0] = -100
    assert_as_autograd(modern_model(shape(**PARTS)), [(inputs, targets)], EXACT)


def test_in_bf16_it_is_as_near_to_float64_as_autocast_is(shape: Shapes, tokens: Tokens) -> None:
    exact = modern_model(shape(n_embd=32, **PARTS))
    batch = (tokens(seed=1), tokens(seed=2))
    exact(*batch).backward()
    single = copy.deepcopy(exact).float()
    for parameter in single.parameters():
        parameter.grad = None
    step = make_step(copy.deepcopy(single), replace(EXACT, half=torch.bfloat16, residual=torch.float32))
    step.begin(1.0)
    step(*batch)
    step.finish()
    with torch.autocast("cpu", torch.bfloat16):
        single(*batch).backward()

    def off(model: GPT) -> dict[str, float]:
        want = dict(exact.named_parameters())
        found: dict[str, float] = {}
        for name, parameter in model.named_parameters():
            expected = want[name].grad
            assert parameter.grad is not None
            assert expected is not None
            found[name] = float((parameter.grad.double() - expected).norm() / expected.norm())
        return found

    ours, theirs = off(step.model), off(single)
    assert max(ours.values()) < 1.5 * max(theirs.values()) < 0.1
