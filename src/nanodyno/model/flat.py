"""A model's parameters as one stretch of memory, and what goes along with each: gradient and bf16 copy.

One stretch makes one kernel of what would be one for each tensor: zeroing, the norm, the update, the casts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

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

    def view(self, flat: Tensor, parameter: Tensor) -> Tensor:
        """This parameter's part of a stretch laid out like ours."""
        first = self.places[parameter]
        return flat[first : first + parameter.numel()].view(parameter.shape)


def flatten(model: nn.Module, half: torch.dtype) -> Flat:
    """Moves the parameters together, matrices first, and gives each a gradient of zeros."""
    parameters = sorted(model.parameters(), key=lambda each: each.ndim < 2)
    places: dict[Tensor, int] = {}
    end = decayed = 0
    for parameter in parameters:
        places[parameter] = end
        end += -(-parameter.numel() // ALIGNED) * ALIGNED
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
