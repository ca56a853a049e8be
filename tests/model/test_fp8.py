"""Products in fp8: as near as fp8 is, with factors that follow what was seen."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from nanodyno.config import ModelShape
from nanodyno.model import fp8
from nanodyno.model.attention import packed
from nanodyno.model.fp8 import ROOM, Fp8Matmuls
from nanodyno.model.fused import FusedStep, MicroStepPlan
from nanodyno.model.gpt import GPT, Block
from nanodyno.model.kernels import plain

SHAPE = ModelShape(
    n_layer=2, n_head=2, n_embd=64, block_size=32, vocab_size=128, bias=True, dropout=0.0, gelu="exact"
)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(5)
    return GPT(SHAPE)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    inputs, targets = torch.randint(SHAPE.vocab_size, (2, 4, 32), generator=generator)
    return inputs, targets


def fused(model: GPT) -> FusedStep:
    plan = MicroStepPlan(torch.float32, torch.float32, packed("torch"), 50, "none", plain, fp8=True)
    return FusedStep(copy.deepcopy(model), plan)


def test_a_micro_step_is_as_near_to_autograd_as_fp8_is(model: GPT) -> None:
    reference = copy.deepcopy(model).double()
    loss = reference(*batch())
    loss.backward()
    step = fused(model)
    step.begin(1.0)
    step(*batch())
    step.drop()  # the first one only learns how large things are
    step.begin(1.0)
    step(*batch())
    step.finish()
    assert step.total.item() == pytest.approx(loss.item(), abs=5e-3)
    for ours, theirs in zip(step.model.parameters(), reference.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        apart = (ours.grad - theirs.grad).norm() / theirs.grad.norm()
        assert 1e-3 < apart < 0.15  # e5m2 has two binary digits after the point


def test_factors_are_of_the_iteration_before_with_room(model: GPT) -> None:
    step = fused(model)
    assert isinstance(step.matmuls, Fp8Matmuls)
    block = step.model.blocks[0]
    assert isinstance(block, Block)
    slot = step.matmuls.input_slot(block.mlp.down)
    assert slot is not None
    step.begin(1.0)
    assert slot.scale == 1.0
    step(*batch())
    largest = slot.largest.max().item()
    assert largest > 0
    step.begin(1.0)
    assert slot.scale.item() == pytest.approx(448 / (ROOM * largest))
    assert slot.largest.max() == 0
    step.begin(1.0)  # nothing was seen in between
    assert slot.scale.item() == pytest.approx(448 / (ROOM * largest))


def test_products_without_a_slot_stay_as_they_were(model: GPT) -> None:
    step = fused(model)
    block = step.model.blocks[0]
    assert isinstance(block, Block)
    step.begin(1.0)
    x = torch.randn(3, SHAPE.n_embd)
    torch.testing.assert_close(
        step.matmuls.forward(block.attention.out, x),
        torch.nn.functional.linear(x, block.attention.out.weight, block.attention.out.bias),
    )
    assert step.matmuls.gradient_slot(block.attention.qkv) is None


def weights_of(step: FusedStep) -> dict[nn.Linear | nn.Embedding, tuple[torch.Tensor, ...]]:
    assert isinstance(step.matmuls, Fp8Matmuls)
    found = step.matmuls._weights
    return {layer: (each.rows.float(), each.columns.float(), each.unit) for layer, each in found.items()}


@pytest.mark.parametrize("at_once", [1, 2**25])
def test_each_weight_fills_fp8_by_its_own_largest_in_both_layouts(
    model: GPT, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(fp8, "CAST_AT_ONCE", at_once)
    for place, parameter in enumerate(model.parameters()):
        parameter.data *= 2.0**-place  # of like shapes no two are as large
    step = fused(model)
    step.begin(1.0)
    assert len(weights_of(step)) == 3 * SHAPE.n_layer + 1
    for layer, (rows, columns, unit) in weights_of(step).items():
        weight = layer.weight.detach()
        assert unit.item() == pytest.approx(weight.abs().max().item() / 448)
        torch.testing.assert_close(rows * unit, weight, rtol=2**-4, atol=unit.item() * 2**-9)
        assert torch.equal(columns, rows.t())
        assert unit.storage_offset() % 4 == 0  # 16 bytes, which a product asks for


class Counting(TorchDispatchMode):
    operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self.operations += not func.is_view
        return func(*args, **(kwargs or {}))


def test_an_iteration_begins_with_as_many_launches_for_a_deep_model_as_for_a_flat_one() -> None:
    counts: list[int] = []
    for layers in (2, 5):
        step = fused(GPT(SHAPE.replaced(n_layer=layers)))
        with Counting() as mode:
            step.begin(1.0)
        counts.append(mode.operations)
    assert counts[0] == counts[1]
