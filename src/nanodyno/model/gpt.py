"""GPT-2 as published: learned positions, pre-norm blocks, output head tied to the token embedding.

Shapes by suffix: B batch, T positions, C width (n_embd), H heads, K head size, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanodyno.config import ModelShape
from nanodyno.model.attention import BACKENDS, Attend
from nanodyno.model.loss import head_loss

INIT_STD = 0.02
NORM_EPS = 1e-5
GELU_FORMS = {"exact": "none", "tanh": "tanh"}


class Norm(nn.Module):
    """LayerNorm with an optional bias."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x_BTC: Tensor) -> Tensor:
        return F.layer_norm(x_BTC, self.weight.shape, self.weight, self.bias, NORM_EPS)


class RmsNorm(nn.RMSNorm):
    """Of later models (modern.py); in the precision of its weight, whatever the stream has."""

    bias = None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


class Attention(nn.Module):
    """Causal self-attention over all heads at once."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.n_head = shape.n_head
        self.dropout = shape.dropout
        self.attend: Attend | None = None
        """None is torch's own choice; dropout needs that one."""
        self.qkv = nn.Linear(shape.n_embd, 3 * shape.n_embd, bias=shape.bias)
        self.out = nn.Linear(shape.n_embd, shape.n_embd, bias=shape.bias)

    def forward(self, x_BTC: Tensor) -> Tensor:
        B, T, C = x_BTC.shape
        q_BHTK, k_BHTK, v_BHTK = (
            part.view(B, T, self.n_head, -1).transpose(1, 2) for part in self.qkv(x_BTC).split(C, dim=2)
        )
        if self.attend is not None and self.training:
            y_BHTK = self.attend(q_BHTK, k_BHTK, v_BHTK)
        else:
            y_BHTK = F.scaled_dot_product_attention(
                q_BHTK, k_BHTK, v_BHTK, dropout_p=self.dropout if self.training else 0.0, is_causal=True
            )
        y_BTC = y_BHTK.transpose(1, 2).reshape(B, T, C)
        return F.dropout(self.out(y_BTC), self.dropout, self.training)


class Mlp(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.gelu_form = GELU_FORMS[shape.gelu]
        self.up = nn.Linear(shape.n_embd, 4 * shape.n_embd, bias=shape.bias)
        self.down = nn.Linear(4 * shape.n_embd, shape.n_embd, bias=shape.bias)

    def forward(self, x_BTC: Tensor) -> Tensor:
        hidden = F.gelu(self.up(x_BTC), approximate=self.gelu_form)
        return F.dropout(self.down(hidden), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.norm_attention = Norm(shape.n_embd, shape.bias)
        self.attention = Attention(shape)
        self.norm_mlp = Norm(shape.n_embd, shape.bias)
        self.mlp = Mlp(shape)

    def forward(self, x_BTC: Tensor) -> Tensor:
        x_BTC = x_BTC + self.attention(self.norm_attention(x_BTC))
        return x_BTC + self.mlp(self.norm_mlp(x_BTC))


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


class GPT(nn.Module):
    """Training calls `forward`: the mean loss alone, so that no compiled graph keeps logits as an output."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.loss_chunk_size: int | None = None
        """Positions whose logits training has in memory at once; None is all of them."""
        self._build(shape)
        self._initialise()

    def _build(self, shape: ModelShape) -> None:
        self.tokens = nn.Embedding(shape.vocab_size, shape.n_embd)
        self.positions = nn.Embedding(shape.block_size, shape.n_embd)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.n_layer))
        self.norm = Norm(shape.n_embd, shape.bias)

    def forward(self, inputs_BT: Tensor, targets_BT: Tensor, rows: int | None = None) -> Tensor:
        """Mean cross-entropy in nats; with `rows`, its sum, the head on that many positions at a time."""
        hidden = self.hidden(inputs_BT)
        if rows is None and self.loss_chunk_size is not None:
            cap = self.shape.logit_softcap
            return head_loss(
                hidden.flatten(0, 1), self.head_VC, targets_BT.flatten(), self.loss_chunk_size, cap
            )
        if rows is None:
            return F.cross_entropy(self.logits(hidden).flatten(0, 1), targets_BT.flatten())
        losses = [
            F.cross_entropy(self.logits(part).float(), goal, reduction="sum")
            for part, goal in zip(
                hidden.flatten(0, 1).split(rows), targets_BT.flatten().split(rows), strict=True
            )
        ]
        return torch.stack(losses).to(_widest(hidden.device)).sum()

    @property
    def head_layer(self) -> nn.Embedding | nn.Linear:
        """Whose weight makes logits."""
        return self.tokens

    @property
    def head_VC(self) -> Tensor:  # noqa: N802 - a shape by its suffix
        return self.head_layer.weight

    def use_attention(self, name: str) -> None:
        """A backend of attention.py for training."""
        for block in self.blocks:
            assert isinstance(block, Block)
            block.attention.attend = None if name == "torch" else BACKENDS[name]

    def hidden(self, inputs_BT: Tensor) -> Tensor:
        """The residual stream after the last norm."""
        positions_T = torch.arange(inputs_BT.shape[1], device=inputs_BT.device)
        x_BTC = self.tokens(inputs_BT) + self.positions(positions_T)
        x_BTC = F.dropout(x_BTC, self.shape.dropout, self.training)
        for block in self.blocks:
            x_BTC = block(x_BTC)
        return self.norm(x_BTC)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.head_VC)

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                nn.init.normal_(parameter, std=self._start(name))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def _start(self, name: str) -> float:
        """Normal(0, 0.02); what writes into the residual stream is scaled by its depth, 1/sqrt(2 L)."""
        if name == "tokens.weight":
            return self.shape.embedding_init
        if name.endswith(("attention.out.weight", "mlp.down.weight")):
            return 0.0 if self.shape.zero_init else INIT_STD / math.sqrt(2 * self.shape.n_layer)
        return INIT_STD
