"""One stretch of memory with Muon, or with rates of its own for embeddings, against torch's optimisers."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.config import ModelShape, build_config
from nanodyno.model.batched import BatchedOptimizer, make_optimizer, shapes_of_moments
from nanodyno.model.flat import flatten
from nanodyno.model.flat_adamw import FlatAdamW
from nanodyno.model.flat_update import FlatUpdate, make_flat_optimizer, takes_over_moments
from nanodyno.model.gpt import GPT
from nanodyno.model.modern import ModernGPT
from nanodyno.model.optimizer import set_learning_rate

Shapes = Callable[..., ModelShape]
PARTS: dict[str, Any] = {"n_layer": 2, "value_embeddings": 1, "untied_head": True, "norm": "rms"}
MUON: dict[str, Any] = {
    "optimizer": "muon", "learning_rate": 0.01, "muon_lr": 0.05, "embedding_lr": 0.2, "weight_decay": 0.3,
    "untied_head": True,
}  # fmt: skip


def gradient(number: int, like: Tensor) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(number), dtype=like.dtype)


def tensors_of(model: GPT, optimizer: FlatUpdate) -> list[Tensor]:
    """Copies of the weights and of what the optimiser keeps."""
    kept = (tensor for entry in optimizer.state.values() for tensor in entry.values())
    return [tensor.detach().clone() for tensor in (*model.parameters(), *kept)]


def with_muon(shape: Shapes) -> tuple[GPT, FlatUpdate, BatchedOptimizer]:
    model = ModernGPT(shape(**PARTS))
    optimizer = make_flat_optimizer(model, flatten(model, torch.bfloat16), build_config(MUON))
    assert isinstance(optimizer, FlatUpdate)
    assert optimizer.own is not None
    return model, optimizer, optimizer.own


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"embedding_lr": None},
        {"optimizer": "adamw", "muon_lr": None},
        {"weight_decay": 0.0},
        {"untied_head": False},
        {"cautious_decay": True},
        {"cautious_decay": True, "optimizer": "adamw", "muon_lr": None},
    ],
)
def test_three_steps_are_those_of_torchs_optimizers(shape: Shapes, changes: dict[str, Any]) -> None:
    config = build_config(MUON | changes)
    theirs = ModernGPT(shape(**(PARTS | {"untied_head": config.untied_head}))).double()
    ours = copy.deepcopy(theirs)
    flat = flatten(ours, torch.bfloat16)
    update, reference = make_flat_optimizer(ours, flat, config), make_optimizer(theirs, config)
    assert isinstance(update, FlatUpdate)
    clip = torch.tensor(0.5, dtype=torch.float64)
    for count in range(3):
        for number, (mine, other) in enumerate(zip(ours.parameters(), theirs.parameters(), strict=True)):
            drawn = gradient(100 * count + number, other)
            assert mine.grad is not None
            mine.grad += drawn
            other.grad = drawn * clip
        for optimizer in (update, reference):
            set_learning_rate(optimizer, 0.01 * (count + 1))
        update.step(clip=clip)
        reference.step()
        assert not flat.gradients.any()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11, msg=name)
        state, expected = update.state[mine], reference.state[other]
        assert {key: value.shape for key, value in state.items()} == shapes_of_moments(update, mine)
        for key, value in expected.items():
            torch.testing.assert_close(state[key].double(), value.double(), rtol=1e-9, atol=1e-12, msg=name)


def test_a_graph_of_muons_step_has_the_rates_and_the_clipping_of_each_step(shape: Shapes) -> None:
    """A graph is made once and replays the same kernels on the same memory: here, the same calls, which are
    to find all that they are given where it was before."""
    runs = [with_muon(shape) for _ in range(2)]
    replays: list[list[int]] = []
    ours, update, muon = runs[0]
    step_ = muon._step_

    def noted(*given: Any) -> None:
        replays[-1].extend(each.data_ptr() for each in given if isinstance(each, Tensor))
        step_(*given)

    def captured(work: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            replays.append([])
            work()

        return replay

    ours.load_state_dict(runs[1][0].state_dict())
    before = tensors_of(ours, update)[: len(list(ours.parameters()))]
    update.capture(captured)
    muon._step_ = noted
    assert all(map(torch.equal, tensors_of(ours, update), before))
    for count in range(4):
        if count == 3:
            update.let_go()
            muon._step_ = step_
        for model, optimizer, _ in runs:
            for number, parameter in enumerate(model.parameters()):
                assert parameter.grad is not None
                parameter.grad += gradient(100 * count + number, parameter)
            set_learning_rate(optimizer, 0.01 * (count + 1))
            optimizer.step(clip=torch.tensor(1 / (count + 1)))
    assert len(replays) == 3
    assert replays[0] == replays[1] == replays[2] != []
    assert all(map(torch.equal, tensors_of(*runs[0][:2]), tensors_of(*runs[1][:2])))


def test_plain_adamw_needs_no_more_than_one_stretch(shape: Shapes) -> None:
    model = GPT(shape())
    optimizer = make_flat_optimizer(model, flatten(model, torch.bfloat16), build_config({}))
    assert isinstance(optimizer, FlatAdamW)
    assert takes_over_moments(optimizer, model.tokens.weight)


def test_what_an_optimizer_does_is_laid_side_by_side(shape: Shapes) -> None:
    model = ModernGPT(shape(**PARTS))
    flat = flatten(model, torch.bfloat16)
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    order = [names[parameter] for parameter in flat.places]
    assert order[:4] == ["tokens.weight", "values.0.weight", "positions.weight", "head.weight"]
    parts = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
    assert order[4:12] == [f"blocks.{block}.{part}.weight" for part in parts for block in (0, 1)]
    assert all(parameter.ndim < 2 for parameter in list(flat.places)[12:])
    vectors = flat.stretch([parameter for parameter in flat.places if parameter.ndim < 2])
    assert vectors.decayed == 0
    assert flat.stretch([model.tokens.weight]).decayed == model.tokens.weight.numel()


def test_a_stretch_shares_its_memory_and_must_be_of_one_piece(shape: Shapes) -> None:
    model = GPT(shape())
    flat = flatten(model, torch.bfloat16)
    part = flat.stretch([model.positions.weight])
    part.parameters.fill_(7.0)
    assert bool((model.positions.weight == 7.0).all())
    with pytest.raises(AssertionError):
        flat.stretch([model.tokens.weight, model.norm.weight])


def test_momenta_of_muon_are_laid_where_its_kernels_want_them(shape: Shapes) -> None:
    model = ModernGPT(shape(**PARTS))
    optimizer = make_flat_optimizer(model, flatten(model, torch.bfloat16), build_config(MUON))
    assert takes_over_moments(optimizer, model.tokens.weight)
    assert not takes_over_moments(optimizer, model.get_parameter("blocks.0.mlp.up.weight"))
    optimizer.adopt()
    assert set(optimizer.state) == set(model.parameters())


def test_matrices_of_a_shape_are_updated_where_they_lie(
    shape: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer, muon = with_muon(shape)
    shapes, step = [], muon._step_

    def watch(weights: Tensor, *others: Any) -> None:
        shapes.append(tuple(weights.shape))
        assert weights.untyped_storage().data_ptr() == model.tokens.weight.untyped_storage().data_ptr()
        step(weights, *others)

    monkeypatch.setattr(muon, "_step_", watch)
    monkeypatch.setattr(torch, "stack", None)
    optimizer.step()
    assert sorted(shapes) == [(2, 16, 16), (2, 16, 64), (2, 64, 16), (6, 16, 16)]


def test_a_rehearsed_muon_has_changed_nothing_and_compiles_nothing_more(
    shape: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.testing import CompileCounter

    model, optimizer, muon = with_muon(shape)
    counter = CompileCounter()
    compiled = torch.compile(muon._step_, dynamic=False, backend=counter)
    monkeypatch.setattr(muon, "_step_", compiled)
    optimizer.adopt()
    for number in range(2):
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad += gradient(number, parameter)
        before = tensors_of(model, optimizer)
        muon.rehearse()
        assert all(now.equal(was) for now, was in zip(tensors_of(model, optimizer), before, strict=True))
        optimizer.step()
        assert not tensors_of(model, optimizer)[0].equal(before[0])
        assert counter.frame_count == 4  # one for each shape
