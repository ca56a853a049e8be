# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
"""LayerNorm or RMS norm fused with the residual addition before it, and its backward pass, by rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanodyno.model.kernels.launch import warps_for

LANES_PER_PROCESSOR = {torch.float32: 8192, torch.bfloat16: 12288}
LANES_PER_WARP = {torch.float32: 512, torch.bfloat16: 1024}
"""Of the backward pass by the residual stream's precision, measured on an H200 at widths 768 and 384."""


def partial_rows(device: torch.device, width: int, stream: torch.dtype) -> int:
    """Programs of the backward pass; each adds to a row of its own, so that no order is left to chance."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return processors * max(1, LANES_PER_PROCESSOR[stream] // triton.next_power_of_2(width))


@triton.jit
def _add_norm(
    x_ptr, y_ptr, out_ptr, n_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, eps, C,
    CENTRED: tl.constexpr, ADD: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < C
    here = row * C + columns
    x = tl.load(x_ptr + here, inside, 0.0).to(tl.float32)
    if ADD:
        x += tl.load(y_ptr + here, inside, 0.0).to(tl.float32)
        x = x.to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + here, x, inside)
        x = x.to(tl.float32)
    mean = tl.sum(x, 0) / C if CENTRED else 0.0
    centred = tl.where(inside, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / C + eps)
    n = centred * rstd * tl.load(weight_ptr + columns, inside, 0.0)
    if BIAS:
        n += tl.load(bias_ptr + columns, inside, 0.0)
    tl.store(n_ptr + here, n.to(n_ptr.dtype.element_ty), inside)
    if CENTRED:
        tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def _norm_backward(
    dn_ptr, x_ptr, dx_ptr, half_ptr, n_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr,
    weight_partial_ptr, bias_partial_ptr, N, C,
    CENTRED: tl.constexpr, ADD: tl.constexpr, HALF: tl.constexpr, AGAIN: tl.constexpr, BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows p, p + programs, ...; the parameters' gradients stay in registers until the last row."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < C
    weight = tl.load(weight_ptr + columns, inside, 0.0)
    weight_sum = tl.zeros([BLOCK], tl.float32)
    bias_sum = tl.zeros([BLOCK], tl.float32)
    for row in range(program, N, programs):
        here = tl.cast(row, tl.int64) * C + columns
        dn = tl.load(dn_ptr + here, inside, 0.0).to(tl.float32)
        x = tl.load(x_ptr + here, inside, 0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        mean = tl.load(mean_ptr + row) if CENTRED else 0.0
        x_hat = tl.where(inside, (x - mean) * rstd, 0.0)
        weight_sum += dn * x_hat
        if BIAS:
            bias_sum += dn
        if AGAIN:
            n = x_hat * weight
            if BIAS:
                n += tl.load(bias_ptr + columns, inside, 0.0)
            tl.store(n_ptr + here, n.to(n_ptr.dtype.element_ty), inside)
        g = dn * weight
        mean_g = tl.sum(g, 0) / C if CENTRED else 0.0
        dx = (g - mean_g - x_hat * (tl.sum(g * x_hat, 0) / C)) * rstd
        if ADD:
            dx += tl.load(dx_ptr + here, inside, 0.0).to(tl.float32)
        tl.store(dx_ptr + here, dx.to(dx_ptr.dtype.element_ty), inside)
        if HALF:
            tl.store(half_ptr + here, dx.to(half_ptr.dtype.element_ty), inside)
    mine = program * C + columns
    tl.store(weight_partial_ptr + mine, weight_sum + tl.load(weight_partial_ptr + mine, inside, 0.0), inside)
    if BIAS:
        tl.store(bias_partial_ptr + mine, bias_sum + tl.load(bias_partial_ptr + mine, inside, 0.0), inside)


def add_norm(
    x_NC: Tensor,
    y_NC: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    half: torch.dtype,
    eps: float,
    centred: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """See plain.add_norm."""
    N, C = x_NC.shape
    out = x_NC if y_NC is None else torch.empty_like(x_NC)
    n = torch.empty_like(x_NC, dtype=half)
    rstd = torch.empty(N, device=x_NC.device)
    mean = torch.empty_like(rstd) if centred else None
    block = triton.next_power_of_2(C)
    _add_norm[(N,)](
        x_NC, x_NC if y_NC is None else y_NC, out, n, weight, weight if bias is None else bias,
        rstd if mean is None else mean, rstd, eps, C,
        CENTRED=centred, ADD=y_NC is not None, BIAS=bias is not None, BLOCK=block, num_warps=warps_for(block),
    )  # fmt: skip
    return out, n, mean, rstd


def norm_backward(
    dn_NC: Tensor,
    x_NC: Tensor,
    mean: Tensor | None,
    rstd: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    dx_NC: Tensor | None,
    weight_partial: Tensor,
    bias_partial: Tensor | None,
    again: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """See plain.norm_backward."""
    N, C = x_NC.shape
    dx = torch.empty_like(x_NC) if dx_NC is None else dx_NC
    half = dx if dx.dtype == dn_NC.dtype else torch.empty_like(dn_NC)
    n = torch.empty_like(dn_NC) if again else None
    block = triton.next_power_of_2(C)
    _norm_backward[(weight_partial.shape[0],)](
        dn_NC, x_NC, dx, half, half if n is None else n, weight, weight if bias is None else bias,
        rstd if mean is None else mean, rstd,
        weight_partial, weight_partial if bias_partial is None else bias_partial, N, C,
        CENTRED=mean is not None, ADD=dx_NC is not None, HALF=half is not dx, AGAIN=again,
        BIAS=bias is not None, BLOCK=block, num_warps=max(1, block // LANES_PER_WARP[x_NC.dtype]),
    )  # fmt: skip
    return dx, half, n
