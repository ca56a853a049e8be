"""AdamW over one stretch of memory, against torch's own in float64 and steps worked out by hand."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nanodyno.config import ModelShape, build_config
from nanodyno.errors import NanodynoError
from nanodyno.model.batched import make_optimizer
from nanodyno.model.flat import Flat, flatten
from nanodyno.model.flat_adamw import FlatAdamW, clip_coefficient, gradient_norm
from nanodyno.model.gpt import GPT
from nanodyno.model.optimizer import Optimizer, set_learning_rate
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint, TrainingProgress

CONFIG = build_config({"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.3})
Models = Callable[..., GPT]
Shapes = Callable[..., ModelShape]


def linear(weight_gradient: float, bias_gradient: float) -> tuple[nn.Linear, Flat]:
    """Weight 2 and bias 1, with these gradients."""
    layer = nn.Linear(1, 1).double()
    with torch.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    flat = flatten(layer, torch.bfloat16)
    for parameter, gradient in zip(flat.places, (weight_gradient, bias_gradient), strict=True):
        flat.view(flat.gradients, parameter).fill_(gradient)
    return layer, flat


def give_gradients(model: nn.Module, seed: int) -> None:
    """Drawn, the same for every model of a shape; into the stretch where there is one."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.grad is None:
            parameter.grad = torch.empty_like(parameter)
        parameter.grad.copy_(drawn)


