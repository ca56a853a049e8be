"""AdamW as GPT-2 recipes use it: weight decay on matrices and embeddings, none on norms and biases."""

import torch
from torch import nn

from nanodyno.config import RunConfig


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.AdamW:
    """One fused kernel per parameter group; MPS runs it too, so no device needs the slower loop."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=1e-8, fused=True
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
