"""AdamW with decay on matrices only, against the paper's formula in float64."""

import math
from collections.abc import Callable

import torch

from nanodyno.config import ModelShape, build_config
from nanodyno.model.batched import make_optimizer
from nanodyno.model.gpt import GPT
from nanodyno.model.optimizer import set_learning_rate

CONFIG = build_config({"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.3})


def test_matrices_and_embeddings_decay_and_vectors_do_not(
    shape: Callable[..., ModelShape], drawn_model: Callable[..., GPT]
) -> None:
    model = drawn_model(shape())
    optimizer = make_optimizer(model, CONFIG)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, kept = ({names[id(p)] for p in group["params"]} for group in optimizer.param_groups)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    assert {"tokens.weight", "positions.weight", "blocks.1.mlp.down.weight"} <= decayed
    assert all("norm" in name or name.endswith("bias") for name in kept)
    assert len(decayed) + len(kept) == len(names)
    assert len(decayed) == 2 + 2 * 4  # two embeddings; four matrices in each of two layers


def test_two_steps_are_those_of_the_formula(
    shape: Callable[..., ModelShape], drawn_model: Callable[..., GPT]
) -> None:
    model = drawn_model(shape(n_layer=1))
    optimizer = make_optimizer(model, CONFIG)
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    first = {name: torch.zeros_like(p) for name, p in expected.items()}
    second = {name: torch.zeros_like(p) for name, p in expected.items()}
    generator = torch.Generator().manual_seed(3)
    for count, learning_rate in ((1, 0.01), (2, 0.004)):
        set_learning_rate(optimizer, learning_rate)
        for name, parameter in model.named_parameters():
            g = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.grad = g.clone()
            decay = 0.3 if parameter.ndim >= 2 else 0.0
            first[name] = 0.8 * first[name] + 0.2 * g
            second[name] = 0.9 * second[name] + 0.1 * g * g
            corrected = (second[name] / (1 - 0.9**count)).sqrt() + 1e-8
            step = first[name] / (1 - 0.8**count) / corrected
            expected[name] = expected[name] * (1 - learning_rate * decay) - learning_rate * step
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-12, atol=1e-14)


def test_the_first_step_moves_a_lone_bias_by_the_learning_rate() -> None:
    layer = torch.nn.Linear(1, 1).double()
    with torch.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    layer.weight.grad, layer.bias.grad = torch.full_like(layer.weight, -5.0), torch.full_like(layer.bias, 7.0)
    make_optimizer(layer, CONFIG).step()
    # Adam's first step is the sign of the gradient; the matrix decays by 0.01 * 0.3 of itself first.
    assert math.isclose(layer.bias.item(), 1.0 - 0.01, rel_tol=1e-8)
    assert math.isclose(layer.weight.item(), 2.0 * (1 - 0.003) + 0.01, rel_tol=1e-8)
