# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportOperatorIssue=false
"""Cross-entropy over one row of logits a program; the logits are replaced by their gradient."""

import math

import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels import plain
from nanodyno.model.kernels.quantise import BESIDE_BF16

ROWS, COLUMNS = 8, 2048
"""A block of a row of logits as a thread sees it: its own logits in each of ROWS need no other thread's."""
WARPS = 8
BOUNDED_CAP = 35.0
"""Up to it, exponentials of differences of capped logits and their sums are float32's, so that the target's
logit serves for the largest, which no pass need look for. It took 128 registers of a thread; with at most 80
three programs run on a multiprocessor at once."""
LOG2_E = tl.constexpr(math.log2(math.e))


@triton.jit
def _capped(z, CAPPED: tl.constexpr, CAP: tl.constexpr):
    """A logit in caps: the loss is of CAP times this. Without a cap, which then is 1, it is the logit.

    Off by at most 2^-11 of the value, a quarter of what rounding a logit to bf16 may do, for one operation of
    the unit that exponentials also need and that bounds the capped loss. An exponential and a reciprocal
    would be two, and a polynomial as near a dozen others.
    """
    z = z.to(tl.float32)
    if CAPPED:
        z = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [z * (1.0 / CAP)], dtype=tl.float32, is_pure=True, pack=1
        )
    return z


@triton.jit
def _slope(z, CAPPED: tl.constexpr):
    return 1.0 - z * z if CAPPED else 1.0


@triton.jit
def _summed(z, highest, sums, LOG2: tl.constexpr, BOUNDED: tl.constexpr):
    """Each thread's sum of exponentials relative to its largest logit so far; bounded, to a fixed one."""
    if BOUNDED:
        sums += tl.sum(tl.exp2(z * LOG2 - highest[None, :] * LOG2), 0)
    else:
        higher = tl.maximum(highest, tl.max(z, 0))
        reference = tl.where(higher == float("-inf"), 0.0, higher) * LOG2  # of logits all impossible so far
        sums *= tl.exp2(highest * LOG2 - reference)
        sums += tl.sum(tl.exp2(z * LOG2 - reference[None, :]), 0)
        highest = higher
    return highest, sums


@triton.jit
def _put(logits, fp8, here, inside, gradient, units, UNITS: tl.constexpr):
    """In place of the logits, and in fp8 besides where it has units; not to stay in the cache.

    A hint holds only for pointers that are made where it is given, so that there is no function for it.
    """
    tl.store(logits + here, gradient.to(logits.dtype.element_ty), inside, cache_modifier=".cs")
    if UNITS > 0:
        there = fp8 + here
        if len(there.shape) == 2:
            there = tl.max_contiguous(there, [1, BESIDE_BF16])
        if len(there.shape) == 1:
            there = tl.max_contiguous(there, [BESIDE_BF16])
        tl.store(there, (gradient * units).to(fp8.dtype.element_ty), inside, cache_modifier=".cs")


@triton.jit
def _cross_entropy(
    logits_ptr, targets_ptr, scale_ptr, losses_ptr, fp8_ptr, V,
    IGNORED: tl.constexpr, UNITS: tl.constexpr,
    CAPPED: tl.constexpr, CAP: tl.constexpr, BOUNDED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCKS: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """Two passes: the second finds most of the row still in the cache, out of which its stores push nothing.

    Written for few instructions per logit, as two exponentials of each are near what memory allows: powers
    of two, the scale inside the exponent, and the target's own -1 put in afterwards. No thread waits for
    another inside a pass: each has a largest logit and a sum of its own. What is no whole block is the rest.
    With a cap, logits are in units of it.
    """
    LOG2: tl.constexpr = LOG2_E * CAP
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * V
    target = tl.load(targets_ptr + row)
    counts = target != IGNORED
    goal = _capped(tl.load(logits_ptr + tl.where(counts, target, 0)), CAPPED, CAP)  # before it is overwritten
    in_block = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    in_rest = BLOCKS * ROWS * COLUMNS + tl.arange(0, REST)
    rest = _capped(tl.load(logits_ptr + in_rest, in_rest < V, float("-inf")), CAPPED, CAP)
    rest = tl.where(in_rest < V, rest, float("-inf")) if CAPPED else rest  # a cap makes -1 of it
    highest = tl.zeros([COLUMNS], tl.float32) + (goal if BOUNDED else tl.max(rest, 0))
    sums = tl.zeros([COLUMNS], tl.float32)
    for block in range(BLOCKS):
        here = block * ROWS * COLUMNS + in_block
        z = _capped(tl.load(logits_ptr + here, eviction_policy="evict_last"), CAPPED, CAP)
        highest, sums = _summed(z, highest, sums, LOG2, BOUNDED)
    top = tl.max(highest, 0)
    reference = tl.where(top == float("-inf"), 0.0, top) * LOG2
    total = tl.sum(sums * tl.exp2(highest * LOG2 - reference), 0)
    total += tl.sum(tl.exp2(rest * LOG2 - reference), 0)
    log_sum = top * CAP + tl.log(total)
    scale = tl.where(counts, tl.load(scale_ptr), 0.0)
    tl.store(losses_ptr + row, tl.where(counts, log_sum - goal * CAP, 0.0))
    units = UNITS / tl.load(scale_ptr)
    fp8_ptr += row * V
    shift = tl.log2(scale) - log_sum * LOG2_E
    of_rest = tl.exp2(rest * LOG2 + shift) * _slope(rest, CAPPED)
    _put(logits_ptr, fp8_ptr, in_rest, in_rest < V, of_rest, units, UNITS)
    for i in range(BLOCKS):
        here = (BLOCKS - 1 - i) * ROWS * COLUMNS + in_block  # backwards: what was read last is nearest
        z = _capped(tl.load(logits_ptr + here, eviction_policy="evict_first"), CAPPED, CAP)
        gradient = tl.exp2(z * LOG2 + shift) * _slope(z, CAPPED)
        _put(logits_ptr, fp8_ptr, here, None, gradient, units, UNITS)
    tl.debug_barrier()
    at_target = (tl.exp2((goal * CAP - log_sum) * LOG2_E) - 1.0) * _slope(goal, CAPPED) * scale
    _put(logits_ptr, fp8_ptr, target, counts, at_target, units, UNITS)


def cross_entropy_(
    logits_NV: Tensor,
    targets_N: Tensor,
    scale: Tensor,
    losses_N: Tensor,
    fp8_NV: Tensor | None = None,
    cap: float | None = None,
) -> None:
    """See plain.cross_entropy_."""
    N, V = logits_NV.shape
    blocks = V // (ROWS * COLUMNS)
    _cross_entropy[(N,)](
        logits_NV, targets_N, scale, losses_N, logits_NV if fp8_NV is None else fp8_NV, V,
        IGNORED=plain.IGNORED, UNITS=0.0 if fp8_NV is None else plain.LOGIT_UNITS,
        CAPPED=cap is not None, CAP=1.0 if cap is None else cap,
        BOUNDED=cap is not None and cap <= BOUNDED_CAP,
        ROWS=ROWS, COLUMNS=COLUMNS, BLOCKS=blocks,
        REST=triton.next_power_of_2(max(V - blocks * ROWS * COLUMNS, 1)), num_warps=WARPS,
    )  # fmt: skip
