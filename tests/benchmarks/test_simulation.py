"""A small version of benchmarks/simulation.py: seeded, so that it says the same every time."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from nanodyno.analysis.budget import DEFAULT_BUDGET

EXPERIMENTS = 120
BENCHMARKS = ("alternatives", "machines", "scores", "simulation")


@pytest.fixture(scope="module")
def simulation() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        for name in BENCHMARKS:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("simulation")
        for name in BENCHMARKS:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def launching(simulation):
    """All ways to compare on the machine whose processes differ most."""
    return simulation.simulate(simulation.MACHINES["bound by launching"], DEFAULT_BUDGET, EXPERIMENTS, seed=2)


def test_the_stopwatch_keeps_every_promise(launching):
    assert launching["ours"].kept() == dict.fromkeys(
        ("covers", "called_different", "found", "tied_wrong"), True
    )


def test_a_quiet_gpu_is_decided_early(simulation):
    score = simulation.simulate(simulation.MACHINES["card of one's own"], DEFAULT_BUDGET, 40, seed=2)["ours"]
    assert all(score.kept().values())
    assert score.tied.value > 0.9
    assert score.rounds < 8


@pytest.mark.parametrize(
    "way",
    [
        "3 iterations of one process each",
        "one process each, t over iterations",
        "8 processes each, t over iterations",
        "8 A then 8 B, t over medians",
        "4 by turns, percentile bootstrap",
        "3 to 16 by turns, until it differs",
    ],
)
def test_ways_that_forget_the_process_the_drift_or_the_looking_call_equals_different(launching, way):
    kept = launching[way].kept()
    assert not kept["called_different"]
    assert not kept["covers"]


def test_plain_means_are_honest_and_blind(launching):
    kept = launching["8 by turns, paired plain means"].kept()
    assert kept["called_different"]
    assert not kept["found"]


def test_two_equal_configs_have_the_same_noise_and_the_truth_is_their_level(simulation):
    gpu, design = simulation.MACHINES["card of one's own"], simulation.Design(4, 2, 64)
    made = simulation.sessions(gpu, design, 200, np.random.default_rng(1))
    assert made.log_seconds.shape == (200, 8, 2, 64)
    assert made.process_of_round.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    medians = np.median(made.log_seconds[..., 20:], axis=3)
    assert abs(float((medians[:, :, 0] - medians[:, :, 1]).mean())) < 0.001
    # Within a process's own noise, far below the 0.25% by which processes differ.
    assert float(np.median(np.abs(medians - made.process_level))) < 0.001


def test_the_binomial_interval_is_clopper_and_pearsons(simulation):
    # Of 10 none: 1 - 0.025 ** (1 / 10) = 30.85%.
    assert simulation.Share(0, 10).bounds() == (0.0, pytest.approx(0.3085, abs=1e-4))
    assert simulation.Share(10, 10).bounds() == (pytest.approx(0.6915, abs=1e-4), 1.0)
    assert simulation.Share(5, 10).bounds() == (
        pytest.approx(0.1871, abs=1e-4),
        pytest.approx(0.8129, abs=1e-4),
    )
