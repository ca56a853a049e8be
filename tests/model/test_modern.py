"""Every part of the modern block against its formula in float64, written out position by position."""

import cmath
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nanodyno.config import ModelShape
from nanodyno.model.attention import _window_mask, band_TT, bind
from nanodyno.model.gpt import GPT
from nanodyno.model.loss import head_loss
from nanodyno.model.modern import ModernAttention, ModernGPT, ModernMlp, make_model, rotation

PARTS: dict[str, dict[str, Any]] = {
    "rope": {"positions": "rope", "rope_base": 50.0},
    "norm": {"norm": "rms"},
    "activation": {"activation": "relu2"},
    "qk_norm": {"qk_norm": True},
    "shared heads": {"n_kv_head": 2},
    "window": {"window": 3, "window_pattern": "SSL"},
    "values": {"value_embeddings": 1},
    "head": {"untied_head": True},
    "cap": {"logit_softcap": 2.0},
}
ALL = {key: value for part in PARTS.values() for key, value in part.items()}
CLOSE = 1e-6
"""The tables of rope are kept in float32."""


def drawn(shape: ModelShape) -> GPT:
    generator = torch.Generator().manual_seed(3)
    model = ModernGPT(shape).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            middle = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(middle + 0.3 * torch.randn(parameter.shape, generator=generator).double())
    return model


def normed(x: Tensor, p: dict[str, Tensor], name: str, shape: ModelShape) -> Tensor:
    if shape.norm == "rms":
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"]
    centred = x - x.mean(-1, keepdim=True)
    n = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"]
    return n + p[f"{name}.bias"] if f"{name}.bias" in p else n


def head_of(vector: Tensor, position: int, shape: ModelShape) -> Tensor:
    """A query or key of one head as attention meets it: pairs as complex numbers, turned."""
    if shape.qk_norm:
        vector = vector / (vector.square().mean() + 1e-5).sqrt()
    if shape.positions == "learned":
        return vector
    half = shape.head_size // 2
    turned = [
        complex(vector[i], vector[i + half]) * cmath.exp(1j * position * shape.rope_base ** (-i / half))
        for i in range(half)
    ]
    return torch.tensor([z.real for z in turned] + [z.imag for z in turned], dtype=torch.float64)


def attended(n: Tensor, block: int, p: dict[str, Tensor], tokens: Tensor, shape: ModelShape) -> Tensor:
    """Of one sequence, T x C."""
    name, K, C, W = f"blocks.{block}.attention", shape.head_size, shape.n_embd, shape.kv_width
    qkv = n @ p[f"{name}.qkv.weight"].T + p.get(f"{name}.qkv.bias", 0)
    q, k, v = qkv[:, :C], qkv[:, C : C + W], qkv[:, C + W :]
    table = shape.value_tables[block]
    if table is not None:
        own, other = p[f"{name}.value_shares"]
        v = own * v + other * p[f"values.{table}.weight"][tokens]
    out = torch.zeros_like(n)
    window = shape.windows[block] or len(n)
    for head in range(shape.n_head):
        shared = head // (shape.n_head // shape.kv_heads)
        for here in range(len(n)):
            query = head_of(q[here, head * K : (head + 1) * K], here, shape)
            seen = range(max(0, here - window + 1), here + 1)
            keys = torch.stack([head_of(k[j, shared * K : (shared + 1) * K], j, shape) for j in seen])
            weights = (keys @ query / math.sqrt(K)).softmax(0)
            out[here, head * K : (head + 1) * K] = weights @ v[list(seen), shared * K : (shared + 1) * K]
    return out @ p[f"{name}.out.weight"].T + p.get(f"{name}.out.bias", 0)


