"""The large matrix products in fp8: class *different*, off unless asked for.

In fp8: the outputs of the attention's first and the MLP's projections, the gradients of the MLP's inputs, and
both for the head. In bf16 as before: gradients of weights, and products whose cast would cost what fp8 saves.
A tensor's factor follows from the largest value that it had in the iteration before; weights have theirs of
the moment. Values are e4m3, gradients e5m2 (fewer digits, more range).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor, nn

from nanodyno.model.flat import Flat
from nanodyno.model.gpt import Block
from nanodyno.model.kernels.fp8_slot import Fp8Slot
from nanodyno.model.kernels.plain import LOGIT_UNITS
from nanodyno.model.matmul import Matmuls, Multiply, Units

VALUES, GRADIENTS = torch.float8_e4m3fn, torch.float8_e5m2
FIRST_SCALE = {VALUES: 1.0, GRADIENTS: 2.0**16}
"""Before anything was seen: a gradient is divided by the number of positions, and is not to vanish."""
ROOM = 2.0
"""For values larger than the largest of the iteration before; beyond it they are cut off."""
ALIGNED = 4
"""Numbers: torch's product wants each factor at an address that 16 divides."""
PLACES = 4096
"""Where programs note their largest values, so that they do not queue up for one, nor for its neighbours."""
CAST_AT_ONCE = 2**25
"""Weights, at most, as casting takes a copy of them; larger ones one by one."""


@dataclass
class _Weight:
    """Both layouts that the products want, and what their entries are to be multiplied with."""

    rows: Tensor
    columns: Tensor
    unit: Tensor


class _Alike:
    """Weights of one shape, which lie one after the other: cast together, in a dozen launches for all."""

    def __init__(self, flat: Flat, layers: Sequence[nn.Linear | nn.Embedding]) -> None:
        first, count, (out, into) = layers[0].weight, len(layers), layers[0].weight.shape
        begin = flat.places[first]
        self._halves = flat.halves[begin : begin + count * first.numel()].view(count, out, into)
        self._rows = torch.empty_like(self._halves, dtype=VALUES)
        self._columns = torch.empty(count, into, out, dtype=VALUES, device=first.device)
        self._units = torch.ones(count, ALIGNED, device=first.device)
        parts = zip(self._rows, self._columns, self._units[:, 0], strict=True)
        self.weights = dict(zip(layers, (_Weight(*each) for each in parts), strict=True))

    def cast(self) -> None:
        largest = torch.linalg.vector_norm(self._halves.flatten(1), torch.inf, dim=1)
        scales = torch.finfo(VALUES).max / largest.float().clamp(min=1e-12)
        scaled = torch.empty_like(self._halves)
        self._rows.copy_(torch.mul(self._halves, scales[:, None, None], out=scaled))
        self._columns.view(torch.uint8).copy_(self._rows.view(torch.uint8).mT)
        self._units.copy_((1 / scales)[:, None])


