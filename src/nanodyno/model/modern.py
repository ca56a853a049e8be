"""GPT with any of the parts that came after GPT-2, each a setting of its own; without any it is GPT-2.

Shapes by suffix as in gpt.py, and G heads of keys and values.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanodyno.config import ModelShape
from nanodyno.model.attention import Attend, band_TT, bind
from nanodyno.model.gpt import GELU_FORMS, GPT, NORM_EPS, Norm, RmsNorm
from nanodyno.model.kernels.plain_modern import Rotation

VALUE_SHARES = (0.5, 0.5)
"""Of attention's own values and of a value embedding, before either is learned."""


def make_model(shape: ModelShape) -> GPT:
    return GPT(shape) if shape.is_gpt2 else ModernGPT(shape)


def make_norm(shape: ModelShape) -> Norm | RmsNorm:
    if shape.norm == "rms":
        return RmsNorm(shape.n_embd, eps=NORM_EPS)
    return Norm(shape.n_embd, shape.bias)


def rotation(shape: ModelShape) -> Rotation:
    """Cosine and sine, T x K/2, of angles position * base^(-2i/K) (Su and others 2021)."""
    half = shape.head_size // 2
    pace = shape.rope_base ** -(torch.arange(half, dtype=torch.float64) / half)
    angles_TK = torch.arange(shape.block_size, dtype=torch.float64)[:, None] * pace
    return angles_TK.cos().float(), angles_TK.sin().float()


