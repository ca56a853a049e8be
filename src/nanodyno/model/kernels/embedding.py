# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""Tokens' and positions' embeddings, and their gradients, one pass over the residual stream each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.launch import warps_for


@triton.jit
def _embed(
    tokens_ptr, positions_ptr, inputs_ptr, x_ptr, T, C, POSITIONS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < C
    token = tl.load(inputs_ptr + row)
    x = tl.load(tokens_ptr + token * C + columns, inside, 0.0)
    if POSITIONS:
        x += tl.load(positions_ptr + (row % T) * C + columns, inside, 0.0)
    tl.store(x_ptr + row * C + columns, x.to(x_ptr.dtype.element_ty), inside)


@triton.jit
def _embed_backward(
    dx_ptr, inputs_ptr, tokens_grad_ptr, positions_grad_ptr, B, T, C,
    POSITIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A position of all sequences a program. Rows of one token are added in the order of chance."""
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < C
    total = tl.zeros([BLOCK], tl.float32)
    for sequence in range(B):
        row = sequence * T + position
        token = tl.load(inputs_ptr + row)
        dx = tl.load(dx_ptr + row * C + columns, inside, 0.0).to(tl.float32)
        tl.atomic_add(tokens_grad_ptr + token * C + columns, dx, inside, sem="relaxed")
        total += dx
    if POSITIONS:
        here = positions_grad_ptr + position * C + columns
        tl.store(here, total + tl.load(here, inside, 0.0), inside)


def embed(tokens: Tensor, positions: Tensor | None, inputs_BT: Tensor, dtype: torch.dtype) -> Tensor:
    """See plain.embed."""
    T, C = inputs_BT.shape[1], tokens.shape[1]
    x = torch.empty(inputs_BT.numel(), C, dtype=dtype, device=tokens.device)
    block = triton.next_power_of_2(C)
    _embed[(x.shape[0],)](
        tokens, tokens if positions is None else positions, inputs_BT.contiguous(), x, T, C,
        POSITIONS=positions is not None, BLOCK=block, num_warps=warps_for(block),
    )  # fmt: skip
    return x


def embed_backward(
    dx_NC: Tensor, inputs_BT: Tensor, tokens_grad: Tensor, positions_grad: Tensor | None
) -> None:
    """See plain.embed_backward. Where positions count for nothing, all are of one sequence."""
    B, T = (1, inputs_BT.numel()) if positions_grad is None else inputs_BT.shape
    C = dx_NC.shape[1]
    block = triton.next_power_of_2(C)
    _embed_backward[(T,)](
        dx_NC, inputs_BT.contiguous(), tokens_grad, tokens_grad if positions_grad is None else positions_grad,
        B, T, C, POSITIONS=positions_grad is not None, BLOCK=block, num_warps=warps_for(block),
    )  # fmt: skip
