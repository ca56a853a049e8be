"""The output head and its loss in one, some rows of logits at a time: they are never whole in memory."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from nanodyno.model.kernels import plain

CrossEntropy = Callable[[Tensor, Tensor, Tensor, Tensor], None]


def _by_rows(
    hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int, cross_entropy_: CrossEntropy
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of the losses, and its gradients by hidden and by head."""
    wide = torch.promote_types(hidden_NC.dtype, torch.float32)
    losses = torch.empty(targets_N.shape, dtype=wide, device=hidden_NC.device)
    dhidden = torch.empty_like(hidden_NC)
    dhead = torch.zeros_like(head_VC, dtype=wide)
    one = torch.ones((), dtype=wide, device=hidden_NC.device)
    with torch.autocast(hidden_NC.device.type, enabled=False):
        for first in range(0, hidden_NC.shape[0], rows):
            here = slice(first, first + rows)
            logits = hidden_NC[here] @ head_VC.t()
            cross_entropy_(logits, targets_N[here], one, losses[here])
            dhidden[here] = logits @ head_VC
            dhead += logits.t() @ hidden_NC[here]
    return losses.sum(), dhidden, dhead


@torch.library.custom_op("nanodyno::loss_by_rows", mutates_args=())
def _closed(
    hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int, cap: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """For a compiled program, whose compiler does not look into it.

    It would put off to the end what it can do there for all rows at once, and keep all their logits for it.
    So it compiles what is done with some rows, and no more.
    """
    return _by_rows(hidden_NC, head_VC, targets_N, rows, _compiled_cross_entropy(cap))


@_closed.register_fake
def _(
    hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int, cap: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    del targets_N, rows, cap
    wide = torch.promote_types(hidden_NC.dtype, torch.float32)
    dhead = torch.empty_like(head_VC, dtype=wide)
    return hidden_NC.new_empty((), dtype=wide), torch.empty_like(hidden_NC), dhead


def _cross_entropy(cap: float | None) -> CrossEntropy:
    return partial(plain.cross_entropy_, cap=cap)


@cache
def _compiled_cross_entropy(cap: float | None) -> CrossEntropy:
    return torch.compile(_cross_entropy(cap), dynamic=False)


class _HeadLoss(torch.autograd.Function):
    """The gradient is taken in the forward pass, while the logits of a row are there.

    There it is the sum's, and becomes the mean's in the backward pass, where fp16's loss scale comes in:
    without it, a probability divided by thousands of positions is next to nothing in fp16.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int, cap: float | None
    ) -> Tensor:
        half = torch.get_autocast_dtype(hidden_NC.device.type) if _autocasts(hidden_NC) else hidden_NC.dtype
        hidden, head = hidden_NC.to(half), head_VC.to(half)
        if torch.compiler.is_compiling():
            total, dhidden, dhead = _closed(hidden, head, targets_N, rows, cap)
        else:
            total, dhidden, dhead = _by_rows(hidden, head, targets_N, rows, _cross_entropy(cap))
        scale = 1 / (targets_N != plain.IGNORED).sum().clamp(min=1).to(total.dtype)
        ctx.save_for_backward(dhidden.to(hidden_NC.dtype), dhead.to(head_VC.dtype), scale)
        return total * scale

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dhidden, dhead, scale = ctx.saved_tensors
        weight = gradients[0] * scale
        return dhidden * weight, dhead * weight, None, None, None


def head_loss(
    hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int, cap: float | None = None
) -> Tensor:
    """Mean cross-entropy in nats over the targets that count; 0 where none does. `cap` bends the logits."""
    loss = _HeadLoss.apply(hidden_NC, head_VC, targets_N, rows, cap)
    assert isinstance(loss, Tensor)
    return loss


def _autocasts(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)
