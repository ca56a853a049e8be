"""Init, tying, causality and dropout of the GPT."""

import random
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from nanodyno.config import ModelShape
from nanodyno.costs.parameters import parameters
from nanodyno.model.gpt import GPT

Shapes = Callable[..., ModelShape]
Models = Callable[..., GPT]
Tokens = Callable[..., torch.Tensor]


def test_matrices_start_at_0_02_and_those_into_the_residual_stream_are_scaled_by_depth(shape: Shapes) -> None:
    # 8 layers add 16 times to the residual stream: 0.02 / sqrt(16) = 0.005.
    model = GPT(shape(n_layer=8, n_embd=128, block_size=64, vocab_size=256))
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            continue
        expected = 0.005 if name.endswith(("out.weight", "down.weight")) else 0.02
        assert parameter.std().item() == pytest.approx(expected, rel=0.05), name
        assert abs(parameter.mean().item()) < 0.05 * expected, name


def test_norms_start_at_one_and_biases_at_zero(shape: Shapes) -> None:
    vectors = {name: p for name, p in GPT(shape()).named_parameters() if p.ndim == 1}
    # In each of 2 layers: weight and bias of 2 norms, biases of 4 linear layers. Then the last norm.
    assert len(vectors) == 2 * (2 * 2 + 4) + 2
    for name, vector in vectors.items():
        assert (vector == (0.0 if name.endswith("bias") else 1.0)).all(), name


def test_the_seed_alone_decides_the_weights(shape: Shapes) -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(torch.cat([p.flatten() for p in GPT(shape()).parameters()]))
    assert drawn[0].equal(drawn[1])
    assert not drawn[0].equal(drawn[2])


def test_without_bias_no_parameter_is_called_bias(shape: Shapes) -> None:
    assert not [name for name, _ in GPT(shape(bias=False)).named_parameters() if "bias" in name]


@pytest.mark.parametrize("seed", range(6))
def test_the_model_has_as_many_parameters_as_costs_says(seed: int) -> None:
    draw = random.Random(seed)
    n_head = draw.randint(1, 4)
    shape = ModelShape(
        n_layer=draw.randint(1, 5),
        n_head=n_head,
        n_embd=n_head * draw.randint(2, 9),
        block_size=draw.randint(1, 40),
        vocab_size=draw.randint(2, 100),
        bias=bool(seed % 2),
        dropout=0.0,
        gelu="exact",
    )
    model = GPT(shape)
    assert sum(p.numel() for p in model.parameters()) == parameters(shape).total
    linears = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert sum(w.numel() for w in [*linears, model.tokens.weight]) == parameters(shape).matmul_weights


def test_the_tied_head_gets_the_gradient_of_both_uses(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    model = drawn_model(shape())
    inputs, targets = tokens(), tokens(seed=6)
    model(inputs, targets).backward()
    tied = model.tokens.weight.grad
    model.zero_grad()

    head = model.tokens.weight.detach().clone().requires_grad_()
    logits = model.hidden(inputs) @ head.t()
    F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    as_input = model.tokens.weight.grad
    assert tied is not None
    assert as_input is not None
    assert head.grad is not None
    torch.testing.assert_close(tied, as_input + head.grad, rtol=1e-10, atol=1e-14)
    assert as_input.abs().max() > 1e-4
    assert head.grad.abs().max() > 1e-4


def test_a_token_changes_no_logits_before_it_and_those_from_it_on(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    model = drawn_model(shape())
    inputs = tokens(rows=1)
    before = model.logits(model.hidden(inputs))
    for place in range(8):
        changed = inputs.clone()
        changed[0, place] = (changed[0, place] + 1) % 24
        after = model.logits(model.hidden(changed))
        assert after[:, :place].equal(before[:, :place])
        assert ((after[:, place:] - before[:, place:]).abs().amax(-1) > 1e-6).all()


def test_the_loss_is_the_mean_negative_log_probability_of_the_targets(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    model = drawn_model(shape())
    inputs, targets = tokens(), tokens(seed=6)
    logits = model.logits(model.hidden(inputs))
    probabilities = logits.exp() / logits.exp().sum(-1, keepdim=True)
    picked = [probabilities[row, column, targets[row, column]] for row in range(3) for column in range(8)]
    assert model(inputs, targets).item() == pytest.approx(-torch.stack(picked).log().mean().item(), rel=1e-12)


def test_dropout_acts_in_training_only(shape: Shapes, drawn_model: Models, tokens: Tokens) -> None:
    model, without = drawn_model(shape(dropout=0.5)), drawn_model(shape())
    inputs = tokens()
    assert not model.hidden(inputs).equal(model.hidden(inputs))
    model.eval()
    assert model.hidden(inputs).equal(without.hidden(inputs))


def test_dropout_reaches_the_embedding_the_attention_weights_and_both_projections(
    shape: Shapes, drawn_model: Models, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    plain, attention = F.dropout, F.scaled_dot_product_attention
    monkeypatch.setattr(F, "dropout", lambda x, p, on: (shares.append(p if on else 0.0), plain(x, p, on))[1])
    monkeypatch.setattr(
        F,
        "scaled_dot_product_attention",
        lambda *a, dropout_p, is_causal: (
            shares.append(dropout_p),
            attention(*a, dropout_p=dropout_p, is_causal=is_causal),
        )[1],
    )
    drawn_model(shape(dropout=0.25, n_layer=2)).hidden(tokens())
    # After the embeddings; in each of 2 layers the attention weights and what both halves add to the stream.
    assert shares == [0.25] * 7
