"""AdamW over one stretch of memory: clipping, decay, moments, update and zeroing in a single pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels import plain

BLOCK = 1024
"""Eight elements for each thread of four warps: two loads of 16 bytes from each stretch are under way."""
ROUNDS: tl.constexpr = tl.constexpr(plain.PHILOX_ROUNDS)


@triton.jit
def _rounded(x, noise):
    """See plain.rounded; `noise` is 16 bits."""
    bits = (x.to(tl.uint32, bitcast=True) + noise) & 0xFFFF0000
    return tl.where(x == x, bits.to(tl.float32, bitcast=True), x)


@triton.jit(do_not_specialize=["step"])  # it would compile anew at step 1 and at every multiple of 16
def _adamw(
    p_ptr, g_ptr, m_ptr, v_ptr, clip_ptr, total, decayed, step,
    gain1, beta2, gain2, step_size, scale, eps, shrink,
    ROUND: tl.constexpr, KEEP: tl.constexpr, CAUTIOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = here < total
    p = tl.load(p_ptr + here, inside, 0.0)
    g = tl.load(g_ptr + here, inside, 0.0) * tl.load(clip_ptr)
    m = tl.load(m_ptr + here, inside, 0.0).to(tl.float32)
    v = tl.load(v_ptr + here, inside, 0.0).to(tl.float32)
    m += (g - m) * gain1
    v = v * beta2 + g * g * gain2
    decays = here < decayed
    if CAUTIOUS:
        decays &= p * m > 0
    p = p * tl.where(decays, shrink, 1.0) - step_size * m / (tl.sqrt(v) * scale + eps)
    if ROUND:
        noise = tl.randint(step, here, ROUNDS)
        m = _rounded(m, noise & 0xFFFF)
        v = _rounded(v, noise >> 16)
    tl.store(p_ptr + here, p, inside)
    tl.store(m_ptr + here, m.to(m_ptr.dtype.element_ty), inside)
    tl.store(v_ptr + here, v.to(v_ptr.dtype.element_ty), inside)
    if not KEEP:
        tl.store(g_ptr + here, tl.zeros([BLOCK], tl.float32), inside)


def adamw_(
    parameters: Tensor,
    gradients: Tensor,
    first: Tensor,
    second: Tensor,
    clip: Tensor,
    decayed: int,
    update: plain.Update,
    keep_gradients: bool,
) -> None:
    """See plain.adamw_; float32 parameters. Moments in pinned host memory are read and written from there."""
    total = parameters.numel()
    _adamw[(triton.cdiv(total, BLOCK),)](
        parameters, gradients, first, second, clip, total, decayed, update.step,
        1 - update.beta1, update.beta2, 1 - update.beta2, update.step_size, update.scale, update.eps,
        update.shrink,
        ROUND=first.dtype == torch.bfloat16, KEEP=keep_gradients, CAUTIOUS=update.cautious, BLOCK=BLOCK,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
