"""A small version of benchmarks/judge_simulation.py: seeded, so that it says the same every time."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nanodyno.analysis.judging import JudgeRules
from nanodyno.analysis.statistics import Interval


@pytest.fixture(scope="module")
def simulation(benchmark_module: Callable[[str], ModuleType]) -> Any:
    return benchmark_module("judge_simulation")


@pytest.mark.parametrize("candidates", [1, 4])
def test_no_kind_of_noise_keeps_more_than_is_stated(candidates: int, simulation: Any) -> None:
    """Of 300 judgements 15 are expected at most, and 25 are two and a half standard deviations more."""
    for noise in simulation.NOISES:
        found = simulation.simulate(noise, JudgeRules(candidates=candidates), 300, seed=3)
        assert found[0.0].kept <= 25
        assert found[3.0].kept >= 250
        assert found[0.0].trainings <= 0.6 * 300 * 5 * (1 + candidates)


def test_a_judgement_counts_the_trainings_of_the_base_too(simulation: Any) -> None:
    """A large improvement is kept by its first pair: three of the base and one of the candidate."""
    rng = np.random.default_rng(1)
    (candidate,), trainings = simulation.judge_one(rng, simulation.Noise(0.6), 100.0, JudgeRules())
    assert (candidate.judged().call, trainings) == ("keep", 4)
    assert isinstance(candidate.judged().improvement, Interval)
