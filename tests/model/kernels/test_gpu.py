"""A whole micro-step with Triton's kernels in the interpreter, against autograd in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nanodyno.config import ModelShape
from nanodyno.costs.setup import Recompute
from nanodyno.model.gpt import GPT

Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]
Shapes = Callable[..., ModelShape]
Models = Callable[..., GPT]
Tokens = Callable[..., torch.Tensor]


MODERN: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "value_embeddings": 1,
    "untied_head": True, "bias": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("recompute", "parts"),
    [
        ("none", {"bias": True, "gelu": "exact"}),
        ("light", {"bias": False, "gelu": "tanh"}),
        ("full", {"bias": True, "gelu": "tanh"}),
        ("none", MODERN),
        ("full", MODERN),
    ],
    ids=str,
)
def test_a_micro_step_on_triton_kernels_has_autograds_loss_and_gradients(
    interpreted: Interpreted,
    shape: Shapes,
    drawn_model: Models,
    tokens: Tokens,
    recompute: Recompute,
    parts: dict[str, Any],
) -> None:
    """The capped loss, whose tanh is the card's own, has tests of its own."""
    chosen = shape(n_embd=24, vocab_size=37, **parts)
    model = drawn_model(chosen)
    inputs, targets = tokens(2, 5, 37, seed=1), tokens(2, 5, 37, seed=2)
    targets[0, 3] = -100
    weights = {name: weight.float() for name, weight in model.state_dict().items()}
    (total, gradients), _ = interpreted("micro_step", chosen, weights, recompute, inputs, targets)
    model.load_state_dict(weights)
    loss = model(inputs, targets)
    loss.backward()
    assert total.item() == pytest.approx(loss.item(), rel=1e-5)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        off = (gradients[name] - parameter.grad).norm() / parameter.grad.norm()
        assert off < 1e-5, name
