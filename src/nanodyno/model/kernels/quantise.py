# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""A tensor in fp8, and the largest value that it had."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.plain import Fp8Slot

BLOCK = 2048
WARPS = 4
BESIDE_BF16 = tl.constexpr(8)
"""How many in a row fp8 is said to have where a kernel stores it beside bf16: as many as a thread takes of
that. It would take 16, and the bf16 would change threads on its way to memory, at five times the time."""


@triton.jit
def to_fp8(x, scale, LARGEST: tl.constexpr):
    """Scaled, and cut off where fp8 ends: a value beyond it would become no number."""
    low = tl.maximum(x * scale, -LARGEST, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(low, LARGEST, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def note_largest(x, places, SLOTS: tl.constexpr):
    """Programs are spread over many places, as they would queue up for one.

    As whole numbers, which have the same order where nothing is negative: of floats there is no such
    instruction, and two take its place.
    """
    place = (places + tl.program_id(0) % SLOTS).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.atomic_max(place, tl.max(tl.abs(x), 0).to(tl.int32, bitcast=True), sem="relaxed")


@triton.jit
def store(x, out, here, inside, scale, places, LARGEST: tl.constexpr, SLOTS: tl.constexpr):
    """In fp8 where there are slots, else as it is."""
    if SLOTS > 0:
        tl.store(out + here, to_fp8(x, tl.load(scale), LARGEST).to(out.dtype.element_ty), inside)
        note_largest(x, places, SLOTS)
    else:
        tl.store(out + here, x.to(out.dtype.element_ty), inside)


@triton.jit
def store_beside(x, fp8, here, inside, scale, places, LARGEST: tl.constexpr, SLOTS: tl.constexpr):
    """In fp8 besides, where there are slots, by a kernel that stored it in bf16."""
    if SLOTS > 0:
        in_fp8 = to_fp8(x, tl.load(scale), LARGEST).to(fp8.dtype.element_ty)
        tl.store(tl.max_contiguous(fp8 + here, [BESIDE_BF16]), in_fp8, inside)
        note_largest(x, places, SLOTS)


@triton.jit
def _quantise(
    x_ptr, out_ptr, scale_ptr, largest_ptr, total,
    LARGEST: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = here < total
    x = tl.load(x_ptr + here, inside, 0.0).to(tl.float32)
    tl.store(out_ptr + here, to_fp8(x, tl.load(scale_ptr), LARGEST).to(out_ptr.dtype.element_ty), inside)
    note_largest(x, largest_ptr, SLOTS)


def slot_pointers(slot: Fp8Slot | None, unused: Tensor) -> tuple[Tensor, Tensor]:
    """The scale's and the largest values', for a kernel that can do without fp8."""
    return (unused, unused) if slot is None else (slot.scale, slot.largest)


def slot_constants(slot: Fp8Slot | None) -> dict[str, float]:
    """No slots: no fp8."""
    return {
        "LARGEST": 0.0 if slot is None else slot.end,
        "SLOTS": 0 if slot is None else slot.largest.numel(),
    }


def quantise(x: Tensor, slot: Fp8Slot) -> Tensor:
    """See plain.quantise."""
    out = torch.empty_like(x, dtype=slot.dtype)
    _quantise[(triton.cdiv(x.numel(), BLOCK),)](
        x, out, slot.scale, slot.largest, x.numel(),
        LARGEST=slot.end, SLOTS=slot.largest.numel(), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return out
