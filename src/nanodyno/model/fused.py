"""One micro-step written out by hand: forward, loss and backward of the GPT of gpt.py.

Against autograd it saves what autograd cannot know: gradients of weights are added in place in fp32 by the
matrix product that makes them; weights are cast once an iteration; the logits are never whole in memory, as
their gradient is taken at once; and what is cheap to make again is not kept. The arithmetic is autocast's.

Shapes by suffix: B sequences, T positions, N = B * T, C width, V vocabulary.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import cast

import torch
from torch import Tensor, nn

from nanodyno.costs.setup import Recompute
from nanodyno.model.attention import Attended, AttendPacked
from nanodyno.model.flat import Flat, flatten
from nanodyno.model.fp8 import Fp8Matmuls
from nanodyno.model.gpt import GELU_FORMS, GPT, NORM_EPS, Block, Norm, RmsNorm
from nanodyno.model.kernels import plain
from nanodyno.model.kernels.fp8_slot import Fp8Slot
from nanodyno.model.kernels.plain import IGNORED
from nanodyno.model.matmul import Matmuls, Multiply, by_torch

RECOMPUTE: tuple[Recompute, ...] = ("none", "light", "mlp", "full")
"""From the fastest to the smallest. Bytes kept per position, block and unit of width: 36, 24, 16 and 4."""


@dataclass(frozen=True)
class MicroStepPlan:
    """How a micro-step goes. `residual` is the precision of the residual stream and its gradient."""

    half: torch.dtype
    residual: torch.dtype
    attention: AttendPacked
    loss_chunk_size: int
    recompute: Recompute = "none"
    kernels: ModuleType = plain
    fp8: bool = False
    multiply: Multiply = by_torch


@dataclass
class _Normed:
    """A norm that has run: what it was of, its statistics and, unless made again later, its output."""

    x: Tensor
    mean: Tensor | None
    rstd: Tensor
    n: Tensor | None


@dataclass
class _Kept:
    """What a block leaves for its backward pass; None is made again there."""

    normed_attention: _Normed
    attended: Attended | None
    normed_mlp: _Normed | None
    up: Tensor | None
    active: Tensor | None


class FusedStep:
    """Adds one micro-batch's gradients to the parameters' own, and its mean loss to `total`."""

    def __init__(self, model: GPT, plan: MicroStepPlan) -> None:
        self.model = model
        self.flat: Flat = flatten(model, plan.half)
        self._blocks = cast(list[Block], list(model.blocks))  # a modern one has the same parts
        self.head = model.head_layer
        self.matmuls = (
            Fp8Matmuls(self.flat, self._blocks, self.head, plan.kernels)
            if plan.fp8
            else Matmuls(self.flat, self.head)
        )
        self.use(plan)
        self.norms = [module for module in model.modules() if isinstance(module, Norm | RmsNorm)]
        device = self.flat.parameters.device
        wide = self.flat.parameters.dtype
        rows = self.k.partial_rows(device, model.shape.n_embd, plan.residual)
        shape = (len(self.norms), rows, model.shape.n_embd)
        self._weight_partials = torch.zeros(shape, dtype=wide, device=device)
        biased = self.norms[0].bias is not None
        self._bias_partials = torch.zeros(shape, dtype=wide, device=device) if biased else None
        self.total = torch.zeros((), dtype=wide, device=device)
        self.weight = torch.ones((), dtype=wide, device=device)
        """What the mean loss is multiplied with before the backward pass."""
        self._gelu = GELU_FORMS[model.shape.gelu]
        self._centred = model.shape.norm == "layer"

    def use(self, plan: MicroStepPlan) -> None:
        """From now on; of the same precisions as before, since memory is laid out by them."""
        self.plan = plan
        self.k = plan.kernels
        self.matmuls.use(plan.kernels, plan.multiply)

    @torch.no_grad()
    def begin(self, weight: float) -> None:
        """Of an iteration whose micro-steps count `weight` each."""
        self.matmuls.begin()
        self.total.zero_()
        self.weight.fill_(weight)

    @torch.no_grad()
    def __call__(self, inputs_BT: Tensor, targets_BT: Tensor) -> None:
        sequences = inputs_BT.shape[0]
        x, kept = self._embed(inputs_BT), []
        y: Tensor | None = None
        for block in self._blocks:
            x, y, saved = self._block(block, x, y, sequences)
            kept.append(saved)
        last = self._norm(self.model.norm, x, y)
        del x, y
        dn = self._loss(last, targets_BT.flatten())
        dx, dhalf = self._norm_backward(self.model.norm, last, dn, None)[:2]
        del last, dn
        for block in reversed(self._blocks):
            dx, dhalf = self._block_backward(block, kept.pop(), dx, dhalf, sequences)
        self._embed_backward(dx, inputs_BT)

    @torch.no_grad()
    def finish(self) -> None:
        """After the last micro-step of an iteration: the norms' partial sums become gradients."""
        for partials, kind in ((self._weight_partials, "weight"), (self._bias_partials, "bias")):
            if partials is not None:
                gradients = [getattr(norm, kind).grad for norm in self.norms]
                torch._foreach_add_(gradients, list(partials.sum(1).unbind()))  # pyright: ignore[reportPrivateImportUsage]
                partials.zero_()

    @torch.no_grad()
    def unfinished_square(self) -> Tensor:
        """The square of the norm of what `finish` would add to gradients that are zero."""
        square = self._weight_partials.sum(1).square().sum()
        return square if self._bias_partials is None else square + self._bias_partials.sum(1).square().sum()

    @torch.no_grad()
    def drop(self) -> None:
        """As if no micro-step had been."""
        self.flat.gradients.zero_()
        self._weight_partials.zero_()
        if self._bias_partials is not None:
            self._bias_partials.zero_()

    def _embed(self, inputs_BT: Tensor) -> Tensor:
        model = self.model
        return self.k.embed(model.tokens.weight, model.positions.weight, inputs_BT, self.plan.residual)

    def _embed_backward(self, dx: Tensor, inputs_BT: Tensor) -> None:
        self.k.embed_backward(
            dx, inputs_BT, gradient_of(self.model.tokens), gradient_of(self.model.positions)
        )

    def _attend(self, block: Block, qkv: Tensor, sequences: int) -> Attended:
        del block
        return self.plan.attention(qkv, sequences, self.model.shape.n_head)

    def _activate(self, up: Tensor, slot: Fp8Slot | None) -> Tensor:
        return self.k.gelu(up, self._gelu, slot)

    def _activate_backward_(
        self, up: Tensor, dup: Tensor, again: bool, slot: Fp8Slot | None
    ) -> Tensor | None:
        """See plain.gelu_backward_."""
        return self.k.gelu_backward_(up, dup, self._gelu, again, slot)

    def _block(
        self, block: Block, x: Tensor, y: Tensor | None, sequences: int
    ) -> tuple[Tensor, Tensor, _Kept]:
        """The residual stream in the middle of the block, what the MLP adds to it, and what is kept."""
        recompute = self.plan.recompute
        first = self._norm(block.norm_attention, x, y)
        attended, second, up = self._to_the_middle(block, first, sequences)
        slot = self.matmuls.input_slot(block.mlp.down)
        active = self._activate(up, slot)
        out = self.matmuls.forward(block.mlp.down, active)
        middle = second.x
        kept = _Kept(first, attended, second, up, active if slot is None else None)
        if recompute != "none":
            kept.active = first.n = second.n = None
        if recompute in ("mlp", "full"):
            kept.up = None
        if recompute == "full":
            kept.attended = kept.normed_mlp = None
        return middle, out, kept

    def _to_the_middle(
        self, block: Block, first: _Normed, sequences: int
    ) -> tuple[Attended, _Normed, Tensor]:
        assert first.n is not None
        qkv = self.matmuls.forward(block.attention.qkv, first.n)
        attended = self._attend(block, qkv, sequences)
        second = self._norm(block.norm_mlp, first.x, self.matmuls.forward(block.attention.out, attended.out))
        assert second.n is not None
        return attended, second, self.matmuls.forward(block.mlp.up, second.n)

    def _block_backward(
        self, block: Block, kept: _Kept, dx: Tensor, dhalf: Tensor, sequences: int
    ) -> tuple[Tensor, Tensor]:
        attended, second, up = self._made_again(block, kept, sequences)
        dup = self.matmuls.input_gradient(block.mlp.down, dhalf)
        slot = self.matmuls.gradient_slot(block.mlp.up)
        fp8 = self._activate_backward_(up, dup, kept.active is None, slot)
        self._add_gradient(block.mlp.down, dhalf, up if kept.active is None else kept.active)
        dn = self.matmuls.input_gradient(block.mlp.up, dup, fp8)
        dx, dhalf, n = self._norm_backward(block.norm_mlp, second, dn, dx)
        self._add_gradient(block.mlp.up, dup, n)
        del dup, fp8, up, dn, n, second
        dout = self.matmuls.input_gradient(block.attention.out, dhalf)
        self._add_gradient(block.attention.out, dhalf, attended.out)
        dqkv = attended.backward(dout)
        dn = self.matmuls.input_gradient(block.attention.qkv, dqkv)
        dx, dhalf, n = self._norm_backward(block.norm_attention, kept.normed_attention, dn, dx)
        self._add_gradient(block.attention.qkv, dqkv, n)
        return dx, dhalf

    def _made_again(self, block: Block, kept: _Kept, sequences: int) -> tuple[Attended, _Normed, Tensor]:
        if kept.attended is None or kept.normed_mlp is None:
            first = self._norm(block.norm_attention, kept.normed_attention.x, None)
            return self._to_the_middle(block, first, sequences)
        if kept.up is None:
            n = self._norm(block.norm_mlp, kept.normed_mlp.x, None).n
            assert n is not None
            return kept.attended, kept.normed_mlp, self.matmuls.forward(block.mlp.up, n)
        return kept.attended, kept.normed_mlp, kept.up

    def _loss(self, last: _Normed, targets_N: Tensor) -> Tensor:
        """The gradient of the last norm's output, some rows of logits at a time."""
        hidden = last.n
        assert hidden is not None
        scale = self.weight / (targets_N != IGNORED).sum().clamp(min=1)
        losses = torch.empty(hidden.shape[0], dtype=self.total.dtype, device=hidden.device)
        dn = torch.empty_like(hidden)
        rows = min(self.plan.loss_chunk_size, hidden.shape[0])
        buffer = torch.empty(rows, self.model.shape.vocab_size, dtype=hidden.dtype, device=hidden.device)
        for first in range(0, hidden.shape[0], rows):
            here = slice(first, first + rows)
            logits = self.matmuls.logits(hidden[here], buffer[: hidden[here].shape[0]])
            fp8 = self.matmuls.logits_fp8(logits)
            self.k.cross_entropy_(
                logits, targets_N[here], scale, losses[here], fp8, self.model.shape.logit_softcap
            )
            self.matmuls.hidden_gradient(logits, fp8, scale, dn[here])
            self.matmuls.add_weight_gradient(self.head, logits, hidden[here])
            del fp8
        self.total += losses.sum() * scale
        return dn

    def _norm(self, norm: Norm | RmsNorm, x: Tensor, y: Tensor | None) -> _Normed:
        how = (self.plan.half, NORM_EPS, self._centred)
        x, n, mean, rstd = self.k.add_norm(x, y, norm.weight, norm.bias, *how)
        return _Normed(x, mean, rstd, n)

    def _norm_backward(
        self, norm: Norm | RmsNorm, normed: _Normed, dn: Tensor, dx: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Also the norm's output, made again where it was not kept."""
        place = self.norms.index(norm)
        bias_partial = None if self._bias_partials is None else self._bias_partials[place]
        dx_out, dhalf, n = self.k.norm_backward(
            dn, normed.x, normed.mean, normed.rstd, norm.weight, norm.bias, dx,
            self._weight_partials[place], bias_partial, normed.n is None,
        )  # fmt: skip
        return dx_out, dhalf, n if normed.n is None else normed.n

    def _add_gradient(self, linear: nn.Linear, dy: Tensor, x: Tensor) -> None:
        self.matmuls.add_weight_gradient(linear, dy, x)
        if linear.bias is not None:
            assert linear.bias.grad is not None
            linear.bias.grad += dy.sum(0, dtype=linear.bias.grad.dtype)


def gradient_of(module: nn.Linear | nn.Embedding) -> Tensor:
    assert module.weight.grad is not None
    return module.weight.grad
