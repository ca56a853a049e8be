"""AdamW as GPT-2 recipes use it: weight decay on matrices and embeddings, none on norms and biases."""

from collections.abc import Collection, Iterable, MutableMapping
from typing import Any, Protocol

import torch
from torch import Tensor

from nanodyno.config import RunConfig

EPS = 1e-8
EMBEDDINGS = ("tokens.", "values.")


class Optimizer(Protocol):
    """What is asked of torch's optimisers and of our own."""

    @property
    def state(self) -> MutableMapping[Tensor, Any]: ...

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def step(self) -> Any: ...


def is_block_matrix(name: str, parameter: Tensor) -> bool:
    """The matrices that turn a stream of activations; not embeddings, the head, norms, biases or shares."""
    return name.startswith("blocks.") and parameter.ndim == 2


def is_embedding(name: str) -> bool:
    return name.startswith(EMBEDDINGS)


def only_looked_up(names: Collection[str]) -> set[str]:
    """Of all parameters, those that `embedding_lr` is for: a tied table is the head too, and has its rate."""
    tied = "head.weight" not in names
    return {name for name in names if is_embedding(name) and not (tied and name.startswith("tokens."))}


def cautiously_decayed(weights: Tensor, update: Tensor, share: Tensor | float) -> Tensor:
    """Less a share of itself where the update, which is subtracted, shrinks it too (Chen and others 2025)."""
    return weights - share * weights * (weights * update > 0)


class CautiousAdamW(torch.optim.AdamW):
    """Decays only where the coming update goes the same way; `cautious_decay` of a group is how much."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._step_supports_amp_scaling = False  # fp16's overflows are to be seen before anything decays

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"] if group["cautious_decay"] else ():
                if parameter.grad is not None:
                    self._decay(parameter, parameter.grad, group)
        super().step()

    def _decay(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        before = self.state.get(parameter, {}).get("exp_avg")
        update = gradient if before is None else before.lerp(gradient, 1 - group["betas"][0])
        parameter.copy_(cautiously_decayed(parameter, update, group["lr"] * group["cautious_decay"]))


def make_adamw(parameter_groups: list[dict[str, Any]], config: RunConfig) -> torch.optim.AdamW:
    common: dict[str, Any] = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "eps": EPS}
    if not config.cautious_decay:
        return torch.optim.AdamW(parameter_groups, fused=True, **common)
    for group in parameter_groups:
        group["cautious_decay"], group["weight_decay"] = group["weight_decay"], 0.0
    return CautiousAdamW(parameter_groups, fused=True, **common)


def by_rate(named: Iterable[tuple[str, Tensor]], config: RunConfig) -> list[dict[str, Any]]:
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
