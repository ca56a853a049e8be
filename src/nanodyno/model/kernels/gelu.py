# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""GELU and its gradient: one pass over memory each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.plain import Fp8Slot
from nanodyno.model.kernels.quantise import slot_constants, slot_pointers, store, store_beside

BLOCK = 2048
WARPS = 4


@triton.jit
def _tail(u):
    """The normal distribution's integral from |u| on, and its density at u but for a constant.

    erfc by Abramowitz and Stegun 7.1.26, off by at most 1.5e-7: bf16 keeps 4e-3. Its exponential is the
    density's own, and it needs no branch, so that the pass is bound by memory and not by arithmetic. Their
    constants are halved, as the integral is half of erfc, and take the root of 1/2 that goes with u.
    """
    t = 1.0 / (1.0 + 0.23164189 * tl.abs(u))
    e = tl.exp2(u * u * -0.7213475204444817)
    series = 0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)))
    return t * series * e, e


@triton.jit
def _exact(u):
    """The normal distribution's integral up to u, and its density there."""
    tail, e = _tail(u)
    return tl.where(u >= 0, 1.0 - tail, tail), e * 0.3989422804014327


@triton.jit
def _tanh(u):
    """tanh's approximation of the same integral, and its derivative."""
    inner = 0.7978845608028654 * (u + 0.044715 * u * u * u)
    share = 1.0 / (1.0 + tl.exp(-2.0 * inner))
    slope = 2.0 * share * (1.0 - share) * 0.7978845608028654 * (1.0 + 0.134145 * u * u)
    return share, slope


@triton.jit
def _gelu(
    u_ptr, g_ptr, scale_ptr, largest_ptr, total,
    TANH: tl.constexpr, LARGEST: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = here < total
    u = tl.load(u_ptr + here, inside, 0.0).to(tl.float32)
    if TANH:
        share, _ = _tanh(u)
        g = u * share
    else:
        tail, _ = _tail(u)
        g = tl.maximum(u, 0.0) - tl.abs(u) * tail
    store(g, g_ptr, here, inside, scale_ptr, largest_ptr, LARGEST, SLOTS)


@triton.jit
def _gelu_backward(
    u_ptr, dg_ptr, fp8_ptr, scale_ptr, largest_ptr, total,
    TANH: tl.constexpr, AGAIN: tl.constexpr, LARGEST: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = here < total
    u = tl.load(u_ptr + here, inside, 0.0).to(tl.float32)
    dg = tl.load(dg_ptr + here, inside, 0.0).to(tl.float32)
    if TANH:
        share, slope = _tanh(u)
    else:
        share, slope = _exact(u)
    du = dg * (share + u * slope)
    tl.store(dg_ptr + here, du.to(dg_ptr.dtype.element_ty), inside)
    if AGAIN:
        tl.store(u_ptr + here, (u * share).to(u_ptr.dtype.element_ty), inside)
    store_beside(du, fp8_ptr, here, inside, scale_ptr, largest_ptr, LARGEST, SLOTS)


def gelu(u: Tensor, approximate: str, slot: Fp8Slot | None = None) -> Tensor:
    """See plain.gelu."""
    g = torch.empty_like(u, dtype=u.dtype if slot is None else slot.dtype)
    _gelu[(triton.cdiv(u.numel(), BLOCK),)](
        u, g, *slot_pointers(slot, u), u.numel(),
        TANH=approximate == "tanh", **slot_constants(slot), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return g


def gelu_backward_(
    u: Tensor, dg: Tensor, approximate: str, again: bool, slot: Fp8Slot | None = None
) -> Tensor | None:
    """See plain.gelu_backward_."""
    fp8 = None if slot is None else torch.empty_like(dg, dtype=slot.dtype)
    _gelu_backward[(triton.cdiv(u.numel(), BLOCK),)](
        u, dg, dg if fp8 is None else fp8, *slot_pointers(slot, u), u.numel(),
        TANH=approximate == "tanh", AGAIN=again, **slot_constants(slot), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return fp8
