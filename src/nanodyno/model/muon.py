"""Muon on all matrices of one shape at once.

torch.optim.Muon takes one matrix after the other, each in some twenty launches, and q, k and v as one; here
they are apart, and a Newton-Schulz step is three batched matmuls for the whole model's matrices of a shape.
Its arithmetic is torch's: momentum, Nesterov, Newton-Schulz (in bf16 on a GPU), and the scale 0.2
sqrt(longer side), which gives a step the root mean square that AdamW's has (Liu and others 2025).
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nanodyno.config import RunConfig
from nanodyno.model.batched import BatchedOptimizer
from nanodyno.model.optimizer import cautiously_decayed, rate_of

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
SMALLEST_NORM = 1e-7
RMS_OF_ADAMW = 0.2


def orthogonalised(x_NRC: Tensor) -> Tensor:
    """Each matrix with its singular values brought near 1 (0.7 to 1.2), in the precision it came in."""
    a, b, c = COEFFICIENTS
    tall = x_NRC.shape[-2] > x_NRC.shape[-1]
    x = x_NRC.mT if tall else x_NRC
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST_NORM)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def scale_of(rows: int, columns: int) -> float:
    """Of a learning rate, for a matrix of this shape."""
    return RMS_OF_ADAMW * math.sqrt(max(rows, columns))


def _step_(
    weights_NRC: Tensor, gradients_NRC: Tensor, momentum_NRC: Tensor, rates: Tensor, cautious: bool
) -> None:
    """Weights and momentum in place. `rates` are the momentum, the step's learning rate, the share that
    decays and what gradients are clipped by: a tensor, so that a compiled step and a graph outlive them."""
    beta, learning_rate, decay, clip = rates.unbind()
    clipped = gradients_NRC * clip
    momentum_NRC.lerp_(clipped, 1 - beta)
    update = clipped.lerp(momentum_NRC, beta)
    if update.device.type == "cuda":  # elsewhere bf16 is no faster, and some CPUs have it in name only
        update = update.bfloat16()
    update = orthogonalised(update).to(weights_NRC.dtype)
    weights = cautiously_decayed(weights_NRC, update, decay) if cautious else weights_NRC * (1 - decay)
    weights_NRC.copy_(weights - learning_rate * update)


class Muon(BatchedOptimizer):
    """For matrices; its state has the name that torch.optim.Muon gives it."""

    states = ("momentum_buffer",)
    still = (1.0, 0.0, 0.0, 1.0)
    update_ = staticmethod(_step_)

    def groups(self, named: Mapping[str, Tensor], config: RunConfig) -> list[dict[str, Any]]:
        """q, k and v are three matrices that lie together."""
        if any(parameter.ndim != 2 for parameter in named.values()):
            raise ValueError("Muon updates 2D parameters only")
        of_qkv = [parameter for name, parameter in named.items() if name.endswith("qkv.weight")]
        others = [parameter for name, parameter in named.items() if not name.endswith("qkv.weight")]
        rows, width = of_qkv[0].shape if of_qkv else (0, 0)
        shared = (rows - width) // 2
        common = {
            "weight_decay": config.weight_decay,
            "momentum": config.muon_momentum,
            **rate_of(config.muon_lr, config),
        }
        return [{"params": of_qkv, "parts": (width, shared, shared), **common}, {"params": others, **common}]

    def rates_of(self, group: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[float, ...]:
        rate = group["lr"]
        return group["momentum"], rate * scale_of(*shape), rate * group["weight_decay"], 1.0
