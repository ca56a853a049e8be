"""The output head and its loss in one, some rows of logits at a time: they are never whole in memory."""

from typing import Any

import torch
from torch import Tensor

from nanodyno.model.kernels import plain


class _HeadLoss(torch.autograd.Function):
    """The gradient is taken in the forward pass, while the logits of a row are there.

    There it is the sum's, and becomes the mean's in the backward pass, where fp16's loss scale comes in:
    without it, a probability divided by thousands of positions is next to nothing in fp16.
    """

    @staticmethod
    def forward(ctx: Any, hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int) -> Tensor:
        half = torch.get_autocast_dtype(hidden_NC.device.type) if _autocasts(hidden_NC) else hidden_NC.dtype
        hidden, head = hidden_NC.to(half), head_VC.to(half)
        wide = torch.promote_types(half, torch.float32)
        scale = 1 / (targets_N != plain.IGNORED).sum().clamp(min=1).to(wide)
        losses = torch.empty(targets_N.shape, dtype=wide, device=hidden.device)
        dhidden = torch.empty_like(hidden)
        dhead = torch.zeros_like(head, dtype=wide)
        one = torch.ones_like(scale)
        with torch.autocast(hidden.device.type, enabled=False):
            for first in range(0, hidden.shape[0], rows):
                here = slice(first, first + rows)
                logits = hidden[here] @ head.t()
                plain.cross_entropy_(logits, targets_N[here], one, losses[here])
                dhidden[here] = logits @ head
                dhead += logits.t() @ hidden[here]
        ctx.save_for_backward(dhidden.to(hidden_NC.dtype), dhead.to(head_VC.dtype), scale)
        return losses.sum() * scale

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dhidden, dhead, scale = ctx.saved_tensors
        weight = gradients[0] * scale
        return dhidden * weight, dhead * weight, None, None


def head_loss(hidden_NC: Tensor, head_VC: Tensor, targets_N: Tensor, rows: int) -> Tensor:
    """Mean cross-entropy in nats over the targets that count; 0 where none does."""
    loss = _HeadLoss.apply(hidden_NC, head_VC, targets_N, rows)
    assert isinstance(loss, Tensor)
    return loss


def _autocasts(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)
