"""What kernels are held against: floors, and the bytes and FLOPs that they are made of."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from nanodyno.model.kernels import plain


@pytest.fixture(scope="module")
def timing(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("kernel_timing")


@pytest.fixture(scope="module")
def every_case(benchmark_module: Callable[[str], ModuleType]) -> dict[str, Any]:
    """On 8 positions of width 64 in sequences of 4, 10 tokens, bf16."""
    size = benchmark_module("kernel_cases").Size(
        64, 8, 4, 10, torch.bfloat16, torch.device("cpu"), plain
    )  # fmt: skip
    return {case.name: case for case in benchmark_module("kernels").every_case(size)}


def test_the_floor_is_the_larger_of_its_two_times(timing: ModuleType) -> None:
    ceilings = timing.Ceilings(bytes_per_second=100.0, achieved_flops_per_second=1000.0)
    assert timing.floor(50, 400, ceilings) == timing.Floor(0.5, "bytes")
    assert timing.floor(50, 600, ceilings) == timing.Floor(0.6, "flops")


def test_inputs_take_turns_until_a_cache_would_have_to_hold_three_of_itself(timing: ModuleType) -> None:
    assert timing.turns(moved=40, cache_bytes=50) == 4
    assert timing.turns(moved=1000, cache_bytes=50) == 1
    assert timing.turns(moved=40, cache_bytes=0) == 1


def test_a_graph_is_long_enough_and_not_too_long(timing: ModuleType) -> None:
    assert timing.rounds(1e-3, inputs=2) == 3  # 5 calls of a millisecond, in pairs
    assert timing.rounds(1e-9, inputs=4) == 50  # no more than 200 calls
    assert timing.rounds(1.0, inputs=1) == 1


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("add_norm", 512 * 12 + 8 * 8 + 64 * 4),
        ("norm_backward", 512 * 16 + 8 * 8 + 64 * 12),
        ("norm_backward, again", 512 * 18 + 8 * 8 + 64 * 12),
        ("gelu", 2048 * 4),
        ("gelu_backward_", 2048 * 6),
        ("gelu_backward_, again", 2048 * 8),
        ("cross_entropy_", 80 * 4 + 8 * 12),
        ("add_norm, rms", 512 * 12 + 8 * 4 + 64 * 4),
        ("norm_backward, rms, again", 512 * 18 + 8 * 4 + 64 * 12),
        ("relu2", 2048 * 4),
        ("relu2_backward_", 2048 * 6),
        ("relu2_backward_, again", 2048 * 8),
        ("cross_entropy_, capped", 80 * 4 + 8 * 12),
        ("apply_rope_", 2 * 512 * 4 + 8 * 2 * 4 + 4 * 64 * 4),
        ("apply_rope_backward_", 2 * 512 * 6 + 8 * 2 * 4 + 4 * 64 * 4),
        ("attention torch, forward", 512 * 8 + 8 * 4),
        ("up, forward", 512 * 2 + 2048 * 2 + 16384 * 2),
        ("up, weight", 512 * 2 + 2048 * 2 + 16384 * 8),
    ],
)
def test_bytes_are_every_input_once_and_every_output_once(
    every_case: dict[str, Any], name: str, moved: int
) -> None:
    assert every_case[name].moved == moved


def test_rows_of_a_table_count_once_for_each_token_that_there_is(every_case: dict[str, Any]) -> None:
    ids = every_case["embed, no positions"].make()[2]
    rows = len(set(ids.flatten().tolist()))
    assert every_case["embed, no positions"].moved == (rows + 8) * 256 + 8 * 8
    assert every_case["embed_backward, no positions"].moved == (2 * rows + 8) * 256 + 8 * 8
    rows = len(set(every_case["mix_values_"].make()[2].tolist()))
    moved = 3 * 512 * 2 + rows * 128 + 8 * 8 + 8
    assert every_case["mix_values_"].moved == moved
    assert every_case["mix_values_backward_"].moved == moved + rows * 512 + 2 * 8


def test_attention_counts_the_products_of_pairs_that_are_not_in_the_future(
    every_case: dict[str, Any],
) -> None:
    # 2 sequences, each 4 * 5 / 2 pairs, 2 products of 64 multiplications and additions.
    assert every_case["attention torch, forward"].flops == 2 * 10 * 2 * 2 * 64
    assert every_case["attention torch, both"].flops == 2 * 10 * 7 * 2 * 64


@pytest.mark.parametrize(
    "name",
    [
        "add_norm", "norm_backward, again", "gelu_backward_, again", "norm_backward, rms", "relu2_backward_",
        "cross_entropy_, capped", "apply_rope_", "apply_rope_backward_", "mix_values_",
        "mix_values_backward_",
        "up, weight",
    ],
)  # fmt: skip
def test_twins_in_bf16_and_in_float64_differ_by_the_rounding_of_bf16(
    benchmark_module: Callable[[str], ModuleType], every_case: dict[str, Any], name: str
) -> None:
    torch.manual_seed(0)
    error = benchmark_module("kernel_cases").error
    assert 0 < error(every_case[name]) < 2**-8


def test_a_kernel_that_forgets_something_has_an_error(
    benchmark_module: Callable[[str], ModuleType], every_case: dict[str, Any]
) -> None:
    cases, case = benchmark_module("kernel_cases"), every_case["gelu"]
    forgetful = cases.Case(case.name, 1, 1, case.make, lambda u: (u,), case.twin)
    assert cases.error(forgetful) > 0.1


def test_a_kernel_that_fails_is_counted_and_the_next_is_measured(
    benchmark_module: Callable[[str], ModuleType], timing: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, case = benchmark_module("kernels"), benchmark_module("kernel_cases").Case

    def runs(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x + 1,)

    def fails(_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        raise ValueError("no such instruction")

    def cases(_: object) -> list[object]:
        names = {"one": fails, "attention two": fails, "three": runs}
        return [case(name, 4, 0, lambda: (torch.ones(1),), run, runs) for name, run in names.items()]

    monkeypatch.setattr(kernels, "every_case", cases)
    options = SimpleNamespace(widths=[8], positions=[8], block=8, vocabulary=8, only=[])
    results, failed = kernels.measure_all(options, torch.device("cpu"), timing.Ceilings(1.0, 1.0))
    assert [each.name for each in results] == ["three"]
    assert failed == 1  # an attention may be one that this machine does not have
