# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""ReLU squared and its gradient: one pass over memory each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.fp8_slot import Fp8Slot
from nanodyno.model.kernels.quantise import slot_constants, slot_pointers, store, store_beside

BLOCK = 2048
WARPS = 4


@triton.jit
def _relu(u):
    """What is no number stays none."""
    return tl.maximum(u, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _relu2(
    u_ptr, g_ptr, scale_ptr, largest_ptr, total,
    LARGEST: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = here < total
    r = _relu(tl.load(u_ptr + here, inside, 0.0).to(tl.float32))
    g = r * r
    store(g, g_ptr, here, inside, scale_ptr, largest_ptr, LARGEST, SLOTS)


@triton.jit
def _relu2_backward(
    u_ptr, dg_ptr, fp8_ptr, scale_ptr, largest_ptr, total,
    AGAIN: tl.constexpr, LARGEST: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = here < total
    r = _relu(tl.load(u_ptr + here, inside, 0.0).to(tl.float32))
    du = tl.load(dg_ptr + here, inside, 0.0).to(tl.float32) * (2.0 * r)
    tl.store(dg_ptr + here, du.to(dg_ptr.dtype.element_ty), inside)
    if AGAIN:
        tl.store(u_ptr + here, (r * r).to(u_ptr.dtype.element_ty), inside)
    store_beside(du, fp8_ptr, here, inside, scale_ptr, largest_ptr, LARGEST, SLOTS)


def relu2(u: Tensor, slot: Fp8Slot | None = None) -> Tensor:
    """See plain_modern.relu2."""
    g = torch.empty_like(u, dtype=u.dtype if slot is None else slot.dtype)
    _relu2[(triton.cdiv(u.numel(), BLOCK),)](
        u, g, *slot_pointers(slot, u), u.numel(), **slot_constants(slot), BLOCK=BLOCK, num_warps=WARPS
    )
    return g


def relu2_backward_(u: Tensor, dg: Tensor, again: bool, slot: Fp8Slot | None = None) -> Tensor | None:
    """See plain_modern.relu2_backward_."""
    fp8 = None if slot is None else torch.empty_like(dg, dtype=slot.dtype)
    _relu2_backward[(triton.cdiv(u.numel(), BLOCK),)](
        u, dg, dg if fp8 is None else fp8, *slot_pointers(slot, u), u.numel(),
        AGAIN=again, **slot_constants(slot), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return fp8
