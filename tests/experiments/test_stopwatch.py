"""The stopwatch of a search on real children."""

import time
from typing import Any

import pytest

from nanodyno.analysis.asking import Ask
from nanodyno.config import build_config
from nanodyno.experiments.stopwatch import BenchStopwatch, Redo, repetition_limit, repetition_of
from nanodyno.experiments.tune import REDO
from nanodyno.probe.bench import Bench, ProbePlan
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import Failed, Measured

TINY = {
    "n_layer": 1, "n_head": 1, "n_embd": 16, "block_size": 16, "batch_size": 2, "tokens_per_iter": 64,
    "tokenizer": "bytes", "device": "cpu", "compile": False,
}  # fmt: skip


def test_a_stage_measures_each_once_and_what_has_no_time_is_missing() -> None:
    jobs = {name: ProbeJob(config=build_config(TINY), threads=1) for name in ("a", "b")}
    stages: list[str] = []
    with BenchStopwatch(
        jobs, lambda progress: stages.append(progress.stage), Redo(), processes=1
    ) as stopwatch:
        found = stopwatch.measure(Ask("screening", 0, ("a",), 0.3, 60.0, breakdown=True), ["a"], 60.0)
        assert isinstance(found["a"], Measured)
        assert len(found["a"].repetitions) == 1
        assert found["a"].breakdown is not None
        began = time.monotonic()
        assert stopwatch.measure(Ask("final", 0, ("b", "a"), 30.0, 60.0), ["b", "a"], 0.5) == {}
        assert time.monotonic() - began < 10
    assert stages.count("profiling") > 0


def test_a_repetition_that_hangs_leaves_half_of_the_time_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a minute is its own, of which a slow start may need most."""
    limits: list[float] = []

    def round_of(bench: Bench, *_: Any) -> None:
        limits.append(bench.limit_seconds)

    monkeypatch.setattr(Bench, "round", round_of)
    jobs = {"a": ProbeJob(config=build_config(TINY))}
    with BenchStopwatch(jobs, lambda _: None, Redo()) as stopwatch:
        for seconds_left in (600.0, 300.0, 20.0):
            stopwatch.measure(Ask("screening", 0, ("a",), 4.0, 600.0), ["a"], seconds_left)
    assert limits == [300.0, 150.0, 60.0]
    assert limits == [repetition_limit(each) for each in (600.0, 300.0, 20.0)]


def test_a_result_is_read_by_the_round(tunings: Any) -> None:
    measured = tunings.repetition(tunings.config(), 1.0, 2**30)
    assert repetition_of(measured, 0) == measured
    assert repetition_of(measured, 1) is None
    died, stopped = (tunings.failed(tunings.config(), reason) for reason in ("died", "interrupted"))
    assert repetition_of(died, 3) == died
    assert repetition_of(stopped, 3) is None
    ended = repetition_of(measured.model_copy(update={"stopped": "killed"}), 1)
    assert isinstance(ended, Failed)
    assert (ended.reason, ended.words) == ("died", "killed")


def test_disturbed_looks_and_rounds_of_the_final_are_made_again_as_often_as_each_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[ProbePlan] = []

    class NoBench(Bench):
        def __init__(self, jobs: Any, plan: ProbePlan, watch: Any) -> None:
            super().__init__(jobs, plan, watch)
            plans.append(plan)

        def round(self, number: int, names: Any, breakdown: bool = True) -> None:
            pass

    monkeypatch.setattr("nanodyno.experiments.stopwatch.Bench", NoBench)
    with BenchStopwatch({"a": ProbeJob(config=build_config(TINY))}, lambda _: None, REDO["cpu"]) as stopwatch:
        for stage in ("screening", "halving", "final"):
            stopwatch.measure(Ask(stage, 0, ("a",), 1.0, 60.0), ["a"], 60.0)
    assert [plan.redo for plan in plans] == [1, 1, 0]
