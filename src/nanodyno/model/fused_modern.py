"""The micro-step by hand with the parts that came after GPT-2; without a window, and with a head of keys and
values for each of queries."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from nanodyno.model.attention import Attended
from nanodyno.model.fused import FusedStep, MicroStepPlan, gradient_of
from nanodyno.model.gpt import GPT, NORM_EPS, Block
from nanodyno.model.kernels.fp8_slot import Fp8Slot
from nanodyno.model.kernels.plain_modern import Rotation
from nanodyno.model.modern import ModernBlock, ModernGPT


def make_step(model: GPT, plan: MicroStepPlan) -> FusedStep:
    return ModernStep(model, plan) if isinstance(model, ModernGPT) else FusedStep(model, plan)


class ModernStep(FusedStep):
    model: ModernGPT

    def __init__(self, model: ModernGPT, plan: MicroStepPlan) -> None:
        super().__init__(model, plan)
        self._learned = model.shape.positions == "learned"
        self._turns = model.shape.qk_norm or not self._learned
        self._inputs_BT: Tensor | None = None

    @property
    def _rotation(self) -> Rotation | None:
        return None if self._learned else (self.model.get_buffer("cos_TK"), self.model.get_buffer("sin_TK"))

    def _embed(self, inputs_BT: Tensor) -> Tensor:
        self._inputs_BT = inputs_BT
        positions = self.model.positions.weight if self._learned else None
        return self.k.embed(self.model.tokens.weight, positions, inputs_BT, self.plan.residual)

    def _embed_backward(self, dx: Tensor, inputs_BT: Tensor) -> None:
        positions = gradient_of(self.model.positions) if self._learned else None
        self.k.embed_backward(dx, inputs_BT, gradient_of(self.model.tokens), positions)

    def _attend(self, block: Block, qkv: Tensor, sequences: int) -> Attended:
        modern = cast(ModernBlock, block)
        before = None if modern.values is None else self._mix(modern, qkv)
        rstd = self._apply_rope(qkv) if self._turns else None
        return _Turned(self, modern, qkv, before, rstd, super()._attend(block, qkv, sequences))

    def _mix(self, block: ModernBlock, qkv: Tensor) -> Tensor:
        return self.k.mix_values_(qkv, *self._mixed(block))

    def _mixed(self, block: ModernBlock) -> tuple[Tensor, Tensor, Tensor]:
        """The table, the tokens and the shares."""
        assert self._inputs_BT is not None
        assert block.attention.value_shares is not None
        table = self.flat.half(self._table(block).weight)
        return table, self._inputs_BT.flatten(), block.attention.value_shares

    def _table(self, block: ModernBlock) -> nn.Embedding:
        assert block.values is not None
        return cast(nn.Embedding, self.model.values[block.values])

    def _apply_rope(self, qkv: Tensor) -> Tensor:
        assert self._inputs_BT is not None
        shape = self.model.shape
        return self.k.apply_rope_(
            qkv, shape.n_head, self._inputs_BT.shape[1], self._rotation, shape.qk_norm, NORM_EPS
        )

    def turn_back(self, turned: "_Turned", dqkv: Tensor) -> None:
        """From the gradient of what attention was given to that of the projection's output, in place."""
        shape, block = self.model.shape, turned.block
        if turned.rstd is not None:
            assert self._inputs_BT is not None
            T = self._inputs_BT.shape[1]
            self.k.apply_rope_backward_(
                dqkv, turned.qkv, turned.rstd, shape.n_head, T, self._rotation, shape.qk_norm
            )
        if turned.before is not None:
            table, inputs, shares = self._mixed(block)
            gradients = gradient_of(self._table(block)), shares.grad
            self.k.mix_values_backward_(dqkv, turned.before, table, inputs, shares, *gradients)

    def _activate(self, up: Tensor, slot: Fp8Slot | None) -> Tensor:
        if self.model.shape.activation == "gelu":
            return super()._activate(up, slot)
        return self.k.relu2(up, slot)

    def _activate_backward_(
        self, up: Tensor, dup: Tensor, again: bool, slot: Fp8Slot | None
    ) -> Tensor | None:
        if self.model.shape.activation == "gelu":
            return super()._activate_backward_(up, dup, again, slot)
        return self.k.relu2_backward_(up, dup, again, slot)


@dataclass(frozen=True)
class _Turned:
    """An attention whose queries, keys and values were changed in place before it ran."""

    step: ModernStep
    block: ModernBlock
    qkv: Tensor
    before: Tensor | None
    """Its values before a value embedding was mixed in."""
    rstd: Tensor | None
    inner: Attended

    @property
    def out(self) -> Tensor:
        return self.inner.out

    def backward(self, dout_NC: Tensor) -> Tensor:
        dqkv = self.inner.backward(dout_NC)
        self.step.turn_back(self, dqkv)
        return dqkv
