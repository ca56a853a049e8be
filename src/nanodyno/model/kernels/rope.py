# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""Queries and keys over their root mean square and turned by their positions, in place, a row a program.

A block is all heads of a row by half of a head's numbers: number i lies in the same thread as its partner.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.launch import warps_for
from nanodyno.model.kernels.plain_modern import Rotation


@triton.jit
def _places(E, heads, K: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    """Where the first halves of this row's heads lie, and which places there and in the second are inside."""
    head, column = tl.arange(0, HEADS)[:, None], tl.arange(0, BLOCK)[None, :]
    here = tl.program_id(0).to(tl.int64) * E + head * K + column
    return here, (head < heads) & (column < HALF), (head < heads) & (column < K - HALF)


@triton.jit
def _rotated(first, second, cosines, sines, positions, HALF: tl.constexpr, BACK: tl.constexpr):
    column = tl.arange(0, first.shape[1])[None, :]
    here = (tl.program_id(0) % positions).to(tl.int64) * HALF + column
    cos = tl.load(cosines + here, column < HALF, 0.0)
    sin = tl.load(sines + here, column < HALF, 0.0)
    if BACK:
        sin = -sin
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def _apply_rope(
    qkv_ptr, rstd_ptr, cos_ptr, sin_ptr, E, heads, positions, eps,
    NORMED: tl.constexpr, TURNED: tl.constexpr,
    K: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    here, in_first, in_second = _places(E, heads, K, HALF, HEADS, BLOCK)
    first = tl.load(qkv_ptr + here, in_first, 0.0).to(tl.float32)
    second = tl.load(qkv_ptr + here + HALF, in_second, 0.0).to(tl.float32)
    if NORMED:
        rstd = tl.rsqrt(tl.sum(first * first + second * second, 1) / K + eps)
        head = tl.arange(0, HEADS)
        tl.store(rstd_ptr + tl.program_id(0).to(tl.int64) * heads + head, rstd, head < heads)
        first *= rstd[:, None]
        second *= rstd[:, None]
    if TURNED:
        first, second = _rotated(first, second, cos_ptr, sin_ptr, positions, HALF, False)
    tl.store(qkv_ptr + here, first.to(qkv_ptr.dtype.element_ty), in_first)
    tl.store(qkv_ptr + here + HALF, second.to(qkv_ptr.dtype.element_ty), in_second)


@triton.jit
def _apply_rope_backward(
    dqkv_ptr, qkv_ptr, rstd_ptr, cos_ptr, sin_ptr, E, heads, positions,
    NORMED: tl.constexpr, TURNED: tl.constexpr,
    K: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The part along the head is taken out before it is turned back, which changes no product of the two."""
    here, in_first, in_second = _places(E, heads, K, HALF, HEADS, BLOCK)
    first = tl.load(dqkv_ptr + here, in_first, 0.0).to(tl.float32)
    second = tl.load(dqkv_ptr + here + HALF, in_second, 0.0).to(tl.float32)
    if NORMED:
        x_first = tl.load(qkv_ptr + here, in_first, 0.0).to(tl.float32)
        x_second = tl.load(qkv_ptr + here + HALF, in_second, 0.0).to(tl.float32)
        along = tl.sum(first * x_first + second * x_second, 1) / K
        head = tl.arange(0, HEADS)
        rstd = tl.load(rstd_ptr + tl.program_id(0).to(tl.int64) * heads + head, head < heads, 0.0)
        first = (first - x_first * along[:, None]) * rstd[:, None]
        second = (second - x_second * along[:, None]) * rstd[:, None]
    if TURNED:
        first, second = _rotated(first, second, cos_ptr, sin_ptr, positions, HALF, True)
    tl.store(dqkv_ptr + here, first.to(dqkv_ptr.dtype.element_ty), in_first)
    tl.store(dqkv_ptr + here + HALF, second.to(dqkv_ptr.dtype.element_ty), in_second)


def apply_rope_(
    qkv_NE: Tensor, heads: int, positions: int, rotation: Rotation | None, normed: bool, eps: float
) -> Tensor:
    """See plain_modern.apply_rope_. Where nothing is normed, what is returned has no rows."""
    N, E = qkv_NE.shape
    rstd = torch.empty(N if normed else 0, 2 * heads, device=qkv_NE.device)
    cos, sin = (rstd, rstd) if rotation is None else rotation
    _apply_rope[(N,)](
        qkv_NE, rstd, cos, sin, E, 2 * heads, positions, eps,
        NORMED=normed, TURNED=rotation is not None, **_blocks(E, heads),
    )  # fmt: skip
    return rstd


def apply_rope_backward_(
    dqkv_NE: Tensor,
    qkv_NE: Tensor,
    rstd: Tensor,
    heads: int,
    positions: int,
    rotation: Rotation | None,
    normed: bool,
) -> None:
    """See plain_modern.apply_rope_backward_."""
    N, E = dqkv_NE.shape
    cos, sin = (rstd, rstd) if rotation is None else rotation
    _apply_rope_backward[(N,)](
        dqkv_NE, qkv_NE, rstd, cos, sin, E, 2 * heads, positions,
        NORMED=normed, TURNED=rotation is not None, **_blocks(E, heads),
    )  # fmt: skip


def _blocks(E: int, heads: int) -> dict[str, int]:
    size = E // 3 // heads
    half = triton.cdiv(size, 2)  # without a rotation a head may be odd
    rows, columns = triton.next_power_of_2(2 * heads), triton.next_power_of_2(half)
    warps = warps_for(rows * columns)
    return {"K": size, "HALF": half, "HEADS": rows, "BLOCK": columns, "num_warps": warps}
