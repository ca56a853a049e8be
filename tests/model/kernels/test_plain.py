"""The kernels in plain torch, in float64, against torch's own autograd."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nanodyno.model.kernels import plain

EPS = 1e-5
CPU = torch.device("cpu")

Draw = Callable[..., Tensor]


def leaf(tensor: Tensor) -> Tensor:
    return tensor.double().requires_grad_()


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_the_norm_and_its_backward_pass_are_layer_norm_and_autograd(
    bias: bool, added: bool, draw: Draw
) -> None:
    x, dn, dx_after = draw(5, 12).double(), draw(5, 12).double(), draw(5, 12).double()
    y = draw(5, 12).double() if added else None
    weight, offset = leaf(draw(12)), leaf(draw(12)) if bias else None
    total = (x if y is None else x + y).detach().requires_grad_()
    normed = F.layer_norm(total, (12,), weight, offset, EPS)
    (normed * dn + total * dx_after).sum().backward()

    with torch.no_grad():
        out, n, mean, rstd = plain.add_norm(x, y, weight, offset, torch.float64, EPS)
        torch.testing.assert_close(out, total.detach())
        torch.testing.assert_close(n, normed.detach())
        rows = plain.partial_rows(CPU, 12, torch.float32)
        weight_partial = torch.ones(rows, 12, dtype=torch.float64)
        bias_partial = torch.ones_like(weight_partial) if bias else None
        dx, half, again = plain.norm_backward(
            dn, out, mean, rstd, weight, offset, dx_after, weight_partial, bias_partial, True
        )
    torch.testing.assert_close(dx, gradient(total))
    torch.testing.assert_close(half, gradient(total))
    torch.testing.assert_close(again, normed.detach())
    torch.testing.assert_close(weight_partial.sum(0), gradient(weight) + rows)
    if offset is not None and bias_partial is not None:
        torch.testing.assert_close(bias_partial.sum(0), gradient(offset) + rows)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("again", [False, True])
def test_gelu_leaves_its_gradient_and_when_asked_its_output(
    approximate: str, again: bool, draw: Draw
) -> None:
    u, dg = leaf(3 * draw(40)), draw(40).double()
    out = F.gelu(u, approximate=approximate)
    out.backward(dg)
    left = u.detach().clone()
    plain.gelu_backward_(left, dg, approximate, again)
    torch.testing.assert_close(dg, gradient(u))
    torch.testing.assert_close(left, out.detach() if again else u.detach())


@pytest.mark.parametrize("targets", [[3, 0, 8, 2], [-100, 4, -100, 8], [-100] * 4])
def test_cross_entropy_leaves_each_rows_loss_and_the_gradient_of_their_mean(
    targets: list[int], draw: Draw
) -> None:
    logits, goals = leaf(draw(4, 9)), torch.tensor(targets)
    counted = max(sum(target != plain.IGNORED for target in targets), 1)
    each = F.cross_entropy(logits, goals, reduction="none", ignore_index=plain.IGNORED)
    (0.25 * each.sum() / counted).backward()
    changed, losses = logits.detach().clone(), torch.empty(4, dtype=torch.float64)
    plain.cross_entropy_(changed, goals, torch.tensor(0.25 / counted, dtype=torch.float64), losses)
    torch.testing.assert_close(losses, each.detach())
    torch.testing.assert_close(changed, gradient(logits))


def test_the_embedding_adds_positions_and_its_gradient_is_added_to_what_is_there(draw: Draw) -> None:
    tokens, positions = leaf(draw(7, 4)), leaf(draw(6, 4))
    inputs, dx = torch.tensor([[1, 1, 5], [0, 1, 6]]), draw(6, 4).double()
    x = F.embedding(inputs, tokens) + positions[:3]
    x.flatten(0, 1).backward(dx)
    tokens_grad, positions_grad = (torch.ones_like(each.detach()) for each in (tokens, positions))
    plain.embed_backward(dx, inputs, tokens_grad, positions_grad)
    torch.testing.assert_close(
        plain.embed(tokens.detach(), positions.detach(), inputs, torch.float64), x.detach().flatten(0, 1)
    )
    torch.testing.assert_close(tokens_grad, gradient(tokens) + 1)
    torch.testing.assert_close(positions_grad, gradient(positions) + 1)
