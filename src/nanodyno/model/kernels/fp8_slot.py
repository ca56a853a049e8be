"""How a tensor goes into fp8."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fp8Slot:
    """How a tensor goes into fp8: its factor, and where the largest value is noted for the next factor."""

    dtype: torch.dtype
    scale: Tensor
    largest: Tensor

    @property
    def end(self) -> float:
        return torch.finfo(self.dtype).max


def quantise(x: Tensor, slot: Fp8Slot) -> Tensor:
    """x times the slot's scale in fp8, cut off where fp8 ends."""
    slot.largest[0] = torch.maximum(slot.largest[0], x.abs().max().float())
    return (x.float() * slot.scale).clamp(-slot.end, slot.end).to(slot.dtype)