def logits_of(model: GPT, tokens: Tensor) -> Tensor:
    """Of one sequence, T x V."""
    shape, p = model.shape, {name: each.detach() for name, each in model.named_parameters()}
    x = p["tokens.weight"][tokens]
    if shape.positions == "learned":
        x = x + p["positions.weight"][: len(tokens)]
    for block in range(shape.n_layer):
        name = f"blocks.{block}"
        x = x + attended(normed(x, p, f"{name}.norm_attention", shape), block, p, tokens, shape)
        up = normed(x, p, f"{name}.norm_mlp", shape) @ p[f"{name}.mlp.up.weight"].T
        up = up + p.get(f"{name}.mlp.up.bias", 0)
        bent = up.clamp(min=0) ** 2 if shape.activation == "relu2" else up * (1 + torch.erf(up / 2**0.5)) / 2
        x = x + bent @ p[f"{name}.mlp.down.weight"].T + p.get(f"{name}.mlp.down.bias", 0)
    head = p["head.weight"] if shape.untied_head else p["tokens.weight"]
    logits = normed(x, p, "norm", shape) @ head.T
    cap = shape.logit_softcap
    return logits if cap is None else cap * torch.tanh(logits / cap)


@pytest.mark.parametrize("name", [*PARTS, "none", "all"])
def test_each_part_alone_and_all_together_are_their_formulas(
    name: str, shape: Callable[..., ModelShape], tokens: Callable[..., Tensor]
) -> None:
    parts = {"none": {}, "all": ALL}.get(name) if name in ("none", "all") else PARTS[name]
    model = drawn(shape(n_layer=3, n_head=4, **(parts or {})))
    inputs = tokens(rows=1, columns=7)
    expected = logits_of(model, inputs[0])
    torch.testing.assert_close(model.logits(model.hidden(inputs))[0], expected, rtol=CLOSE, atol=CLOSE)
    model.eval()
    torch.testing.assert_close(model.logits(model.hidden(inputs))[0], expected, rtol=CLOSE, atol=CLOSE)


def test_without_any_part_it_is_gpt2_to_the_bit(
    shape: Callable[..., ModelShape], tokens: Callable[..., Tensor]
) -> None:
    torch.manual_seed(1)
    plain = make_model(shape())
    torch.manual_seed(1)
    modern = ModernGPT(shape())
    assert type(plain) is GPT
    assert torch.equal(plain(tokens(), tokens()), modern(tokens(), tokens()))


@pytest.mark.parametrize("parts", [{}, ALL], ids=["none", "all"])
def test_a_loss_by_rows_and_an_evaluation_are_the_whole_loss(
    parts: dict[str, Any], shape: Callable[..., ModelShape], tokens: Callable[..., Tensor]
) -> None:
    model = drawn(shape(n_layer=3, n_head=4, **parts))
    inputs, targets = tokens(seed=1), tokens(seed=2)
    whole = model(inputs, targets)
    whole.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert set(gradients) == {name for name, _ in model.named_parameters()}
    model.zero_grad()
    model.loss_chunk_size = 5
    by_rows = model(inputs, targets)
    by_rows.backward()
    torch.testing.assert_close(by_rows, whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(model(inputs, targets, rows=7) / 24, whole, rtol=1e-6, atol=0)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-9, atol=1e-12)


def test_the_gradient_of_a_capped_loss_is_its_difference_quotient() -> None:
    generator = torch.Generator().manual_seed(4)
    hidden = (3 * torch.randn(5, 4, generator=generator)).double().requires_grad_()
    head = torch.randn(6, 4, generator=generator).double().requires_grad_()
    targets = torch.tensor([0, 5, -100, 2, 2])
    assert torch.autograd.gradcheck(lambda h, w: head_loss(h, w, targets, 2, 1.5), (hidden, head))
    plain = F.cross_entropy(1.5 * torch.tanh(hidden @ head.T / 1.5), targets)
    torch.testing.assert_close(head_loss(hidden, head, targets, 2, 1.5), plain, rtol=1e-12, atol=0)


