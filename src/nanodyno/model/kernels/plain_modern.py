"""What plain.py has, for the parts that came after GPT-2.

Shapes: N positions (B * T), C width, V vocabulary, H heads of K numbers; a row of qkv is q, k and v, each C.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from nanodyno.model.kernels.fp8_slot import Fp8Slot, quantise

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines, one row a position, K/2 each."""


def relu2(u: Tensor, slot: Fp8Slot | None = None) -> Tensor:
    """With a slot, in fp8."""
    g = F.relu(u).square()
    return g if slot is None else quantise(g, slot)


def relu2_backward_(u: Tensor, dg: Tensor, again: bool, slot: Fp8Slot | None = None) -> Tensor | None:
    """As gelu_backward_ does it."""
    du = dg * (2 * F.relu(u))
    if again:
        u.copy_(relu2(u))
    dg.copy_(du)
    return None if slot is None else quantise(dg, slot)


def apply_rope_(
    qkv_NE: Tensor, heads: int, positions: int, rotation: Rotation | None, normed: bool, eps: float
) -> Tensor:
    """Queries and keys in place: each head over its root mean square if it is `normed`, then number i turned
    with number i + K/2 by the angle of its position, which is the row's number modulo `positions`.

    Returns 1 over the root mean squares, N x 2H; of no use where nothing is normed.
    """
    x = _queries_and_keys(qkv_NE, heads)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rstd = (wide.square().mean(-1) + eps).rsqrt()
    if normed:
        wide = wide * rstd[:, :, None]
    if rotation is not None:
        wide = _rotated(wide, *_angles(rotation, x.shape[0], positions))
    x.copy_(wide)
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
    """The gradient of what `apply_rope_` was given, in place of that of what it left in qkv."""
    x, dx = _queries_and_keys(qkv_NE, heads), _queries_and_keys(dqkv_NE, heads)
    wide = rstd.dtype
    y, g = x.to(wide), dx.to(wide)
    if rotation is not None:
        cos, sin = _angles(rotation, x.shape[0], positions)
        y, g = _rotated(y, cos, -sin), _rotated(g, cos, -sin)
    if normed:
        g = (g - y * (g * y).mean(-1, keepdim=True)) * rstd[:, :, None]
    dx.copy_(g)


def mix_values_(qkv_NE: Tensor, table_VC: Tensor, inputs_N: Tensor, shares: Tensor) -> Tensor:
    """Values become shares[0] of themselves and shares[1] of their token's row. Returns what they were."""
    values = qkv_NE[:, -table_VC.shape[1] :]
    before = values.clone()
    own, other = shares
    values.copy_(own * before.to(shares.dtype) + other * table_VC[inputs_N].to(shares.dtype))
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
    """The values' gradient in place; the table's and the shares' are added to what is there."""
    values = dqkv_NE[:, -table_VC.shape[1] :]
    wide = shares.dtype
    g = values.to(wide)
    own, other = shares
    shares_grad += torch.stack([(g * before_NC.to(wide)).sum(), (g * table_VC[inputs_N].to(wide)).sum()])
    table_grad.index_add_(0, inputs_N, (other * g).to(table_grad.dtype))
    values.copy_(own * g)


def _queries_and_keys(qkv_NE: Tensor, heads: int) -> Tensor:
    """A view, N x 2H x K."""
    N, width = qkv_NE.shape[0], qkv_NE.shape[1] // 3
    return qkv_NE[:, : 2 * width].view(N, 2 * heads, width // heads)


def _angles(rotation: Rotation, rows: int, positions: int) -> Rotation:
    at = torch.arange(rows, device=rotation[0].device) % positions
    cos, sin = (table[at][:, None] for table in rotation)
    return cos, sin


def _rotated(x_NHK: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x_NHK.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
