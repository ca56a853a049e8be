"""The grid of the cost model, and what is made of measurements of it."""

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nanodyno.costs.calibration import measured
from nanodyno.costs.memory import memory_of
from nanodyno.costs.time import iteration_time

Modules = Callable[[str], ModuleType]


@pytest.fixture
def parts(benchmark_module: Modules) -> tuple[Any, Any]:
    return benchmark_module("cost_grid"), benchmark_module("cost_fit")


def made_up(grid: Any, calibration: Any) -> dict[str, Any]:
    """Measurements of a card that does exactly what this calibration says."""
    found = {}
    for point in (*grid.grid(), *grid.launches()):
        setup = grid.setup_of(point)
        memory = memory_of(setup, calibration)
        found[point.name] = grid.Found(
            name=point.name,
            device="made up",
            torch="0",
            device_memory_bytes=150 * 2**30,
            allocated_bytes=memory.allocated,
            reserved_bytes=memory.reserved,
            context_bytes=calibration.context_bytes,
            iteration_seconds=(iteration_time(setup, calibration).seconds,) * 3,
        )
    return found


def test_the_grid_has_every_width_depth_way_and_block(parts: tuple[Any, Any]) -> None:
    points = parts[0].grid()
    assert len(points) == 36
    for key, values in (("n_embd", (384, 768, 1024)), ("n_layer", (6, 12, 24)), ("block_size", (512, 1024))):
        assert {point.settings[key] for point in points} == set(values)
    assert {point.settings["batch_size"] for point in points} == {4, 8, 16, 32, 64}
    ways = Counter(point.name.split(",")[0] for point in points)
    assert ways.keys() == parts[0].WAYS.keys()
    assert min(ways.values()) >= 3


def test_the_held_out_are_eight_with_every_way_among_them_and_always_the_same(parts: tuple[Any, Any]) -> None:
    grid, _ = parts
    apart = grid.held_out(grid.grid())
    assert len(apart) == 8
    assert {name.split(",")[0] for name in apart} == grid.WAYS.keys()
    assert apart == grid.held_out(list(reversed(grid.grid())))


def test_every_config_of_the_grid_is_a_valid_one_that_fits_an_h200(parts: tuple[Any, Any]) -> None:
    grid, _ = parts
    for point in grid.grid():
        assert memory_of(grid.setup_of(point), measured()).total < 120 * 2**30, point.name


def test_what_is_measured_for_its_launches_is_bound_by_them_and_not_of_the_grid(
    parts: tuple[Any, Any],
) -> None:
    grid, _ = parts
    assert not {each.name for each in grid.launches()} & {each.name for each in grid.grid()}
    assert all(iteration_time(grid.setup_of(each), measured()).launch_bound for each in grid.launches())


def test_a_fit_finds_the_rates_of_a_made_up_gpu(parts: tuple[Any, Any]) -> None:
    grid, fit = parts
    now = measured()
    other = replace(
        now,
        matmul_flops_per_second=now.matmul_flops_per_second * 0.9,
        bandwidth_bytes_per_second=now.bandwidth_bytes_per_second * 1.05,
        launch_seconds={"eager": now.launch_seconds["eager"] * 1.1, "compiled": 26e-6},
        fragmentation_share=0.08,
        context_bytes=600 * 2**20,
    )
    points = grid.grid()
    found = fit.fitted(points, grid.launches(), made_up(grid, other))
    assert found["matmul_flops_per_second"] == pytest.approx(other.matmul_flops_per_second, 0.02)
    assert found["bandwidth_bytes_per_second"] == pytest.approx(other.bandwidth_bytes_per_second, 0.02)
    for way in ("eager", "compiled"):
        assert found["launch_seconds"][way] == pytest.approx(other.launch_seconds[way], 0.01)
    assert found["fragmentation_share"] == pytest.approx(0.08, 0.02)
    assert found["context_bytes"] == 600 * 2**20
    assert found["configs"] == 28 + len(grid.launches())


def test_the_held_out_do_not_touch_a_fit(parts: tuple[Any, Any]) -> None:
    grid, fit = parts
    points = grid.grid()
    found = made_up(grid, measured())
    spoilt = {
        name: replace(each, iteration_seconds=(99.0,)) if name in grid.held_out(points) else each
        for name, each in found.items()
    }
    assert fit.fitted(points, [], spoilt) == fit.fitted(points, [], found)


def test_errors_are_predicted_over_measured_less_one(parts: tuple[Any, Any]) -> None:
    grid, fit = parts
    points = grid.grid()
    found = made_up(grid, measured())
    name = points[0].name
    halved = tuple(seconds / 2 for seconds in found[name].iteration_seconds)
    found[name] = replace(
        found[name], allocated_bytes=found[name].allocated_bytes * 2, iteration_seconds=halved
    )
    rows = {row.name: row for row in fit.errors(points, found, measured())}
    assert rows[name].allocated == pytest.approx(-0.5)
    assert rows[name].rate == pytest.approx(-0.5)
    others = [abs(row.rate) + abs(row.allocated) for each, row in rows.items() if each != name]
    assert statistics.fmean(others) < 1e-6


def test_the_table_tells_the_held_out_apart_and_what_is_missing(parts: tuple[Any, Any]) -> None:
    grid, fit = parts
    points = grid.grid()
    apart = sorted(grid.held_out(points))
    found = made_up(grid, measured())
    some = {name: found[name] for name in (apart[0], points[0].name)}
    some[apart[1]] = grid.Found(apart[1], "", "", fault="out of memory")
    table = fit.error_table(points, some)
    assert "-- held out: 1 of them" in table
    assert f"{apart[1]}: out of memory" in table
    assert "33 of 36 configs are not measured yet" in table


def test_a_line_that_a_kill_cut_short_is_measured_again(parts: tuple[Any, Any], tmp_path: Path) -> None:
    grid, _ = parts
    file = tmp_path / "grid.jsonl"
    grid.append(file, grid.Found("a", "gpu", "0", iteration_seconds=(1.0, 2.0)))
    with file.open("a") as cut:
        cut.write('{"name": "b", "iteration_sec')
    assert grid.read(file) == {"a": grid.Found("a", "gpu", "0", iteration_seconds=(1.0, 2.0))}
