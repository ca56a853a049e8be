"""Predictions beside the grid that was measured on an H200 (benchmarks/cost_model.py makes the file)."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from nanodyno.costs.calibration import measured


@pytest.fixture
def rows(benchmark_module: Callable[[str], ModuleType]) -> list[Any]:
    grid, fit = benchmark_module("cost_grid"), benchmark_module("cost_fit")
    found = grid.read(grid.DATA)
    if not found:
        pytest.skip("the grid is not measured yet")
    return fit.errors(grid.grid(), found, measured())


def test_the_allocated_peak_is_within_5_percent_for_90_of_100_and_never_10_off(rows: list[Any]) -> None:
    errors = [abs(row.allocated) for row in rows]
    assert sum(error <= 0.05 for error in errors) >= 0.9 * len(errors)
    assert max(errors) <= 0.10


def test_reserved_memory_and_speed_are_within_10_percent_the_held_out_too(rows: list[Any]) -> None:
    assert any(row.apart for row in rows)
    for row in rows:
        assert abs(row.reserved) <= 0.10, row
        assert abs(row.rate) <= 0.10, row
