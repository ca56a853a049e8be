"""The search for the largest model that fits, and what counts as not fitting."""

import math
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from nanodyno.errors import RunFailed


@pytest.fixture(scope="module")
def limit(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("card_limit")


@pytest.fixture(scope="module")
def trial(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("card_trial")


@pytest.mark.parametrize("largest", range(12, 41))
def test_bisection_finds_the_largest_that_fits_in_few_trials(limit: ModuleType, largest: int) -> None:
    tried: list[int] = []

    def fits(n_layer: int) -> bool:
        tried.append(n_layer)
        return n_layer <= largest

    assert limit.largest_that_fits(fits, 12, 40) == largest
    assert largest in tried
    assert len(tried) <= 5  # 30 answers: 12 to 40, or none


def test_bisection_tells_when_nothing_fits(limit: ModuleType) -> None:
    assert limit.largest_that_fits(lambda _: False, 12, 40) is None


def test_twelve_layers_in_gpt2s_proportion_are_gpt2(limit: ModuleType) -> None:
    # 50304 * 768 + 1024 * 768 + 12 * 12 * 768^2 + 25 * 768
    assert limit.parameters_of(12, 1024) == 124_373_760


def test_speeds_of_neighbouring_processes_are_divided(limit: ModuleType, trial: ModuleType) -> None:
    def at(micro_batch: int, *rates: float) -> object:
        return limit.AtMicroBatch(micro_batch, [trial.Outcome(tokens_per_second=rate) for rate in rates])

    ratio = limit.speed_ratio(at(32, 200.0, 800.0), at(8, 100.0, 100.0))
    assert ratio.mean == pytest.approx(4.0)  # the root of 2 times 8
    assert ratio.high == pytest.approx(4 * math.exp(12.7062 * math.log(2)), rel=1e-4)


def test_a_micro_batch_that_did_not_fit_once_has_no_speed(limit: ModuleType, trial: ModuleType) -> None:
    once = limit.AtMicroBatch(32, [trial.Outcome(tokens_per_second=1.0), trial.Outcome(refused="no memory")])
    assert once.rates is None


def test_memory_is_found_at_the_bottom_of_what_wraps_it(trial: ModuleType) -> None:
    wrapped = RunFailed("out of memory", "halve it")
    wrapped.__cause__ = torch.OutOfMemoryError("CUDA out of memory")
    assert trial.ran_out(wrapped)
    assert not trial.ran_out(RuntimeError("an illegal memory access was encountered"))