def train(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        set_learning_rate(optimizer, 0.01 / (1 + step))
        give_gradients(model, step)
        optimizer.step()


def assert_same_parameters(one: nn.Module, other: nn.Module) -> None:
    for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("grad_clip", [0.0, 1.0, 1e6])
def test_five_steps_are_those_of_torch(grad_clip: float, shape: Shapes, drawn_model: Models) -> None:
    theirs, ours = drawn_model(shape()), drawn_model(shape())
    their_optimizer = make_optimizer(theirs, CONFIG)
    flat = flatten(ours, torch.bfloat16)
    our_optimizer = FlatAdamW(flat, CONFIG)
    for step in range(5):
        for model, optimizer in ((theirs, their_optimizer), (ours, our_optimizer)):
            set_learning_rate(optimizer, 0.01 / (1 + step))
            give_gradients(model, step)
        if grad_clip:
            nn.utils.clip_grad_norm_(theirs.parameters(), grad_clip)
        their_optimizer.step()
        our_optimizer.step(clip=clip_coefficient(gradient_norm(flat), grad_clip))
    assert_same_parameters(ours, theirs)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        state, expected = our_optimizer.state[one], their_optimizer.state[other]
        assert state.keys() == expected.keys()
        for key in state:
            torch.testing.assert_close(state[key], expected[key], rtol=1e-12, atol=1e-14)


def test_a_first_step_with_half_the_gradient_is_the_one_worked_out_by_hand() -> None:
    layer, flat = linear(-5.0, 7.0)
    optimizer = FlatAdamW(flat, CONFIG)
    optimizer.step(clip=torch.tensor(0.5))
    weight, bias = optimizer.state[layer.weight], optimizer.state[layer.bias]
    assert math.isclose(weight["exp_avg"].item(), 0.2 * -2.5)
    assert math.isclose(weight["exp_avg_sq"].item(), 0.1 * 6.25)
    assert math.isclose(bias["exp_avg"].item(), 0.2 * 3.5)
    assert math.isclose(bias["exp_avg_sq"].item(), 0.1 * 12.25)
    # Adam's first step is the sign of the gradient; the matrix decays by 0.01 * 0.3 of itself first.
    assert math.isclose(layer.bias.item(), 1.0 - 0.01, rel_tol=1e-8)
    assert math.isclose(layer.weight.item(), 2.0 * (1 - 0.003) + 0.01, rel_tol=1e-8)
    assert flat.parameters.count_nonzero() == 2  # nothing moved in what fills up a stretch


def test_a_step_leaves_zeros_as_gradients_unless_they_are_kept() -> None:
    _, flat = linear(-5.0, 7.0)
    optimizer = FlatAdamW(flat, CONFIG)
    optimizer.step(keep_gradients=True)
    assert flat.gradients.count_nonzero() == 2
    optimizer.step()
    assert flat.gradients.count_nonzero() == 0


def test_groups_are_those_of_torch(shape: Shapes, drawn_model: Models) -> None:
    model = drawn_model(shape())
    theirs = make_optimizer(model, CONFIG).param_groups
    ours = FlatAdamW(flatten(model, torch.bfloat16), CONFIG).param_groups
    for one, other in zip(ours, theirs, strict=True):
        assert {id(p) for p in one["params"]} == {id(p) for p in other["params"]}
        assert all(one[key] == other[key] for key in ("lr", "betas", "eps", "weight_decay"))


def test_there_is_no_state_before_the_first_step() -> None:
    layer, flat = linear(-5.0, 7.0)
    optimizer = FlatAdamW(flat, CONFIG)
    assert not optimizer.state
    optimizer.step()
    assert optimizer.state.keys() == {layer.weight, layer.bias}
    step = optimizer.state[layer.bias]["step"]
    assert (step.shape, step.dtype, step.item()) == ((), torch.float32, 1.0)


def test_looking_at_a_state_that_is_not_there_yet_changes_nothing() -> None:
    layer, flat = linear(-5.0, 7.0)
    optimizer = FlatAdamW(flat, CONFIG)
    assert optimizer.state[layer.bias] == {}  # as saving before the first step does
    optimizer.step()
    assert math.isclose(layer.bias.item(), 1.0 - 0.01, rel_tol=1e-8)


@pytest.mark.parametrize(("saved_by", "loaded_by"), [("flat", "torch"), ("torch", "flat"), ("flat", "flat")])
def test_a_checkpoint_of_either_optimizer_goes_on_in_the_other(
    saved_by: str, loaded_by: str, shape: Shapes, drawn_model: Models, tmp_path: Path
) -> None:
    def make(kind: str) -> tuple[GPT, Optimizer]:
        model = drawn_model(shape())
        if kind == "torch":
            return model, make_optimizer(model, CONFIG)
        return model, FlatAdamW(flatten(model, torch.bfloat16), CONFIG)

    folder = checkpoint.folder_for(tmp_path, 2)
    about = Checkpoint(
        folder, shape(), TrainingProgress(iteration=2, sequences=0), vocab_size=24, tokenizer=None
    )
    model, optimizer = make(saved_by)
    train(model, optimizer, range(2))
    checkpoint.save(about, model, optimizer, first=True)
    train(model, optimizer, range(2, 4))

    other, its_optimizer = make(loaded_by)
    train(other, its_optimizer, range(7, 8))  # what it had is replaced
    checkpoint.load_model(about, other)
    checkpoint.load_optimizer(about, other, its_optimizer)
    train(other, its_optimizer, range(2, 4))
    assert_same_parameters(other, model)
    assert {float(state["step"]) for state in its_optimizer.state.values()} == {4.0}


def test_adopting_shows_what_was_put_in_as_views_of_the_stretches() -> None:
    layer, flat = linear(0.0, 0.0)
    optimizer = FlatAdamW(flat, CONFIG)
    for parameter in (layer.weight, layer.bias):
        moments = {key: torch.full_like(parameter, 0.5) for key in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.tensor(3.0)} | moments
    first, second = optimizer.adopt()
    assert first.sum() == second.sum() == 1.0
    optimizer.step()
    assert {float(state["step"]) for state in optimizer.state.values()} == {4.0}
    assert math.isclose(optimizer.state[layer.bias]["exp_avg"].item(), 0.8 * 0.5)
    assert math.isclose(first.sum().item(), 2 * 0.8 * 0.5)
    assert math.isclose(second.sum().item(), 2 * 0.9 * 0.5)


def test_parameters_of_different_age_are_refused() -> None:
    layer, flat = linear(0.0, 0.0)
    optimizer = FlatAdamW(flat, CONFIG)
    zeros = {key: torch.zeros_like(layer.bias) for key in ("exp_avg", "exp_avg_sq")}
    optimizer.state[layer.bias] = {"step": torch.tensor(3.0)} | zeros
    with pytest.raises(NanodynoError, match="of 0 and of 3 updates"):
        optimizer.step()


def test_moments_kept_on_the_host_change_nothing(shape: Shapes, drawn_model: Models) -> None:
    one, other = drawn_model(shape()), drawn_model(shape())
    train(one, FlatAdamW(flatten(one, torch.bfloat16), CONFIG), range(3))
    train(other, FlatAdamW(flatten(other, torch.bfloat16), CONFIG, offload=True), range(3))
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_run_with_bf16_moments_goes_on_to_the_bit_after_a_checkpoint(
    shape: Shapes, drawn_model: Models, tmp_path: Path
) -> None:
    folder = checkpoint.folder_for(tmp_path, 2)
    about = Checkpoint(
        folder, shape(), TrainingProgress(iteration=2, sequences=0), vocab_size=24, tokenizer=None
    )
    whole, resumed = (drawn_model(shape(), torch.float32) for _ in range(2))
    optimizer = FlatAdamW(flatten(whole, torch.bfloat16), CONFIG, bf16_moments=True)
    train(whole, optimizer, range(2))
    checkpoint.save(about, whole, optimizer, first=True)
    train(whole, optimizer, range(2, 4))

    optimizer = FlatAdamW(flatten(resumed, torch.bfloat16), CONFIG, bf16_moments=True)
    checkpoint.load_model(about, resumed)
    checkpoint.load_optimizer(about, resumed, optimizer)
    train(resumed, optimizer, range(2, 4))
    assert all(a.equal(b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert {state["exp_avg"].dtype for state in optimizer.state.values()} == {torch.bfloat16}


def test_a_run_with_bf16_moments_stays_near_the_exact_one(shape: Shapes, drawn_model: Models) -> None:
    theirs, ours = drawn_model(shape()), drawn_model(shape())
    train(theirs, make_optimizer(theirs, CONFIG), range(5))
    train(ours, FlatAdamW(flatten(ours, torch.bfloat16), CONFIG, bf16_moments=True), range(5))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        # Five steps of about 0.01 or less, from two moments that are off by at most 1/128 each.
        torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=5 * 0.01 * 2 / 128)
        assert not one.equal(other)


def test_a_norm_is_over_all_gradients() -> None:
    _, flat = linear(-3.0, 4.0)
    assert gradient_norm(flat).item() == 5.0


def test_a_norm_of_many_millions_is_right() -> None:
    tenths = torch.full([2**24], 0.1)
    norm = gradient_norm(Flat(tenths, tenths, tenths, decayed=0, places={}))
    assert norm.item() == pytest.approx(0.1 * 2**12, rel=1e-6)


@pytest.mark.parametrize(
    ("norm", "grad_clip", "expected"), [(5.0, 2.5, 2.5 / 5.000001), (1.0, 2.5, 1.0), (5.0, 0.0, 1.0)]
)
def test_the_coefficient_brings_a_norm_down_to_the_limit(
    norm: float, grad_clip: float, expected: float
) -> None:
    coefficient = clip_coefficient(torch.tensor(norm, dtype=torch.float64), grad_clip)
    assert math.isclose(coefficient.item(), expected, rel_tol=1e-12)


def test_a_norm_that_is_no_number_shows_in_the_coefficient() -> None:
    def coefficient(norm: float) -> Tensor:
        return clip_coefficient(torch.tensor(norm), 1.0)

    assert coefficient(math.nan).isnan()
    assert coefficient(math.inf).item() == 0.0
