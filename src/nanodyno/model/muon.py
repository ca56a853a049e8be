"""Muon on all matrices of one shape at once, and with AdamW for what is no matrix of a block.

torch.optim.Muon takes one matrix after the other, each in some twenty launches, and q, k and v as one; here
they are apart, and a Newton-Schulz step is three batched products for the whole model's matrices of a shape,
in place where these lie side by side (flat.py).
Its arithmetic is torch's: momentum, Nesterov, Newton-Schulz (in bf16 on a card), and the scale 0.2
sqrt(longer side), which gives a step the root mean square that AdamW's has (Liu and others 2025).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
SMALLEST_NORM = 1e-7
RMS_OF_ADAMW = 0.2
CLIP = 3
"""Place of the clipping among a step's rates."""
STILL = (1.0, 0.0, 0.0, 1.0)
"""Rates by which a step changes nothing, to the bit."""


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


def cautiously_decayed(weights: Tensor, update: Tensor, share: Tensor | float) -> Tensor:
    """Less a share of itself where the update, which is subtracted, shrinks it too (Chen and others 2025)."""
    return weights - share * weights * (weights * update > 0)


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


def _rates(group: Mapping[str, Any], rows: int, columns: int) -> tuple[float, float, float, float]:
    """As `_step_` wants them; nothing is clipped."""
    rate = group["lr"]
    return group["momentum"], rate * scale_of(rows, columns), rate * group["weight_decay"], 1.0


@cache
def _compiled() -> Callable[..., None]:
    return torch.compile(_step_, dynamic=False)


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
    sizes = (len(pieces), *first.shape)
    return torch.as_strided(first.detach(), sizes, (first.numel(), first.shape[1], 1), first.storage_offset())


class Stack:
    """Matrices of one shape as one tensor: they themselves where they lie side by side, else a copy."""

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
    """All matrices of a shape in a group, which one step is made for."""

    group: dict[str, Any]
    shape: tuple[int, int]
    weights: Stack
    gradients: Stack
    momenta: Stack


def _cut(matrix: Tensor, parts: Sequence[int]) -> tuple[Tensor, ...]:
    return matrix.split(list(parts)) if parts else (matrix,)


class Muon(torch.optim.Muon):
    """Torch's, but for how a step is made. `parts` of a group cut a matrix into several by its rows."""

    def __init__(
        self, groups: Sequence[dict[str, Any]], momentum: float, cautious: bool, compiles: bool
    ) -> None:
        super().__init__(list(groups), momentum=momentum, adjust_lr_fn="match_rms_adamw")
        self._cautious = cautious
        self._step_ = _compiled() if compiles else _step_

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
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

    def adopt(self, places: Mapping[Tensor, Tensor] | None = None) -> None:
        """Momenta for those that have none; with `places`, all of them are moved there."""
        for group in self.param_groups:
            for parameter in group["params"]:
                own = self.state[parameter].get("momentum_buffer")
                wanted = None if places is None else places[parameter]
                if own is None:
                    own = torch.zeros_like(parameter) if wanted is None else wanted.zero_()
                elif wanted is not None and own is not wanted:
                    own = wanted.copy_(own)
                self.state[parameter]["momentum_buffer"] = own

    @torch.no_grad()
    def warm_up(self) -> None:
        """Compiles for every shape, on zeros, where there are no gradients yet to rehearse with."""
        for group in self.param_groups:
            pieces = [
                piece.shape for parameter in group["params"] for piece in _cut(parameter, group["parts"])
            ]
            for shape in sorted(set(pieces)):
                zeros = group["params"][0].new_zeros((pieces.count(shape), *shape))
                self._step_(zeros, zeros.clone(), zeros.clone(), zeros.new_zeros(len(STILL)), self._cautious)

    def takes(self, parameter: Tensor) -> bool:
        return any(parameter is each for group in self.param_groups for each in group["params"])

    def do_not_compile(self) -> None:
        self._step_ = _step_

    def _pieces(self, parameter: Tensor, parts: Sequence[int]) -> list[tuple[Tensor, Tensor, Tensor]]:
        gradient, momentum = parameter.grad, self.state[parameter]["momentum_buffer"]
        assert gradient is not None
        return list(zip(*(_cut(each, parts) for each in (parameter, gradient, momentum)), strict=True))

    def alike(self) -> list[Alike]:
        """What a step is made of; it lasts as long as gradients and momenta stay where they are."""
        found: list[Alike] = []
        for group in self.param_groups:
            there = [parameter for parameter in group["params"] if parameter.grad is not None]
            pieces = [piece for parameter in there for piece in self._pieces(parameter, group["parts"])]
            for rows, columns in sorted({tuple(weights.shape) for weights, _, _ in pieces}):
                own = [each for each in pieces if each[0].shape == (rows, columns)]
                found.append(Alike(group, (rows, columns), *map(Stack, zip(*own, strict=True))))
        return found

    def rates(self, alike: Sequence[Alike], still: bool = False) -> Tensor:
        """Those of each, on the device: one copy, out of memory that lets it go on meanwhile."""
        like = self.param_groups[0]["params"][0]
        rows = [STILL if still else _rates(each.group, *each.shape) for each in alike]
        own = torch.tensor(rows, dtype=like.dtype, pin_memory=like.is_cuda)
        return own.to(like.device, non_blocking=True)

    def take(self, alike: Sequence[Alike], rates: Tensor) -> None:
        """The step, with a row of rates for each."""
        for each, own in zip(alike, rates.unbind(), strict=True):
            weights, gradients, momenta = (
                stack.taken() for stack in (each.weights, each.gradients, each.momenta)
            )
            self._step_(weights, gradients, momenta, own, self._cautious)
            each.weights.put(weights)
            each.momenta.put(momenta)


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


class MuonAndAdamW(torch.optim.Optimizer):
    """Both as one, with one state: what saves, clips and scales them needs not know that they are two."""

    def __init__(self, muon: Muon, adamw: torch.optim.AdamW) -> None:
        super().__init__([{"params": group["params"]} for group in adamw.param_groups], {})
        self.param_groups = [*adamw.param_groups, *muon.param_groups]
        adamw.state = muon.state = self.state
        self.muon, self.adamw = muon, adamw

    def step(self, closure: Any = None) -> Any:
        assert closure is None
        self.adamw.step()
        self.muon.step()
