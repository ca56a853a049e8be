"""The same logits and gradients as transformers' GPT-2 from the same weights; nothing is downloaded."""

import os
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
from transformers import GPT2Config, GPT2LMHeadModel

from nanodyno.config import ModelShape
from nanodyno.model.gpt import GPT

LINEAR = {
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "mlp.up": "mlp.c_fc",
    "mlp.down": "mlp.c_proj",
}
NORMS = {"norm_attention": "ln_1", "norm_mlp": "ln_2"}
TOLERANCES = {torch.float64: (1e-10, 1e-12), torch.float32: (1e-4, 1e-5)}


def their_name(ours: str) -> str:
    if ours in ("tokens.weight", "positions.weight"):
        return {"tokens.weight": "transformer.wte.weight", "positions.weight": "transformer.wpe.weight"}[ours]
    module, _, kind = ours.rpartition(".")
    if module == "norm":
        return f"transformer.ln_f.{kind}"
    _, layer, part = module.split(".", maxsplit=2)
    return f"transformer.h.{layer}.{(LINEAR | NORMS)[part]}.{kind}"


def as_theirs(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Their Conv1D holds a linear layer's matrix the other way round."""
    linear = name.endswith(tuple(f"{part}.weight" for part in LINEAR))
    return tensor.t() if linear else tensor


def their_model(ours: GPT) -> GPT2LMHeadModel:
    shape = ours.shape
    config = GPT2Config(
        vocab_size=shape.vocab_size,
        n_positions=shape.block_size,
        n_embd=shape.n_embd,
        n_layer=shape.n_layer,
        n_head=shape.n_head,
        activation_function={"exact": "gelu", "tanh": "gelu_new"}[shape.gelu],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    config._attn_implementation = "eager"  # softmax(q k') v written out, not the kernel that ours calls
    theirs = GPT2LMHeadModel(config)
    torch.nn.Module.to(theirs, ours.tokens.weight.dtype)
    named = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in named.items():
            if name.endswith("bias"):
                parameter.zero_()
        for name, parameter in ours.named_parameters():
            named[their_name(name)].copy_(as_theirs(name, parameter))
    return theirs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("bias", "gelu"), [(True, "tanh"), (False, "exact"), (True, "exact")])
def test_logits_and_gradients_are_those_of_transformers(
    shape: Callable[..., ModelShape],
    drawn_model: Callable[..., GPT],
    tokens: Callable[..., torch.Tensor],
    bias: bool,
    gelu: str,
    dtype: torch.dtype,
) -> None:
    ours = drawn_model(shape(bias=bias, gelu=gelu, n_head=4), dtype)
    theirs = their_model(ours)
    inputs, targets = tokens(), tokens(seed=6)
    rtol, atol = TOLERANCES[dtype]

    their_logits = theirs(inputs).logits
    torch.testing.assert_close(ours.logits(ours.hidden(inputs)), their_logits, rtol=rtol, atol=atol)

    loss = ours(inputs, targets)
    their_loss = F.cross_entropy(their_logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(loss, their_loss, rtol=rtol, atol=atol)

    loss.backward()
    their_loss.backward()
    named = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None
        their_grad = named[their_name(name)].grad
        torch.testing.assert_close(as_theirs(name, parameter.grad), their_grad, rtol=rtol, atol=atol)


def test_every_parameter_of_theirs_is_one_of_ours(
    shape: Callable[..., ModelShape], drawn_model: Callable[..., GPT]
) -> None:
    ours = drawn_model(shape())
    assert {their_name(name) for name, _ in ours.named_parameters()} == {
        name for name, _ in their_model(ours).named_parameters()
    }


def test_a_sequence_shorter_than_the_block_agrees_as_well(
    shape: Callable[..., ModelShape], drawn_model: Callable[..., GPT], tokens: Callable[..., torch.Tensor]
) -> None:
    ours = drawn_model(shape(gelu="tanh"))
    inputs = tokens(columns=3)
    torch.testing.assert_close(
        ours.logits(ours.hidden(inputs)), their_model(ours)(inputs).logits, rtol=1e-10, atol=1e-12
    )
