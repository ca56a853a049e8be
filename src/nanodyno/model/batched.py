"""The base of optimizers that are registered beside AdamW: a step on all tensors of one shape at once.

In place where these lie side by side (flat.py), else on a copy. `config/optimizers.py` registers them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nanodyno.config import RunConfig
from nanodyno.config.optimizers import OPTIMIZERS
from nanodyno.model.optimizer import Optimizer, by_rate, is_block_matrix, make_adamw, rate_of


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """One fused kernel per parameter group of AdamW; MPS runs it too, so no device needs the slower loop."""
    own = taken(model, config)
    rest = [(name, each) for name, each in model.named_parameters() if name not in own]
    adamw = make_adamw(by_rate(rest, config), config)
    return WithAdamW(make_own(model, config), adamw) if own else adamw


def taken(model: nn.Module, config: RunConfig) -> dict[str, Tensor]:
    """The parameters that the optimizer of this config takes from AdamW."""
    takes = OPTIMIZERS[config.optimizer].takes
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if takes == "total" or (takes == "block_matrices" and is_block_matrix(name, parameter))
    }


def make_own(model: nn.Module, config: RunConfig) -> "BatchedOptimizer":
    """The optimizer of this config for what it takes."""
    entry = OPTIMIZERS[config.optimizer]
    module, _, name = entry.implementation.partition(":")
    compiles = config.compile and entry.compiles and next(model.parameters()).device.type == "cuda"
    return getattr(import_module(module), name)(taken(model, config), config, compiles)


def shapes_of_moments(optimizer: Optimizer, parameter: Tensor) -> dict[str, torch.Size]:
    """What an optimizer keeps of a parameter: AdamW two tensors and a count."""
    own = getattr(optimizer, "own", None)
    if isinstance(own, BatchedOptimizer) and own.takes(parameter):
        return dict.fromkeys(own.states, parameter.shape)
    return {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}


@cache
def _compiled(update_: Callable[..., None]) -> Callable[..., None]:
    return torch.compile(update_, dynamic=False)


def _side_by_side(pieces: Sequence[Tensor]) -> Tensor | None:
    """All of a shape as one tensor, where they lie one after the other in one stretch of memory."""
    first = pieces[0]
    places = range(
        first.storage_offset(), first.storage_offset() + len(pieces) * first.numel(), first.numel()
    )
    storage = first.untyped_storage().data_ptr()
    for piece, place in zip(pieces, places, strict=True):
        here = piece.untyped_storage().data_ptr() == storage and piece.storage_offset() == place
        if not here or not piece.is_contiguous():
            return None
    sizes, strides = (len(pieces), *first.shape), (first.numel(), *first.stride())
    return torch.as_strided(first.detach(), sizes, strides, first.storage_offset())


class ShapeBatch:
    """Tensors of one shape as one tensor: they themselves where they lie side by side, else a copy."""

    def __init__(self, pieces: Sequence[Tensor]) -> None:
        self._pieces = list(pieces)
        self._whole = _side_by_side(pieces)

    def taken(self) -> Tensor:
        return torch.stack(self._pieces) if self._whole is None else self._whole

    def put(self, whole: Tensor) -> None:
        if self._whole is None:
            torch._foreach_copy_(self._pieces, list(whole.unbind()))  # pyright: ignore[reportPrivateImportUsage]


@dataclass(frozen=True)
class Alike:
    """All tensors of a shape in a group, which one step is made for."""

    group: dict[str, Any]
    shape: tuple[int, ...]
    weights: ShapeBatch
    gradients: ShapeBatch
    states: tuple[ShapeBatch, ...]


def _cut(tensor: Tensor, parts: Sequence[int]) -> tuple[Tensor, ...]:
    return tensor.split(list(parts)) if parts else (tensor,)


class BatchedOptimizer(torch.optim.Optimizer):
    """`named` are the parameters that it takes. `parts` of a group cut a tensor into several by its rows."""

    states: ClassVar[tuple[str, ...]]
    """Names of what it keeps of a parameter, each a tensor of the parameter's shape."""
    still: ClassVar[tuple[float, ...]]
    """Rates by which a step changes nothing, to the bit."""
    update_: ClassVar[Callable[..., None]]
    """A static function of weights, gradients, each of `states`, rates, and whether decay is cautious. It
    changes weights and states in place; each tensor has those of one shape along its first dimension. Rates
    are a tensor, so that a compiled step and a CUDA graph outlive their values."""

    def __init__(self, named: Mapping[str, Tensor], config: RunConfig, compiles: bool) -> None:
        groups = [group for group in self.groups(named, config) if group["params"]]
        super().__init__(groups, {"parts": ()})
        self._cautious = config.cautious_decay
        self._step_ = _compiled(self.update_) if compiles else self.update_

    def rates_of(self, group: Mapping[str, Any], shape: tuple[int, ...], /) -> tuple[float, ...]:
        """Return what `update_` reads for tensors of this shape. The last is what it multiplies gradients
        with: 1.0, where the fused engine puts its clipping."""
        raise NotImplementedError

    def groups(self, named: Mapping[str, Tensor], config: RunConfig) -> list[dict[str, Any]]:
        """AdamW's, with a peak of its own where it has that setting."""
        own = rate_of(OPTIMIZERS[config.optimizer].peak_of(config), config)
        return [own | group for group in by_rate(named.items(), config)]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        assert closure is None
        self.adopt()
        alike = self.alike()
        self.take(alike, self.rates(alike))

    @torch.no_grad()
    def rehearse(self) -> None:
        """A step that changes nothing: compiles for the tensors there are, and takes a step's memory."""
        self.adopt()
        alike = self.alike()
        self.take(alike, self.rates(alike, still=True))

    def adopt(self, places: Mapping[Tensor, Mapping[str, Tensor]] | None = None) -> None:
        """States for those that have none; with `places`, all of them are moved there."""
        for parameter in (each for group in self.param_groups for each in group["params"]):
            kept = self.state[parameter]
            for name in self.states:
                own = kept.get(name)
                wanted = None if places is None else places[parameter][name]
                if own is None:
                    own = torch.zeros_like(parameter) if wanted is None else wanted.zero_()
                elif wanted is not None and own is not wanted:
                    own = wanted.copy_(own)
                kept[name] = own

    @torch.no_grad()
    def warm_up(self) -> None:
        """Compiles for every shape, on zeros, where there are no gradients yet to rehearse with."""
        for group in self.param_groups:
            pieces = [
                piece.shape for parameter in group["params"] for piece in _cut(parameter, group["parts"])
            ]
            for shape in sorted(set(pieces)):
                zeros = group["params"][0].new_zeros((pieces.count(shape), *shape))
                others = [zeros.clone() for _ in ("gradients", *self.states)]
                self._step_(zeros, *others, zeros.new_zeros(len(self.still)), self._cautious)

    def takes(self, parameter: Tensor) -> bool:
        return any(parameter is each for group in self.param_groups for each in group["params"])

    def do_not_compile(self) -> None:
        self._step_ = self.update_

    def _pieces(self, parameter: Tensor, parts: Sequence[int]) -> list[tuple[Tensor, ...]]:
        gradient, kept = parameter.grad, self.state[parameter]
        assert gradient is not None
        tensors = (parameter, gradient, *(kept[name] for name in self.states))
        return list(zip(*(_cut(each, parts) for each in tensors), strict=True))

    def alike(self) -> list[Alike]:
        """What a step is made of; it lasts as long as gradients and states stay where they are."""
        found: list[Alike] = []
        for group in self.param_groups:
            there = [parameter for parameter in group["params"] if parameter.grad is not None]
            pieces = [piece for parameter in there for piece in self._pieces(parameter, group["parts"])]
            for shape in sorted({tuple(weights.shape) for weights, *_ in pieces}):
                own = [each for each in pieces if each[0].shape == shape]
                weights, gradients, *states = map(ShapeBatch, zip(*own, strict=True))
                found.append(Alike(group, shape, weights, gradients, tuple(states)))
        return found

    def rates(self, alike: Sequence[Alike], still: bool = False) -> Tensor:
        """Those of each, on the device: one copy, out of memory that lets it go on meanwhile."""
        like = self.param_groups[0]["params"][0]
        rows = [self.still if still else self.rates_of(each.group, each.shape) for each in alike]
        own = torch.tensor(rows, dtype=like.dtype, pin_memory=like.is_cuda)
        return own.to(like.device, non_blocking=True)

    def take(self, alike: Sequence[Alike], rates: Tensor) -> None:
        """The step, with a row of rates for each."""
        for each, own in zip(alike, rates.unbind(), strict=True):
            weights, gradients = each.weights.taken(), each.gradients.taken()
            states = [stack.taken() for stack in each.states]
            self._step_(weights, gradients, *states, own, self._cautious)
            each.weights.put(weights)
            for stack, whole in zip(each.states, states, strict=True):
                stack.put(whole)


class WithAdamW(torch.optim.Optimizer):
    """Both as one, with one state: what saves, clips and scales them needs not know that they are two."""

    def __init__(self, own: BatchedOptimizer, adamw: torch.optim.AdamW) -> None:
        super().__init__([{"params": group["params"]} for group in adamw.param_groups], {})
        self.param_groups = [*adamw.param_groups, *own.param_groups]
        adamw.state = own.state = self.state
        self.own, self.adamw = own, adamw

    def step(self, closure: Any = None) -> Any:
        assert closure is None
        self.adamw.step()
        self.own.step()
