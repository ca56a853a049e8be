"""Triton's mixture of values and token embeddings in the interpreter, against its twin in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model.kernels import plain

HALF = torch.bfloat16
VOCABULARY = 7
SHARES = torch.tensor([0.75, -1.5])

Draw = Callable[..., Tensor]
Near = Callable[..., None]
Interpreted = Callable[..., tuple[Any, tuple[Any, ...]]]

every_size = pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 48), (4, 33), (9, 80)])
either_precision = pytest.mark.parametrize("dtype", [torch.float32, HALF])


def tokens(rows: int) -> Tensor:
    """Some of them the same."""
    return torch.tensor([6, 0, 6, 6, 3, 1, 0, 2, 6])[:rows]


@either_precision
@every_size
def test_values_become_their_shares_and_what_they_were_is_returned(
    interpreted: Interpreted, assert_near: Near, draw: Draw, rows: int, width: int, dtype: torch.dtype
) -> None:
    qkv, table = draw(rows, 3 * width, dtype=dtype), draw(VOCABULARY, width, dtype=dtype)
    before, left = interpreted("values.mix_values_", qkv, table, tokens(rows), SHARES)
    want = qkv.double()
    plain.mix_values_(want, table.double(), tokens(rows), SHARES.double())
    assert before.equal(qkv[:, 2 * width :])
    assert left[0][:, : 2 * width].equal(qkv[:, : 2 * width])
    assert_near(left[0], want)


@either_precision
@every_size
def test_gradients_are_the_float64_ones_and_added_to_what_is_there(
    interpreted: Interpreted, assert_near: Near, draw: Draw, rows: int, width: int, dtype: torch.dtype
) -> None:
    dqkv, before = draw(rows, 3 * width, dtype=dtype), draw(rows, width, dtype=dtype)
    table, at = draw(VOCABULARY, width, dtype=dtype), tokens(rows)
    table_grad, shares_grad = draw(VOCABULARY, width), draw(2)
    _, left = interpreted(
        "values.mix_values_backward_", dqkv, before, table, at, SHARES, table_grad, shares_grad
    )
    want = dqkv.double(), before.double(), table.double(), table_grad.double(), shares_grad.double()
    plain.mix_values_backward_(want[0], want[1], want[2], at, SHARES.double(), want[3], want[4])
    assert left[0][:, : 2 * width].equal(dqkv[:, : 2 * width])
    assert_near(left[0], want[0])
    assert_near(left[5], want[3])
    assert_near(left[6], want[4], scale=rows * width)


def test_two_rows_of_one_token_by_hand(interpreted: Interpreted) -> None:
    # 0.5 * 8 + 2 * 3 and 0.5 * 4 + 2 * 3; gradients 1 and 10 give 1 * 8 + 10 * 4 and 1 * 3 + 10 * 3.
    qkv, table = torch.tensor([[1.0, 2.0, 8.0], [1.0, 2.0, 4.0]]), torch.tensor([[5.0], [3.0]])
    at, shares = torch.tensor([1, 1]), torch.tensor([0.5, 2.0])
    before, left = interpreted("values.mix_values_", qkv, table, at, shares)
    assert left[0].tolist() == [[1, 2, 10], [1, 2, 8]]
    dqkv = torch.tensor([[7.0, 7.0, 1.0], [7.0, 7.0, 10.0]])
    _, left = interpreted(
        "values.mix_values_backward_", dqkv, before, table, at, shares, torch.zeros(2, 1), torch.zeros(2)
    )
    assert left[0].tolist() == [[7, 7, 0.5], [7, 7, 5]]
    assert left[5].tolist() == [[0], [22]]
    assert left[6].tolist() == [48, 33]
