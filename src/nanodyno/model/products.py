"""The matrix products of a micro-step that read weights: a layer's output and the gradient of its input."""

from collections.abc import Mapping
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanodyno.model.flat import Flat
from nanodyno.model.kernels.plain import Slot


class Products:
    """In bf16, from copies that are made once an iteration."""

    def __init__(self, flat: Flat, head: nn.Embedding) -> None:
        self.flat = flat
        self.head = head

    def use(self, kernels: ModuleType) -> None:
        """From now on; plain products need none."""

    def factors(self) -> dict[str, float | int]:
        """Of fp8, for a checkpoint; others have none."""
        return {}

    def take_factors(self, saved: Mapping[str, float | int]) -> bool:
        """Whether there were any for this model."""
        del saved
        return False

    def begin(self) -> None:
        """Of an iteration: the weights have changed."""
        self.flat.refresh()

    def forward(self, linear: nn.Linear, x: Tensor) -> Tensor:
        bias = None if linear.bias is None else self.flat.half(linear.bias)
        return F.linear(x, self.flat.half(linear.weight), bias)

    def input_gradient(self, linear: nn.Linear, dy: Tensor, fp8: Tensor | None = None) -> Tensor:
        """`fp8` is dy again, where it was made in fp8 already."""
        del fp8
        return dy @ self.flat.half(linear.weight)

    def input_slot(self, linear: nn.Linear) -> Slot | None:
        """How this layer's input goes into fp8; None stays as it is."""
        del linear
        return None

    def gradient_slot(self, linear: nn.Linear) -> Slot | None:
        del linear
        return None

    def logits(self, hidden: Tensor, out: Tensor) -> Tensor:
        return torch.mm(hidden, self.flat.half(self.head.weight).t(), out=out)

    def logits_fp8(self, logits: Tensor) -> Tensor | None:
        """Where the logits' gradient is to be put in fp8 besides."""
        del logits
        return None

    def hidden_gradient(self, dlogits: Tensor, fp8: Tensor | None, scale: Tensor, out: Tensor) -> None:
        del fp8, scale
        torch.mm(dlogits, self.flat.half(self.head.weight), out=out)
