"""A model's parameters as one stretch of memory, and what goes along with each: gradient and bf16 copy.

One stretch makes one kernel of what would be one for each tensor: zeroing, the norm, the update, the casts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor, nn

from nanodyno.model.optimizer import is_block_matrix, is_embedding

PARTS = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
ALIGNED = 128
"""Elements; 256 bytes in bf16, the most that a matrix product asks of an address."""


@dataclass(frozen=True)
class Flat:
    """`decayed` is where the matrices end: weight decay is for what lies before it."""

    parameters: Tensor
    gradients: Tensor
    halves: Tensor
    decayed: int
    places: dict[Tensor, int]

    def half(self, parameter: Tensor) -> Tensor:
        """The copy that matrix products read; `refresh` makes it current."""
        return self.view(self.halves, parameter)

    def refresh(self) -> None:
        self.halves.copy_(self.parameters)

    def stretch(self, parameters: Sequence[Tensor]) -> "Flat":
        """Those alone, which must lie one after the other; views of the same memory."""
        first = self.places[parameters[0]]
        sizes = [_padded(each) for each in parameters]
        places = dict(zip(parameters, accumulate(sizes, initial=0), strict=False))
        assert all(self.places[each] == first + place for each, place in places.items())
        here = slice(first, first + sum(sizes))
        decayed = min(max(self.decayed - first, 0), sum(sizes))
        return Flat(self.parameters[here], self.gradients[here], self.halves[here], decayed, places)

    def view(self, flat: Tensor, parameter: Tensor) -> Tensor:
        """This parameter's part of a stretch laid out like ours."""
        first = self.places[parameter]
        return flat[first : first + parameter.numel()].view(parameter.shape)


def flatten(model: nn.Module, half: torch.dtype) -> Flat:
    """Moves the parameters together and gives each a gradient of zeros: matrices first, and among them
    embeddings, then the rest outside of the blocks, so that each kind of update has a stretch."""
    parameters = [parameter for _, parameter in sorted(model.named_parameters(), key=_kind)]
    places: dict[Tensor, int] = {}
    end = decayed = 0
    for parameter in parameters:
        places[parameter] = end
        end += _padded(parameter)
        decayed = end if parameter.ndim >= 2 else decayed
    like = parameters[0]
    together = torch.zeros(end, dtype=like.dtype, device=like.device)
    flat = Flat(together, torch.zeros_like(together), torch.zeros_like(together, dtype=half), decayed, places)
    for parameter in parameters:
        place = flat.view(flat.parameters, parameter)
        place.copy_(parameter.detach())
        parameter.data = place
        parameter.grad = flat.view(flat.gradients, parameter)
    flat.refresh()
    return flat


def _kind(named: tuple[str, Tensor]) -> tuple[int, int]:
    """What is updated together lies together, and of the blocks' matrices those of one shape. Where q, k and
    v are updated apart, each is as large as what comes after attention."""
    name, parameter = named
    if parameter.ndim < 2:
        return 3, 0
    if is_block_matrix(name, parameter):
        return 2, next((place for place, part in enumerate(PARTS) if part in name), len(PARTS))
    return (0 if is_embedding(name) else 1), 0


def _padded(parameter: Tensor) -> int:
    return -(-parameter.numel() // ALIGNED) * ALIGNED
