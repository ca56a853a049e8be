# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""Cross-entropy over one row of logits a program; the logits are replaced by their gradient."""

import math

import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels import plain

BLOCK = 8192
WARPS = 8
LOG2_E = tl.constexpr(math.log2(math.e))


@triton.jit
def _cross_entropy(
    logits_ptr, targets_ptr, scale_ptr, losses_ptr, fp8_ptr, V,
    IGNORED: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Two passes: the second finds most of the row still in the cache.

    Written for few instructions per logit, as two exponentials of each are near what memory allows: powers
    of two, the scale inside the exponent, and the target's own -1 put in afterwards.
    """
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * V
    target = tl.load(targets_ptr + row)
    counts = target != IGNORED
    goal_ptr = logits_ptr + tl.where(counts, target, 0)
    goal = tl.load(goal_ptr).to(tl.float32)  # before any warp overwrites it
    columns = tl.arange(0, BLOCK)
    highest = float("-inf")
    sums = tl.zeros([BLOCK], tl.float32)
    for first in range(0, V, BLOCK):
        z = tl.load(logits_ptr + first + columns, first + columns < V, float("-inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(z, 0))
        reference = tl.where(higher == float("-inf"), 0.0, higher)  # of logits that are all impossible so far
        sums = sums * tl.exp2((highest - reference) * LOG2_E) + tl.exp2(z * LOG2_E - reference * LOG2_E)
        highest = higher
    log_sum = highest + tl.log(tl.sum(sums, 0))
    scale = tl.where(counts, tl.load(scale_ptr), 0.0)
    tl.store(losses_ptr + row, tl.where(counts, log_sum - goal, 0.0))
    units = UNITS / tl.load(scale_ptr)
    fp8_ptr += row * V
    shift = tl.log2(scale) - log_sum * LOG2_E
    for i in range(tl.cdiv(V, BLOCK)):
        here = (tl.cdiv(V, BLOCK) - 1 - i) * BLOCK + columns  # backwards: what was read last is nearest
        z = tl.load(logits_ptr + here, here < V, float("-inf")).to(tl.float32)
        gradient = tl.exp2(z * LOG2_E + shift)
        tl.store(logits_ptr + here, gradient.to(logits_ptr.dtype.element_ty), here < V)
        if UNITS > 0:
            tl.store(fp8_ptr + here, (gradient * units).to(fp8_ptr.dtype.element_ty), here < V)
    tl.debug_barrier()
    at_target = (tl.exp2((goal - log_sum) * LOG2_E) - 1.0) * scale
    tl.store(goal_ptr, at_target.to(logits_ptr.dtype.element_ty), counts)
    if UNITS > 0:
        tl.store(fp8_ptr + target, (at_target * units).to(fp8_ptr.dtype.element_ty), counts)


def cross_entropy_(
    logits_NV: Tensor, targets_N: Tensor, scale: Tensor, losses_N: Tensor, fp8_NV: Tensor | None = None
) -> None:
    """See plain.cross_entropy_."""
    N, V = logits_NV.shape
    block = min(BLOCK, triton.next_power_of_2(V))
    _cross_entropy[(N,)](
        logits_NV, targets_N, scale, losses_N, logits_NV if fp8_NV is None else fp8_NV, V,
        IGNORED=plain.IGNORED, UNITS=0.0 if fp8_NV is None else plain.LOGIT_UNITS, BLOCK=block,
        num_warps=WARPS,
    )  # fmt: skip
