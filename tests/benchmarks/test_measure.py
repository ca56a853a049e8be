"""The benchmarks' own arithmetic: what they claim rests on it."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nanodyno.records.events import Message, WatchRun
from nanodyno.records.types import StepRecord


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "measure.py"
    spec = importlib.util.spec_from_file_location("benchmarks_measure", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def step(iteration: int) -> StepRecord:
    return StepRecord(
        iteration=iteration,
        loss=1.0,
        grad_norm=None,
        learning_rate=1e-3,
        tokens=1,
        step_seconds=1.0,
        data_seconds=0.0,
        wall_time=0.0,
    )


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)]
)
def test_quantiles_are_those_of_the_printed_t_table(
    measure: ModuleType, degrees: int, quantile: float
) -> None:
    assert measure.t_quantile(degrees) == pytest.approx(quantile, abs=5e-5)


def test_the_interval_of_two_samples_is_their_half_distance_times_the_quantile(measure: ModuleType) -> None:
    # Of 1 and 3: deviation sqrt(2), standard error 1, one degree of freedom.
    found = measure.t_interval([1.0, 3.0])
    assert (found.mean, found.n) == (2.0, 2)
    assert found.high - found.mean == pytest.approx(12.7062, abs=5e-5)


def test_one_sample_has_an_endless_interval(measure: ModuleType) -> None:
    assert measure.t_interval([5.0]).high == math.inf


def test_half_the_time_is_twice_the_speed_and_the_interval_turns_round(measure: ModuleType) -> None:
    assert measure.inverse(measure.Estimate(0.5, 0.25, 2.0, 3)) == measure.Estimate(2.0, 0.5, 4.0, 3)


def test_turns_come_in_the_order_abba_and_the_ratio_is_that_of_their_costs(measure: ModuleType) -> None:
    # A made-up clock: an iteration of ours costs 3, of the rival 2, so that every quad says 1.5.
    now = 0.0
    turns: list[str] = []

    def rival() -> None:
        nonlocal now
        now += 2.0
        turns.append("B")

    def run(watch: WatchRun) -> None:
        nonlocal now
        watch(Message("not an iteration"))
        for iteration in range(100):
            now += 3.0
            turns.append("A")
            watch(step(iteration))

    plan = measure.Plan(quads=2, iterations=1, warmup=1, settle_seconds=0.0)
    segments = measure.interleave(run, measure.Interleaver(rival, plan, lambda: now))
    assert "".join(turns) == "AB" + "ABBA" * 2
    assert segments.ours == [3.0] * 4
    assert segments.spans[:3] == [("A", 5.0, 8.0), ("B", 8.0, 10.0), ("B", 10.0, 12.0)]
    assert segments.ratio().mean == pytest.approx(1.5)
    assert segments.ratio().high == pytest.approx(1.5)