def rotated(x_BHTK: Tensor, by: Rotation) -> Tensor:
    """Number i of a head is paired with number i + K/2, as in Llama."""
    T = x_BHTK.shape[2]
    cos, sin = by[0][:T], by[1][:T]
    first, second = x_BHTK.chunk(2, dim=-1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.to(x_BHTK.dtype)


def softcapped(logits: Tensor, cap: float) -> Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cap * torch.tanh(wide / cap)


class ModernAttention(nn.Module):
    """Causal self-attention, over all positions or the last `window` of them."""

    def __init__(self, shape: ModelShape, window: int | None, mixes_values: bool) -> None:
        super().__init__()
        self.shape = shape
        self.window = window
        self.attend: Attend | None = None
        """None is torch's own choice; dropout needs that one."""
        self.qkv = nn.Linear(shape.n_embd, shape.n_embd + 2 * shape.kv_width, bias=shape.bias)
        self.out = nn.Linear(shape.n_embd, shape.n_embd, bias=shape.bias)
        self.value_shares = nn.Parameter(torch.tensor(VALUE_SHARES)) if mixes_values else None

    def forward(self, x_BTC: Tensor, rotation: Rotation | None, values_BTG: Tensor | None) -> Tensor:
        shape = self.shape
        parts = self.qkv(x_BTC).split((shape.n_embd, shape.kv_width, shape.kv_width), dim=2)
        v_BTG = parts[2]
        if self.value_shares is not None and values_BTG is not None:
            own, other = self.value_shares.to(v_BTG.dtype)
            v_BTG = own * v_BTG + other * values_BTG.to(v_BTG.dtype)
        q_BHTK, k_BGTK, v_BGTK = (
            part.unflatten(2, (-1, shape.head_size)).transpose(1, 2) for part in (parts[0], parts[1], v_BTG)
        )
        if shape.qk_norm:
            q_BHTK, k_BGTK = (F.rms_norm(x, (shape.head_size,), eps=NORM_EPS) for x in (q_BHTK, k_BGTK))
        if rotation is not None:
            q_BHTK, k_BGTK = rotated(q_BHTK, rotation), rotated(k_BGTK, rotation)
        y_BTC = self._attended(q_BHTK, k_BGTK, v_BGTK).transpose(1, 2).flatten(2)
        return F.dropout(self.out(y_BTC), shape.dropout, self.training)

    def _attended(self, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> Tensor:
        T = q_BHTK.shape[2]
        if self.attend is not None and self.training:
            return self.attend(q_BHTK, k_BGTK, v_BGTK)
        mask_TT = None if self.window is None or self.window >= T else band_TT(T, self.window, q_BHTK.device)
        return F.scaled_dot_product_attention(
            q_BHTK,
            k_BGTK,
            v_BGTK,
            attn_mask=mask_TT,
            dropout_p=self.shape.dropout if self.training else 0.0,
            is_causal=mask_TT is None,
            enable_gqa=self.shape.kv_heads != self.shape.n_head,
        )


class ModernMlp(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.up = nn.Linear(shape.n_embd, 4 * shape.n_embd, bias=shape.bias)
        self.down = nn.Linear(4 * shape.n_embd, shape.n_embd, bias=shape.bias)

    def forward(self, x_BTC: Tensor) -> Tensor:
        hidden = self.up(x_BTC)
        if self.shape.activation == "relu2":
            hidden = F.relu(hidden)
            hidden = (
                hidden * hidden
            )  # a power would be float32's under a card's autocast, at thrice the memory
        else:
            hidden = F.gelu(hidden, approximate=GELU_FORMS[self.shape.gelu])
        return F.dropout(self.down(hidden), self.shape.dropout, self.training)


class ModernBlock(nn.Module):
    def __init__(self, shape: ModelShape, number: int) -> None:
        super().__init__()
        self.values = shape.value_tables[number]
        self.norm_attention = make_norm(shape)
        self.attention = ModernAttention(shape, shape.windows[number], self.values is not None)
        self.norm_mlp = make_norm(shape)
        self.mlp = ModernMlp(shape)

    def forward(self, x_BTC: Tensor, rotation: Rotation | None, tables: list[Tensor]) -> Tensor:
        values = None if self.values is None else tables[self.values]
        x_BTC = x_BTC + self.attention(self.norm_attention(x_BTC), rotation, values)
        return x_BTC + self.mlp(self.norm_mlp(x_BTC))


class ModernGPT(GPT):
    residual: torch.dtype | None = None
    """Precision of the residual stream in training, where it is another than the embedding's."""

    def _build(self, shape: ModelShape) -> None:
        self.tokens = nn.Embedding(shape.vocab_size, shape.n_embd)
        if shape.positions == "learned":
            self.positions = nn.Embedding(shape.block_size, shape.n_embd)
        else:
            for name, table in zip(("cos_TK", "sin_TK"), rotation(shape), strict=True):
                self.register_buffer(name, table, persistent=False)
        tables = range(shape.value_embeddings)
        self.values = nn.ModuleList(nn.Embedding(shape.vocab_size, shape.kv_width) for _ in tables)
        self.blocks = nn.ModuleList(ModernBlock(shape, number) for number in range(shape.n_layer))
        self.norm = make_norm(shape)
        if shape.untied_head:
            self.head = nn.Linear(shape.n_embd, shape.vocab_size, bias=False)

    @property
    def head_layer(self) -> nn.Embedding | nn.Linear:
        return self.head if self.shape.untied_head else self.tokens

    def use_attention(self, name: str) -> None:
        for block in self.blocks:
            assert isinstance(block, ModernBlock)
            window, device = block.attention.window, self.tokens.weight.device
            own = name == "torch"
            block.attention.attend = None if own else bind(name, self.shape.block_size, window, device)

    def hidden(self, inputs_BT: Tensor) -> Tensor:
        x_BTC = self.tokens(inputs_BT)
        rotation = None
        if self.shape.positions == "rope":
            rotation = self.cos_TK, self.sin_TK
        else:
            x_BTC = x_BTC + self.positions(torch.arange(inputs_BT.shape[1], device=inputs_BT.device))
        x_BTC = F.dropout(x_BTC, self.shape.dropout, self.training)
        if self.residual is not None and self.training:
            x_BTC = x_BTC.to(self.residual)
        tables = [table(inputs_BT) for table in self.values]
        for block in self.blocks:
            x_BTC = block(x_BTC, rotation, tables)
        return self.norm(x_BTC)

    def logits(self, hidden: Tensor) -> Tensor:
        logits = super().logits(hidden)
        return logits if self.shape.logit_softcap is None else softcapped(logits, self.shape.logit_softcap)

    def _start(self, name: str) -> float:
        return 0.0 if name == "head.weight" and self.shape.zero_init else super()._start(name)
