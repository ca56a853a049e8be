"""AdamW as GPT-2 recipes use it: weight decay on matrices and embeddings, none on norms and biases.

Where a run asks for it, Muon for the matrices of the blocks.
"""

from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nanodyno.config import RunConfig
from nanodyno.model.muon import CautiousAdamW, Muon, MuonAndAdamW

EPS = 1e-8
EMBEDDINGS = ("tokens.", "values.")


class Optimizer(Protocol):
    """What is asked of torch's optimisers and of our own."""

    @property
    def state(self) -> MutableMapping[Tensor, Any]: ...

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def step(self) -> Any: ...


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """One fused kernel per parameter group; MPS runs it too, so no device needs the slower loop."""
    if config.optimizer == "adamw":
        return _adamw(_by_rate(model.named_parameters(), config), config)
    rest = [(name, each) for name, each in model.named_parameters() if not is_for_muon(name, each)]
    return MuonAndAdamW(make_muon(model, config), _adamw(_by_rate(rest, config), config))


def is_for_muon(name: str, parameter: Tensor) -> bool:
    """The matrices that turn a stream of activations; not embeddings, the head, norms, biases or shares."""
    return name.startswith("blocks.") and parameter.ndim == 2


def is_embedding(name: str) -> bool:
    return name.startswith(EMBEDDINGS)


def only_looked_up(names: Collection[str]) -> set[str]:
    """Of all parameters, those that `embedding_lr` is for: a tied table is the head too, and has its rate."""
    tied = "head.weight" not in names
    return {name for name in names if is_embedding(name) and not (tied and name.startswith("tokens."))}


def make_muon(model: nn.Module, config: RunConfig) -> Muon:
    matrices = {
        name: parameter for name, parameter in model.named_parameters() if is_for_muon(name, parameter)
    }
    compiles = config.compile and next(model.parameters()).device.type == "cuda"
    return Muon(_muon_groups(matrices, config), config.muon_momentum, config.cautious_decay, compiles)


def _muon_groups(matrices: Mapping[str, Tensor], config: RunConfig) -> list[dict[str, Any]]:
    """q, k and v are three matrices that lie together."""
    of_qkv = [parameter for name, parameter in matrices.items() if name.endswith("qkv.weight")]
    others = [parameter for name, parameter in matrices.items() if not name.endswith("qkv.weight")]
    width = of_qkv[0].shape[1]
    shared = (of_qkv[0].shape[0] - width) // 2
    common = {"weight_decay": config.weight_decay, **rate_of(config.muon_lr, config)}
    return [
        {"params": of_qkv, "parts": (width, shared, shared), **common},
        {"params": others, "parts": (), **common},
    ]


def _adamw(parameter_groups: list[dict[str, Any]], config: RunConfig) -> torch.optim.AdamW:
    common: dict[str, Any] = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "eps": EPS}
    if not config.cautious_decay:
        return torch.optim.AdamW(parameter_groups, fused=True, **common)
    for group in parameter_groups:
        group["cautious_decay"], group["weight_decay"] = group["weight_decay"], 0.0
    return CautiousAdamW(parameter_groups, fused=True, **common)


def _by_rate(named: Iterable[tuple[str, Tensor]], config: RunConfig) -> list[dict[str, Any]]:
    """Groups by weight decay; embeddings apart where they have a learning rate of their own."""
    every = dict(named)
    apart = only_looked_up(every)
    if config.embedding_lr is None or not apart:
        return groups(every.values(), config)
    embeddings = [parameter for name, parameter in every.items() if name in apart]
    others = [parameter for name, parameter in every.items() if name not in apart]
    return [{"params": embeddings, **of_embeddings(config)}, *groups(others, config)]


def of_embeddings(config: RunConfig) -> dict[str, float]:
    """A rate that makes larger steps and not more decay, which is as much as with `learning_rate`: a hundred
    times that suits them, and would have them decay before they learn."""
    rate = rate_of(config.embedding_lr, config)
    return {**rate, "weight_decay": config.weight_decay / rate["rate_share"]}


def rate_of(peak: float | None, config: RunConfig) -> dict[str, float]:
    """A group's own peak follows the schedule of learning_rate, as a share of it."""
    own = config.learning_rate if peak is None else peak
    return {"lr": own, "rate_share": own / config.learning_rate}


def groups(parameters: Iterable[Tensor], config: RunConfig) -> list[dict[str, Any]]:
    every = list(parameters)
    return [
        {"params": [p for p in every if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in every if p.ndim < 2], "weight_decay": 0.0},
    ]


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get("rate_share", 1.0)


def shapes_of_moments(optimizer: Optimizer, parameter: Tensor) -> dict[str, torch.Size]:
    """What an optimiser keeps of a parameter: Muon one matrix, AdamW two and a count."""
    muon = getattr(optimizer, "muon", None)
    if isinstance(muon, Muon) and muon.takes(parameter):
        return {"momentum_buffer": parameter.shape}
    return {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
