"""Muon's step against the polynomial of singular values in float64, and against torch's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.config import ModelShape, RunConfig, build_config
from nanodyno.model.batched import WithAdamW, make_optimizer, shapes_of_moments
from nanodyno.model.gpt import GPT
from nanodyno.model.modern import ModernGPT
from nanodyno.model.muon import Muon, orthogonalised, scale_of
from nanodyno.model.optimizer import CautiousAdamW, set_learning_rate


def by_singular_values(matrix: Tensor) -> Tensor:
    """Five times s -> 3.4445 s - 4.7750 s^3 + 2.0315 s^5, from singular values whose squares sum to 1."""
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    s = s / s.square().sum().sqrt()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ vh


def draw(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("sizes", [(12, 12), (24, 8), (6, 30)])
def test_newton_schulz_is_a_polynomial_of_the_singular_values(sizes: tuple[int, int]) -> None:
    stack = draw(3, *sizes)
    found = orthogonalised(stack)
    for matrix, ours in zip(stack, found, strict=True):
        torch.testing.assert_close(ours, by_singular_values(matrix), rtol=1e-9, atol=1e-11)
        values = torch.linalg.svdvals(ours)
        assert 0.6 < values.min() < values.max() < 1.3  # roughly orthogonal


def test_a_matrix_of_zeros_stays_one() -> None:
    assert not orthogonalised(torch.zeros(2, 4, 3)).any()


def one_matrix(rows: int, columns: int, cautious: bool = False, decay: float = 0.0, rate: float = 0.1) -> Any:
    weights = torch.nn.Parameter(draw(rows, columns, seed=9))
    settings = {"optimizer": "muon", "muon_lr": rate, "muon_momentum": 0.8, "weight_decay": decay}
    config = build_config(settings | {"cautious_decay": cautious})
    return weights, Muon({"blocks.0.mlp.up.weight": weights}, config, compiles=False)


@pytest.mark.parametrize("cautious", [False, True])
def test_two_steps_are_momentum_nesterov_decay_and_scale(cautious: bool) -> None:
    weights, optimizer = one_matrix(6, 10, cautious, decay=0.5)
    expected, momentum = weights.detach().clone(), torch.zeros(6, 10, dtype=torch.float64)
    for count in (1, 2):
        gradient = draw(6, 10, seed=count)
        weights.grad = gradient.clone()
        optimizer.step()
        momentum = 0.8 * momentum + 0.2 * gradient
        update = by_singular_values(0.2 * gradient + 0.8 * momentum)
        shrinks = (update * expected > 0).double() if cautious else 1.0
        expected = expected - 0.1 * 0.5 * shrinks * expected - 0.1 * 0.2 * 10**0.5 * update
    torch.testing.assert_close(weights.detach(), expected, rtol=1e-9, atol=1e-11)


def test_a_step_is_that_of_torchs_muon_as_far_as_its_bf16_goes() -> None:
    weights, ours = one_matrix(16, 48, decay=0.3)
    twin = torch.nn.Parameter(weights.detach().clone())
    theirs = torch.optim.Muon([twin], lr=0.1, weight_decay=0.3, momentum=0.8, adjust_lr_fn="match_rms_adamw")
    before = weights.detach().clone()
    for count in (1, 2, 3):
        weights.grad, twin.grad = (draw(16, 48, seed=count) for _ in range(2))
        ours.step()
        theirs.step()
    apart = (weights - twin).norm() / (twin - before).norm()
    assert 0 < apart < 0.02


def test_a_step_has_a_fifth_of_the_learning_rate_as_its_root_mean_square() -> None:
    weights, optimizer = one_matrix(64, 64, rate=0.01)
    before = weights.detach().clone()
    weights.grad = draw(64, 64)
    optimizer.step()
    assert (weights - before).square().mean().sqrt().item() == pytest.approx(0.2 * 0.01, 0.2)
    assert scale_of(64, 256) == scale_of(256, 64) == pytest.approx(3.2)


CONFIG: dict[str, Any] = {
    "optimizer": "muon", "learning_rate": 0.01, "muon_lr": 0.05, "embedding_lr": 0.2, "weight_decay": 0.3,
    "untied_head": True,
}  # fmt: skip


def modern(shape: Callable[..., ModelShape], **changes: Any) -> tuple[GPT, RunConfig, Any]:
    model = ModernGPT(shape(n_head=4, n_kv_head=2, untied_head=True, value_embeddings=1)).double()
    config = build_config(CONFIG | changes)
    return model, config, make_optimizer(model, config)


def test_muon_takes_the_matrices_of_the_blocks_and_adamw_the_rest(shape: Callable[..., ModelShape]) -> None:
    model, _, optimizer = modern(shape)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates: dict[float, set[str]] = {}
    for group in optimizer.param_groups:
        rates.setdefault(group["lr"], set()).update(names[id(p)] for p in group["params"])
    parts = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
    assert rates[0.05] == {f"blocks.{n}.{part}.weight" for n in (0, 1) for part in parts}
    assert rates[0.2] == {"tokens.weight", "values.0.weight"}
    assert sum(map(len, rates.values())) == len(names)
    decays = {names[id(p)]: g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert decays["head.weight"] == decays["blocks.0.mlp.up.weight"] == 0.3
    assert decays["tokens.weight"] * 0.2 == pytest.approx(0.3 * 0.01)  # as much of it as with learning_rate
    assert decays["norm.weight"] == decays["blocks.0.attention.value_shares"] == 0.0


@pytest.mark.parametrize("tables", [0, 1])
def test_a_table_that_is_the_head_too_has_the_heads_rate(
    shape: Callable[..., ModelShape], tables: int
) -> None:
    model = ModernGPT(shape(value_embeddings=tables))
    settings = {"embedding_lr": 0.2, "learning_rate": 0.01, "value_embeddings": tables}
    optimizer = make_optimizer(model, build_config(settings))
    rates = {id(parameter): group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    assert rates[id(model.tokens.weight)] == 0.01
    assert [rates[id(table.weight)] for table in model.values] == [0.2] * tables


def test_a_group_of_its_own_rate_follows_the_schedule(shape: Callable[..., ModelShape]) -> None:
    _, _, optimizer = modern(shape)
    set_learning_rate(optimizer, 0.005)  # half of its peak
    assert {round(group["lr"], 12) for group in optimizer.param_groups} == {0.005, 0.025, 0.1}


def test_q_k_and_v_are_three_matrices(shape: Callable[..., ModelShape]) -> None:
    """Of 16, 8 and 8 rows, where two heads of four have keys and values."""
    model, _, optimizer = modern(shape, weight_decay=0.0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = draw(*parameter.shape, seed=number)
    optimizer.step()
    for number, (name, parameter) in enumerate(model.named_parameters()):
        moved = before[name] - parameter.detach()
        if name.endswith("qkv.weight"):
            gradient = draw(*parameter.shape, seed=number)
            parts = [by_singular_values(part) for part in gradient.split((16, 8, 8))]
            torch.testing.assert_close(moved, 0.05 * 0.2 * 4 * torch.cat(parts), rtol=1e-8, atol=1e-10)
        expected = shapes_of_moments(optimizer, parameter)
        assert {key: value.shape for key, value in optimizer.state[parameter].items()} == expected


def test_muon_refuses_what_is_no_matrix() -> None:
    vector = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match="2D"):
        Muon({"norm.weight": vector}, build_config({"optimizer": "muon"}), compiles=False)


def test_cautious_adamw_decays_only_where_the_update_shrinks_a_weight() -> None:
    weights = torch.nn.Parameter(draw(4, 5, seed=7))
    group = {"params": [weights], "weight_decay": 0.0, "cautious_decay": 0.4}
    optimizer = CautiousAdamW([group], lr=0.05, betas=(0.8, 0.9), eps=1e-8, fused=True)
    expected = weights.detach().clone()
    first, second = torch.zeros_like(expected), torch.zeros_like(expected)
    for count in (1, 2, 3):
        g = draw(4, 5, seed=count)
        weights.grad = g.clone()
        optimizer.step()
        first, second = 0.8 * first + 0.2 * g, 0.9 * second + 0.1 * g * g
        update = first / (1 - 0.8**count) / ((second / (1 - 0.9**count)).sqrt() + 1e-8)
        shrinks = (update * expected > 0).double()
        assert 0 < shrinks.mean() < 1
        expected = expected * (1 - 0.05 * 0.4 * shrinks) - 0.05 * update
    torch.testing.assert_close(weights.detach(), expected, rtol=1e-11, atol=1e-13)


def test_all_of_it_is_cautious_where_it_is_asked_for(shape: Callable[..., ModelShape]) -> None:
    _, _, optimizer = modern(shape, cautious_decay=True)
    assert isinstance(optimizer, WithAdamW)
    assert isinstance(optimizer.adamw, CautiousAdamW)
    own = [group for group in optimizer.adamw.param_groups if group["params"]]
    assert {group["weight_decay"] for group in own} == {0.0}
    assert {round(group["cautious_decay"], 9) for group in own} == {0.0, 0.3, 0.015}
