"""The matrix products of a micro-step: a layer's output and the gradients of its input and its weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanodyno.model.flat import Flat
from nanodyno.model.kernels.fp8_slot import Fp8Slot


@dataclass(frozen=True)
class Units:
    """What the entries of factors in fp8 are to be multiplied with."""

    a: Tensor
    b: Tensor
    fast: bool
    """Summed in the tensor cores' own precision, as is usual for values but not for gradients."""


class Multiply(Protocol):
    def __call__(self, a: Tensor, b: Tensor, out: Tensor, add: bool, units: Units | None = None) -> None:
        """out = a @ b, or += it, summed in fp32 at least but for fp8; `out` may be wider than a and b."""


def by_torch(a: Tensor, b: Tensor, out: Tensor, add: bool, units: Units | None = None) -> None:
    on_cuda = a.device.type == "cuda"
    if units is not None and on_cuda:
        product = torch._scaled_mm  # pyright: ignore[reportPrivateImportUsage] - public only from 2.13 on
        product(a, b, units.a, units.b, out_dtype=out.dtype, use_fast_accum=units.fast, out=out)
    elif units is not None:  # torch's own ends the process where the processor lacks an instruction
        out.copy_((a.float() @ b.float()) * (units.a * units.b))
    elif not add:
        torch.mm(a, b, out=out)
    elif a.dtype == out.dtype:
        out.addmm_(a, b)
    elif on_cuda:
        torch.addmm(out, a, b, out_dtype=out.dtype, out=out)
    else:
        out.addmm_(a.to(out.dtype), b.to(out.dtype))


class Matmuls:
    """In bf16, from copies of the weights that are made once an iteration."""

    def __init__(self, flat: Flat, head: nn.Embedding | nn.Linear, multiply: Multiply = by_torch) -> None:
        self.flat = flat
        self.head = head
        self._multiply = multiply

    def use(self, kernels: ModuleType, multiply: Multiply) -> None:
        """From now on; plain products need no kernels."""
        del kernels
        self._multiply = multiply

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
        weight = self.flat.half(linear.weight)
        if linear.bias is not None:
            return F.linear(x, weight, self.flat.half(linear.bias))
        return self._product(x, weight.t())

    def input_gradient(self, linear: nn.Linear, dy: Tensor, fp8: Tensor | None = None) -> Tensor:
        """`fp8` is dy again, where it was made in fp8 already."""
        del fp8
        return self._product(dy, self.flat.half(linear.weight))

    def add_weight_gradient(self, layer: nn.Linear | nn.Embedding, dy: Tensor, x: Tensor) -> None:
        """Summed and kept in the gradient's precision."""
        assert layer.weight.grad is not None
        self._multiply(dy.t(), x, layer.weight.grad, True)

    def input_slot(self, linear: nn.Linear) -> Fp8Slot | None:
        """How this layer's input goes into fp8; None stays as it is."""
        del linear
        return None

    def gradient_slot(self, linear: nn.Linear) -> Fp8Slot | None:
        del linear
        return None

    def logits(self, hidden: Tensor, out: Tensor) -> Tensor:
        self._multiply(hidden, self.flat.half(self.head.weight).t(), out, False)
        return out

    def logits_fp8(self, logits: Tensor) -> Tensor | None:
        """Where the logits' gradient is to be put in fp8 besides."""
        del logits
        return None

    def hidden_gradient(self, dlogits: Tensor, fp8: Tensor | None, scale: Tensor, out: Tensor) -> None:
        del fp8, scale
        self._multiply(dlogits, self.flat.half(self.head.weight), out, False)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        self._multiply(a, b, out, False)
        return out
