"""The simulation of tune in small, and the grid's arithmetic."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nanodyno.analysis.candidates import Candidate


@pytest.fixture(scope="module")
def simulation(benchmark_module: Callable[[str], ModuleType]) -> Any:
    return benchmark_module("tune_simulation")


@pytest.fixture(scope="module")
def grid(benchmark_module: Callable[[str], ModuleType]) -> Any:
    return benchmark_module("tune_grid")


@pytest.mark.parametrize("machine", ["card of one's own", "bound by launching"])
def test_regret_is_under_2_percent_in_95_of_100_searches(simulation: Any, machine: str) -> None:
    reported = simulation.Reported.of(simulation.simulate(simulation.MACHINES[machine], 100, 300.0, seed=3))
    assert reported.found.value >= 0.95
    assert reported.time_share <= 1.0
    assert reported.promise[1] == pytest.approx(1.0, abs=0.01)


def test_time_is_kept_in_every_search(simulation: Any) -> None:
    trials = simulation.simulate(simulation.MACHINES["CPU"], 40, 120.0, seed=4)
    assert max(trial.time_share for trial in trials) <= 1.05  # the last visit may take longer than the mean


def test_a_surface_has_one_that_fits_best(simulation: Any) -> None:
    surface = simulation.draw_surface(np.random.default_rng(5))
    assert surface.best == min(surface.seconds[name] for name in surface.fitting)
    assert not surface.fitting & surface.tight


def test_times_are_taken_over_the_anchor_of_the_same_call(grid: Any) -> None:
    """The second call's card is twice as slow: the same ratio comes out."""
    lines = [
        grid.Line("one", "8", True, 1.0, None, 9.0),
        grid.Line("one", "16", False, 0.9, None, 9.0),
        grid.Line("two", "8", True, 2.0, None, 9.0),
        grid.Line("two", "16", False, 1.8, None, 9.0),
        grid.Line("two", "64", False, None, "out-of-memory", 9.0),
        grid.Line("lost", "16", False, 5.0, None, 9.0),
    ]
    assert grid.relative_times(lines) == {"16": [pytest.approx(0.9), pytest.approx(0.9)]}
    tuned = {"chosen": "16", "spent_seconds": 12.0}
    reported = grid.report(["16", "64"], lines, tuned)
    assert "tune's winner 16: regret 0.00% against 16" in reported
    assert "tune took 12 s: 0.33 of the grid's time" in reported
    assert "| 64 | 0 | out-of-memory | - |" in reported


def test_the_points_that_lack_a_process_come_next_and_those_that_do_not_fit_are_done(grid: Any) -> None:
    lines = [
        grid.Line("one", "8", False, 1.0, None, 9.0),
        grid.Line("one", "8", True, 1.0, None, 9.0),
        grid.Line("one", "64", False, None, "out-of-memory", 9.0),
    ]
    assert grid.next_points(["8", "16", "64"], lines, 2) == ["16", "8"]
    assert grid.next_points(["8"], lines, 1) == []


def test_a_grid_has_every_micro_batch_then_the_fastest_others_and_the_winner(grid: Any, tunings: Any) -> None:
    def point(size: int, variant: bool) -> Candidate:
        name = f"{size}{' v' if variant else ''}"
        return Candidate(name, tunings.config(batch_size=size), variant=variant)

    candidates = [point(size, variant) for variant in (False, True) for size in (1, 2, 4)]
    names = [each.name for each in grid.grid_points(candidates, 4, "4 v")]
    assert names == ["1", "2", "4", "4 v"]


def test_a_cut_line_of_a_grid_is_dropped(grid: Any, tmp_path: Path) -> None:
    path = tmp_path / "grid.jsonl"
    whole = {"call": "one", "name": "8", "is_anchor": True, "seconds": 1.0, "why": None, "cost_seconds": 9.0}
    path.write_text(json.dumps(whole) + "\n" + '{"call": "on')
    assert grid.read(path) == [grid.Line(**whole)]
    assert grid.read(tmp_path / "none") == []