class Fp8Matmuls(Matmuls):
    def __init__(
        self, flat: Flat, blocks: Sequence[Block], head: nn.Embedding | nn.Linear, kernels: ModuleType
    ) -> None:
        super().__init__(flat, head)
        self._kernels = kernels
        kinds = [[b.attention.qkv for b in blocks], [b.mlp.up for b in blocks], [b.mlp.down for b in blocks]]
        with_inputs = [layer for of_a_block in zip(*kinds, strict=True) for layer in of_a_block]
        with_gradients = [layer for b in blocks for layer in (b.mlp.up, b.mlp.down)]
        device = flat.parameters.device
        count = len(with_inputs) + len(with_gradients) + 1
        self._scales = torch.ones(count, device=device)
        self._units = torch.ones(count, ALIGNED, device=device)
        self._largest = torch.zeros(count, PLACES, device=device)
        self._ends = torch.ones(count, device=device)
        self._used = 0
        self._inputs = {layer: self._slot(VALUES) for layer in with_inputs}
        self._gradients = {layer: self._slot(GRADIENTS) for layer in with_gradients}
        self._hidden = self._slot(VALUES)
        self._alike = [_Alike(flat, some) for kind in (*kinds, [head]) for some in _together(flat, kind)]
        self._weights = {layer: weight for some in self._alike for layer, weight in some.weights.items()}

    def use(self, kernels: ModuleType, multiply: Multiply) -> None:
        super().use(kernels, multiply)
        self._kernels = kernels

    def factors(self) -> dict[str, float | int]:
        """The factors and, as the next ones follow from them, the largest values of the iteration before."""
        largest = self._largest.amax(1)
        return {
            f"{kind}-{place}": value
            for kind, values in (("scale", self._scales), ("largest", largest))
            for place, value in enumerate(values.tolist())
        }

    def take_factors(self, saved: Mapping[str, float | int]) -> bool:
        if saved.keys() != self.factors().keys():
            return False
        self._largest.zero_()
        for place in range(self._used):
            self._scales[place] = saved[f"scale-{place}"]
            self._largest[place, 0] = saved[f"largest-{place}"]
        return True

    def begin(self) -> None:
        super().begin()
        largest = self._largest.amax(1)
        known = (largest > 0) & largest.isfinite()
        self._scales.copy_(torch.where(known, self._ends / (ROOM * largest), self._scales))
        self._units.copy_((1 / self._scales)[:, None])
        self._largest.zero_()
        for some in self._alike:
            some.cast()

    def forward(self, linear: nn.Linear, x: Tensor) -> Tensor:
        slot = self._inputs.get(linear)
        if slot is None:
            return super().forward(linear, x)
        if x.dtype != slot.dtype:
            x = self._kernels.quantise(x, slot)
        weight = self._weights[linear]
        y = self._fp8_product(x, weight.rows.t(), Units(self._unit(slot), weight.unit, fast=True))
        return y if linear.bias is None else y.add_(self.flat.half(linear.bias))

    def input_gradient(self, linear: nn.Linear, dy: Tensor, fp8: Tensor | None = None) -> Tensor:
        slot = self._gradients.get(linear)
        if slot is None:
            return super().input_gradient(linear, dy)
        dy8 = self._kernels.quantise(dy, slot) if fp8 is None else fp8
        weight = self._weights[linear]
        units = Units(self._unit(slot), weight.unit, fast=False)
        return self._fp8_product(dy8, weight.columns.t(), units)

    def input_slot(self, linear: nn.Linear) -> Fp8Slot | None:
        return self._inputs.get(linear)

    def gradient_slot(self, linear: nn.Linear) -> Fp8Slot | None:
        return self._gradients.get(linear)

    def logits(self, hidden: Tensor, out: Tensor) -> Tensor:
        weight = self._weights[self.head]
        hidden8 = self._kernels.quantise(hidden, self._hidden)
        units = Units(self._unit(self._hidden), weight.unit, fast=True)
        return self._fp8_product(hidden8, weight.rows.t(), units, out)

    def logits_fp8(self, logits: Tensor) -> Tensor | None:
        return torch.empty_like(logits, dtype=GRADIENTS)

    def hidden_gradient(self, dlogits: Tensor, fp8: Tensor | None, scale: Tensor, out: Tensor) -> None:
        del dlogits
        assert fp8 is not None
        weight = self._weights[self.head]
        units = Units(scale / LOGIT_UNITS, weight.unit, fast=False)
        self._fp8_product(fp8, weight.columns.t(), units, out)

    def _slot(self, dtype: torch.dtype) -> Fp8Slot:
        at = self._used
        self._used += 1
        self._ends[at] = torch.finfo(dtype).max
        self._scales[at] = FIRST_SCALE[dtype]
        return Fp8Slot(dtype, self._scales[at], self._largest[at])

    def _unit(self, slot: Fp8Slot) -> Tensor:
        return self._units[slot.scale.storage_offset(), 0]

    def _fp8_product(self, a: Tensor, b: Tensor, units: Units, out: Tensor | None = None) -> Tensor:
        if out is None:
            out = torch.empty(a.shape[0], b.shape[1], dtype=self.flat.halves.dtype, device=a.device)
        self._multiply(a, b, out, False, units)
        return out


def _together(flat: Flat, layers: Sequence[nn.Linear | nn.Embedding]) -> list[list[nn.Linear | nn.Embedding]]:
    """Those side by side, as many as are cast at once."""
    found: list[list[nn.Linear | nn.Embedding]] = []
    for layer in layers:
        size = layer.weight.numel()
        last = found[-1] if found else []
        follows = last and flat.places[layer.weight] == flat.places[last[-1].weight] + size
        if follows and (len(last) + 1) * size <= CAST_AT_ONCE:
            last.append(layer)
        else:
            found.append([layer])
    return found
