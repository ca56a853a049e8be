"""A small version of benchmarks/attribute_simulation.py: seeded, so that it says the same every time."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def simulation(benchmark_module: Callable[[str], ModuleType]) -> Any:
    return benchmark_module("attribute_simulation")


@pytest.mark.parametrize("machine", ["bound by launching", "any machine"])
def test_attribute_keeps_every_promise(machine: str, simulation: Any) -> None:
    reported = simulation.Reported.of(simulation.simulate(machine, 60, seed=5))
    assert reported.kept() == dict.fromkeys(
        ("covers", "steps", "together", "inert", "nothing", "found"), True
    )


def test_a_variance_pooled_over_uneven_combinations_does_not(simulation: Any) -> None:
    """The noisy corner is one of two in a step, and one of four in what is pooled."""
    reported = simulation.Reported.of(simulation.simulate(simulation.ONE_NOISY, 120, seed=5))
    assert reported.kept()["steps"]
    assert reported.pooled_steps.value < reported.steps.value
    assert reported.pooled_steps.bounds()[1] < 0.965


def test_parts_of_a_made_up_truth_are_what_its_combinations_say(simulation: Any) -> None:
    """Interactions included: the mean over orders of the steps between the true values."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        truth = simulation.draw_truth(rng, False)
        count = len(truth.parts)
        parts = [simulation.value(simulation.shapley(count, each), truth.values) for each in range(count)]
        assert parts == pytest.approx(truth.parts)
