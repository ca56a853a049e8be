# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""Values mixed with an embedding of their tokens, in place, and the gradients of all parts in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.launch import warps_for

ROWS = 4
"""Of a program of the backward pass: it waits for their tokens and for their rows of the table at once."""


@triton.jit
def _mix_values(
    qkv_ptr, table_ptr, inputs_ptr, shares_ptr, before_ptr, E, C, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < C
    token = tl.load(inputs_ptr + row)
    values_ptr = qkv_ptr + row * E + (E - C) + columns
    values = tl.load(values_ptr, inside, 0.0)
    tl.store(before_ptr + row * C + columns, values, inside)
    other = tl.load(table_ptr + token * C + columns, inside, 0.0).to(tl.float32)
    mixed = tl.load(shares_ptr) * values.to(tl.float32) + tl.load(shares_ptr + 1) * other
    tl.store(values_ptr, mixed.to(qkv_ptr.dtype.element_ty), inside)


@triton.jit
def _mix_values_backward(
    dqkv_ptr, before_ptr, table_ptr, inputs_ptr, shares_ptr, table_grad_ptr, partial_ptr, N, E, C,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of one token are added in the order of chance; the shares' sums, a pair a program, are not."""
    program = tl.program_id(0).to(tl.int64)
    row = program * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    inside = (row < N) & (columns < C)
    token = tl.load(inputs_ptr + row, row < N, 0)
    values_ptr = dqkv_ptr + row * E + (E - C) + columns
    g = tl.load(values_ptr, inside, 0.0).to(tl.float32)
    before = tl.load(before_ptr + row * C + columns, inside, 0.0).to(tl.float32)
    other = tl.load(table_ptr + token * C + columns, inside, 0.0).to(tl.float32)
    tl.store(values_ptr, (tl.load(shares_ptr) * g).to(dqkv_ptr.dtype.element_ty), inside)
    tl.atomic_add(table_grad_ptr + token * C + columns, tl.load(shares_ptr + 1) * g, inside, sem="relaxed")
    tl.store(partial_ptr + program * 2, tl.sum(g * before))
    tl.store(partial_ptr + program * 2 + 1, tl.sum(g * other))


def mix_values_(qkv_NE: Tensor, table_VC: Tensor, inputs_N: Tensor, shares: Tensor) -> Tensor:
    """See plain_modern.mix_values_."""
    (N, E), C = qkv_NE.shape, table_VC.shape[1]
    before = torch.empty(N, C, dtype=qkv_NE.dtype, device=qkv_NE.device)
    block = triton.next_power_of_2(C)
    _mix_values[(N,)](
        qkv_NE, table_VC, inputs_N, shares, before, E, C, BLOCK=block, num_warps=warps_for(block)
    )
    return before


def mix_values_backward_(
    dqkv_NE: Tensor,
    before_NC: Tensor,
    table_VC: Tensor,
    inputs_N: Tensor,
    shares: Tensor,
    table_grad: Tensor,
    shares_grad: Tensor,
) -> None:
    """See plain_modern.mix_values_backward_."""
    (N, E), C = dqkv_NE.shape, table_VC.shape[1]
    programs = triton.cdiv(N, ROWS)
    partial = torch.empty(programs, 2, device=dqkv_NE.device)
    block = triton.next_power_of_2(C)
    _mix_values_backward[(programs,)](
        dqkv_NE, before_NC, table_VC, inputs_N, shares, table_grad, partial, N, E, C,
        ROWS=ROWS, BLOCK=block, num_warps=warps_for(block),
    )  # fmt: skip
    shares_grad += partial.sum(0)