def test_logits_stay_within_the_cap(shape: Callable[..., ModelShape], tokens: Callable[..., Tensor]) -> None:
    logits = {}
    for cap in (None, 0.5):
        model = drawn(shape(logit_softcap=cap))
        logits[cap] = model.logits(model.hidden(tokens())).abs().max().item()
    assert logits[None] > 2
    assert logits[0.5] <= 0.5


def test_relu_squared_is_no_power_which_a_gpus_autocast_would_widen(
    shape: Callable[..., ModelShape],
) -> None:
    """On a CPU it would not, so that nothing but the operation shows it here."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        ModernMlp(shape(activation="relu2"))(torch.ones(2, 3, 16))
    called = {event.key for event in profile.key_averages()}
    assert "aten::relu" in called
    assert "aten::pow" not in called


def test_attention_with_shared_heads_and_rope_is_llamas(shape: Callable[..., ModelShape]) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = pytest.importorskip("transformers").LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
        rope_parameters={"rope_type": "default", "rope_theta": 700.0}, attn_implementation="eager",
    )  # fmt: skip
    ours = shape(
        n_embd=32, n_head=4, n_kv_head=2, block_size=16, bias=False, positions="rope", rope_base=700.0
    )
    torch.manual_seed(2)
    theirs = llama.LlamaAttention(config, layer_idx=0)
    attention = ModernAttention(ours, None, False)
    parts = (theirs.q_proj, theirs.k_proj, theirs.v_proj)
    with torch.no_grad():
        attention.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
        attention.out.weight.copy_(theirs.o_proj.weight)
    x = torch.randn(2, 9, 32)
    turns = llama.LlamaRotaryEmbedding(config)(x, torch.arange(9)[None])
    mask = torch.full((9, 9), float("-inf")).triu(1)[None, None]
    expected = theirs(x, position_embeddings=turns, attention_mask=mask)[0]
    torch.testing.assert_close(attention(x, rotation(ours), None), expected, rtol=1e-4, atol=1e-5)


def test_rms_norm_is_llamas(shape: Callable[..., ModelShape]) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    theirs = llama.LlamaRMSNorm(16, eps=1e-5)
    model = ModernGPT(shape(norm="rms"))
    x = 5 * torch.randn(3, 16, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        for weight in (model.norm.weight, theirs.weight):
            weight.copy_(torch.linspace(0.5, 2, 16))
    torch.testing.assert_close(model.norm(x), theirs(x))


def test_projections_and_an_untied_head_begin_at_zero(shape: Callable[..., ModelShape]) -> None:
    starts = dict(ModernGPT(shape(zero_init=True, untied_head=True, embedding_init=0.7)).named_parameters())
    zeros = {name for name, p in starts.items() if p.ndim == 2 and not p.any()}
    assert zeros == {
        "head.weight",
        *(f"blocks.{n}.{part}.weight" for n in (0, 1) for part in ("attention.out", "mlp.down")),
    }
    assert starts["tokens.weight"].std().item() == pytest.approx(0.7, 0.15)
    assert starts["positions.weight"].std().item() == pytest.approx(0.02, 0.3)
    assert not GPT(shape(zero_init=True)).blocks[1].mlp.down.weight.any()  # pyright: ignore


def test_a_window_is_the_same_in_a_mask_a_block_mask_and_a_backend() -> None:
    band = band_TT(6, 2, torch.device("cpu"))
    assert [row.nonzero().flatten().tolist() for row in band] == [[0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    at = torch.arange(6)
    in_flex = _window_mask(6, 2, torch.device("cpu")).mask_mod(0, 0, at[:, None], at[None])
    assert torch.equal(in_flex, band)
    q, k, v = torch.randn(3, 1, 2, 6, 4).unbind()
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=band)
    torch.testing.assert_close(bind("math", 6, 2, torch.device("cpu"))(q, k, v), expected)
    assert bind("math", 6, 6, torch.device("cpu")) is bind("math", 6, None, torch.device("cpu"))
