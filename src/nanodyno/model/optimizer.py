"""AdamW as GPT-2 recipes use it: weight decay on matrices and embeddings, none on norms and biases."""

from collections.abc import Iterable, MutableMapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nanodyno.config import RunConfig

EPS = 1e-8


class Optimizer(Protocol):
    """What is asked of torch's optimisers and of our own."""

    @property
    def state(self) -> MutableMapping[Tensor, Any]: ...

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def step(self) -> Any: ...


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.AdamW:
    """One fused kernel per parameter group; MPS runs it too, so no device needs the slower loop."""
    return torch.optim.AdamW(
        groups(model.parameters(), config),
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=EPS,
        fused=True,
    )


def groups(parameters: Iterable[Tensor], config: RunConfig) -> list[dict[str, Any]]:
    every = list(parameters)
    return [
        {"params": [p for p in every if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in every if p.ndim < 2], "weight_decay": 0.0},
    ]


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
