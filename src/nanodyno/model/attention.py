"""Causal attention by any of torch's backends, on q, k and v where the projection left them.

A backend is named in the call itself: neither a global switch nor a compile cache can put another there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def _cudnn(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    attend = torch.ops.aten._scaled_dot_product_cudnn_attention
    return attend(q_BHTK, k_BHTK, v_BHTK, None, True, 0.0, True, False)[0]


def _flash(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    return attend(q_BHTK, k_BHTK, v_BHTK, 0.0, True, False)[0]


def _efficient(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    attend = torch.ops.aten._scaled_dot_product_efficient_attention
    return attend(q_BHTK, k_BHTK, v_BHTK, None, True, 0.0, True)[0]


def _flash_window(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, window: int) -> Tensor:
    q, k, v = (part.transpose(1, 2) for part in (q_BHTK, k_BHTK, v_BHTK))
    T = q.shape[1]
    attend = torch.ops.aten._flash_attention_forward
    sides = {"window_size_left": window - 1, "window_size_right": 0}
    return attend(q, k, v, None, None, T, T, 0.0, True, False, **sides)[0].transpose(1, 2)


def _torch(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    shared = q_BHTK.shape[1] != k_BHTK.shape[1]
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True, enable_gqa=shared)


def _math(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return _torch(q_BHTK, k_BHTK, v_BHTK)


def _math_window(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, window: int) -> Tensor:
    mask = band_TT(q_BHTK.shape[2], window, q_BHTK.device)
    shared = q_BHTK.shape[1] != k_BHTK.shape[1]
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=mask, enable_gqa=shared)


def _flex(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    attend, mask = _flex_parts(q_BHTK.shape[2], q_BHTK.device)
    return attend(q_BHTK, k_BHTK, v_BHTK, block_mask=mask, enable_gqa=q_BHTK.shape[1] != k_BHTK.shape[1])


def _flex_window(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, mask: Any) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    # Inside a compiled model it is compiled with the rest; alone it would compute all scores at once.
    attend = flex_attention if torch.compiler.is_compiling() else torch.compile(flex_attention, dynamic=False)
    out = attend(q_BHTK, k_BHTK, v_BHTK, block_mask=mask, enable_gqa=q_BHTK.shape[1] != k_BHTK.shape[1])
    assert isinstance(out, Tensor)
    return out


@cache
def _window_mask(positions: int, window: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def seen(_b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (q - k < window)

    return create_block_mask(seen, None, None, positions, positions, device=device.type)


@cache
def _flex_parts(positions: int, device: torch.device) -> tuple[Any, Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(_b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return q >= k

    mask = create_block_mask(causal, None, None, positions, positions, device=device.type)
    return torch.compile(flex_attention, dynamic=False), mask


def _fa3(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, window: int = 0) -> Tensor:
    from flash_attn_interface import flash_attn_func  # pyright: ignore[reportMissingImports]

    parts = (part.transpose(1, 2) for part in (q_BHTK, k_BHTK, v_BHTK))
    out = flash_attn_func(*parts, causal=True, window_size=(window - 1, 0 if window else -1))
    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)


BACKENDS: dict[str, Attend] = {
    "cudnn": _cudnn,
    "fa3": _fa3,
    "flash": _flash,
    "efficient": _efficient,
    "flex": _flex,
    "math": _math,
    "torch": _torch,
}
"""By the names of the config; `torch` is torch's own choice."""
PACKED = "cudnn-packed"
"""cuDNN without torch between, see cudnn_attention.py."""


def bind(name: str, positions: int, window: int | None, device: torch.device) -> Attend:
    """A backend for one block of a model whose sequences are of so many positions.

    flex, flash and fa3 leave out what lies before a window; math computes and masks it.
    """
    if name == "flex":  # with its mask made before anything is compiled
        return partial(_flex_window, mask=_window_mask(positions, window or positions, device))
    if window is None or window >= positions:
        return BACKENDS[name]
    windowed: dict[str, Callable[..., Tensor]] = {"flash": _flash_window, "fa3": _fa3, "math": _math_window}
    return partial(windowed[name], window=window)


def band_TT(positions: int, window: int, device: torch.device) -> Tensor:  # noqa: N802
    """Which positions a position looks at: itself, and the `window` - 1 before it."""
    at = torch.arange(positions, device=device)
    behind = at[:, None] - at
    return (behind >= 0) & (behind < window)


class Attended(Protocol):
    """An attention that has run: its output, N x C, and the way back."""

    @property
    def out(self) -> Tensor: ...

    def backward(self, dout_NC: Tensor) -> Tensor:
        """The gradient of q, k and v side by side, N x 3C."""
        ...


AttendPacked = Callable[[Tensor, int, int], Attended]
"""Of the projection's output, N x 3C, the number of sequences and the number of heads."""


def packed(name: str) -> AttendPacked:
    """Outside autograd, for a backward pass that is called by hand."""
    if name == PACKED:
        from nanodyno.model.cudnn_attention import attend_packed

        return attend_packed
    return partial(_attend, BACKENDS[name])


@dataclass(frozen=True)
class _TorchAttended:
    """Torch keeps what its own backward needs."""

    out: Tensor
    _out_heads: Tensor
    _qkv: tuple[Tensor, ...]

    def backward(self, dout_NC: Tensor) -> Tensor:
        B, H, T, K = self._out_heads.shape
        dout_BHTK = dout_NC.view(B, T, H, K).transpose(1, 2)
        gradients = torch.autograd.grad(self._out_heads, self._qkv, dout_BHTK)
        return torch.cat([part.transpose(1, 2).reshape(B * T, H * K) for part in gradients], dim=1)


def _attend(backend: Attend, qkv: Tensor, sequences: int, heads: int) -> Attended:
    N, width = qkv.shape
    split = qkv.view(sequences, N // sequences, 3, heads, width // 3 // heads)
    leaves = tuple(part.transpose(1, 2).detach().requires_grad_() for part in split.unbind(2))
    with torch.enable_grad():
        out_BHTK = backend(*leaves)
    out_NC = out_BHTK.detach().transpose(1, 2).reshape(N, width // 3)
    return _TorchAttended(out_NC, out_BHTK, leaves)
