"""The head's loss some rows at a time against torch's own cross-entropy on whole logits in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nanodyno.config import ModelShape
from nanodyno.model.gpt import GPT
from nanodyno.model.loss import head_loss

Shapes = Callable[..., ModelShape]
Models = Callable[..., GPT]
Tokens = Callable[..., Tensor]
Drawn = tuple[Tensor, Tensor, Tensor]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
IGNORED = -100


def drawn(positions: int = 11, width: int = 6, vocabulary: int = 17) -> Drawn:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(positions, width, generator=generator, dtype=torch.float64)
    head = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64)
    return hidden, head, torch.randint(vocabulary, (positions,), generator=generator)


def whole_loss(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, head), targets)


def in_rows(rows: int) -> Loss:
    return lambda hidden, head, targets: head_loss(hidden, head, targets, rows)


def loss_and_gradients(loss: Loss, data: Drawn, weight: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """`weight` is what the loss is multiplied with before the backward pass, and taken out again after it."""
    hidden, head = (tensor.clone().requires_grad_() for tensor in data[:2])
    value = loss(hidden, head, data[2])
    value.backward(gradient=torch.tensor(weight, dtype=value.dtype))
    assert hidden.grad is not None
    assert head.grad is not None
    return value.detach(), hidden.grad / weight, head.grad / weight


@pytest.mark.parametrize("rows", [1, 3, 10, 11, 1000])
def test_value_and_gradients_are_torchs_however_many_rows_at_a_time(rows: int) -> None:
    ours = loss_and_gradients(in_rows(rows), drawn(), weight=0.25)
    for mine, expected in zip(ours, loss_and_gradients(whole_loss, drawn()), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-14)


def test_one_token_has_a_loss_and_a_gradient() -> None:
    # Logits 0 and ln 3: the softmax is 1/4 and 3/4, and the loss of the first is ln 4.
    head = torch.tensor([[0.0], [3.0]]).log().nan_to_num(neginf=0.0)
    loss, dhidden, dhead = loss_and_gradients(in_rows(4), (torch.ones(1, 1), head, torch.tensor([0])))
    torch.testing.assert_close(loss, torch.tensor(4.0).log())
    torch.testing.assert_close(dhidden, 0.75 * torch.tensor([[3.0]]).log())
    torch.testing.assert_close(dhead, torch.tensor([[-0.75], [0.75]]))


def test_ignored_targets_count_neither_in_the_loss_nor_in_the_mean() -> None:
    hidden, head, targets = drawn()
    targets[[0, 4, 5, 6]] = IGNORED  # with 3 rows at a time, some goes have none
    ours = loss_and_gradients(in_rows(3), (hidden, head, targets))
    for mine, expected in zip(ours, loss_and_gradients(whole_loss, (hidden, head, targets)), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-14)
    assert not ours[1][[0, 4, 5, 6]].any()


def test_with_every_target_ignored_loss_and_gradients_are_zero() -> None:
    hidden, head, targets = drawn()
    loss, *gradients = loss_and_gradients(in_rows(3), (hidden, head, torch.full_like(targets, IGNORED)))
    assert loss.item() == 0
    assert not any(gradient.any() for gradient in gradients)


def test_very_large_logits_have_a_finite_loss() -> None:
    # Logits 0 and 1e30: the second token is certain, and the first has a loss of 1e30.
    head, hidden = torch.tensor([[0.0], [1e15]]), torch.full((1, 1), 1e15)
    for target, expected in ((0, 1e30), (1, 0.0)):
        loss, *gradients = loss_and_gradients(in_rows(1), (hidden, head, torch.tensor([target])))
        assert loss.item() == pytest.approx(expected)
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(("half", "weight"), [(torch.bfloat16, 1.0), (torch.float16, 2.0**16)])
def test_under_autocast_the_error_is_no_worse_than_torchs(half: torch.dtype, weight: float) -> None:
    """fp16 has the scaler's first weight: without it, 1 / 600 of 1 / 2048 is left with one digit there."""
    hidden, head, targets = drawn(positions=2048, width=16, vocabulary=600)
    data = (hidden, head / 100, targets % 300)  # half of the vocabulary is seldom likely and never right
    truth = loss_and_gradients(whole_loss, data)
    single = (data[0].float(), data[1].float(), data[2])

    def errors(loss: Loss) -> list[float]:
        with torch.autocast("cpu", half):
            found = loss_and_gradients(loss, single, weight)
        assert [each.dtype for each in found] == [torch.float32] * 3
        pairs = [*zip(found, truth, strict=True), (found[2][300:], truth[2][300:])]
        return [float((mine - exact).norm() / exact.norm()) for mine, exact in pairs]

    for mine, theirs in zip(errors(in_rows(300)), errors(whole_loss), strict=True):
        assert mine <= 1.2 * theirs


@pytest.mark.parametrize("rows", [5, 1000])
def test_a_gpt_with_rows_has_the_loss_and_the_gradients_of_one_without(
    shape: Shapes, drawn_model: Models, tokens: Tokens, rows: int
) -> None:
    usual, ours = drawn_model(shape()), drawn_model(shape())
    ours.loss_chunk_size = rows
    losses = [model(tokens(seed=1), tokens(seed=2)) for model in (usual, ours)]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-12)
    for loss in losses:
        loss.backward()
    for mine, other in zip(ours.parameters(), usual.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-9, atol=1e-12)


def test_an_evaluations_rows_are_its_own(shape: Shapes, drawn_model: Models, tokens: Tokens) -> None:
    usual, ours = drawn_model(shape()), drawn_model(shape())
    ours.loss_chunk_size = 5
    summed = [model(tokens(seed=1), tokens(seed=2), rows=7).item() for model in (usual, ours)]
    assert summed[0] == summed[1]
    assert summed[0] == pytest.approx(24 * usual(tokens(seed=1), tokens(seed=2)).item(), rel=1e-6)


def test_a_named_attention_has_the_loss_of_torchs_choice(
    shape: Shapes, drawn_model: Models, tokens: Tokens
) -> None:
    usual, ours = drawn_model(shape()), drawn_model(shape())
    ours.use_attention("math")
    losses = [model(tokens(seed=1), tokens(seed=2)).item() for model in (usual, ours)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


@pytest.mark.compiled
def test_it_compiles_in_one_piece() -> None:
    hidden, head, targets = drawn()
    data = (hidden.float(), head.float(), targets)
    compiled = torch.compile(in_rows(6), dynamic=False, fullgraph=True)
    expected = loss_and_gradients(whole_loss, data)
    for mine, other in zip(loss_and_gradients(compiled, data), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
