"""What was measured of the grid beside what is predicted, and the calibration that fits it best."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cost_grid import Found, Point, held_out, setup_of
from nanodyno.costs.calibration import Calibration, measured
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import Setup
from nanodyno.costs.time import device_seconds, iteration_time
from nanodyno.costs.work import Work, micro_step, per_iteration

GIB = 2**30
TIES = 0.02
"""How much a fitted number is held to the one before, against the errors: with few points few move far."""
FITTED = ("product_flops", "product_bytes", "attention_flops", "moved_bytes", "eager_bytes", "kernels")


@dataclass(frozen=True)
class Errors:
    """Predicted over measured, less one; None where it was not measured."""

    name: str
    apart: bool
    allocated: float | None
    reserved: float | None
    rate: float | None


def errors(points: Sequence[Point], found: dict[str, Found], calibration: Calibration) -> list[Errors]:
    apart = held_out(list(points))
    return [
        _errors(point, found[point.name], point.name in apart, calibration)
        for point in points
        if point.name in found and found[point.name].fault is None
    ]


def _errors(point: Point, seen: Found, apart: bool, calibration: Calibration) -> Errors:
    setup = as_run(setup_of(point, seen), seen)
    memory = memory_of(setup, calibration)
    rate = point.config.tokens_per_iter / statistics.median(seen.iteration_seconds)
    return Errors(
        point.name,
        apart,
        None if seen.allocated_bytes is None else memory.allocated / seen.allocated_bytes - 1,
        None if seen.reserved_bytes is None else memory.reserved / seen.reserved_bytes - 1,
        iteration_time(setup, calibration).tokens_per_second / rate - 1,
    )


def as_run(setup: Setup, seen: Found) -> Setup:
    """With the attention that was chosen there; torch's own choice is not told."""
    return setup if seen.attention is None else replace(setup, attention=seen.attention)


def error_table(points: Sequence[Point], found: dict[str, Found]) -> str:
    rows = errors(points, found, measured())
    lines = [f"{'config':44} {'allocated':>9} {'reserved':>9} {'tok/s':>9}"]
    for title, apart in (("held out", True), ("the others", False)):
        some = [row for row in rows if row.apart == apart]
        lines += [f"-- {title}: {len(some)} of them", *(_line(row) for row in some)]
        lines += [_summary(name, some, get) for name, get in _MEASURES] if some else []
    faults = [f"{seen.name}: {seen.fault}" for seen in found.values() if seen.fault]
    missing = len({point.name for point in points} - found.keys())
    return "\n".join([*lines, *faults, f"{missing} of {len(points)} configs are not measured yet"])


_MEASURES: list[tuple[str, Callable[[Errors], float | None]]] = [
    ("allocated", lambda row: row.allocated),
    ("reserved", lambda row: row.reserved),
    ("tok/s", lambda row: row.rate),
]


def _summary(name: str, rows: Sequence[Errors], get: Callable[[Errors], float | None]) -> str:
    known = [abs(value) for row in rows if (value := get(row)) is not None]
    if not known:
        return f"   {name}: not measured"
    within = [
        f"{sum(each <= bound for each in known) / len(known):.0%} within {bound:.0%}" for bound in (0.05, 0.1)
    ]
    return f"   {name}: median {statistics.median(known):.1%}, largest {max(known):.1%}, {', '.join(within)}"


def _line(row: Errors) -> str:
    cells = ["-" if value is None else f"{value:+.1%}" for value in (row.allocated, row.reserved, row.rate)]
    return f"{row.name:44} {cells[0]:>9} {cells[1]:>9} {cells[2]:>9}"


def fitted(points: Sequence[Point], beside: Sequence[Point], found: dict[str, Found]) -> dict[str, object]:
    """Rates by least squares of relative errors over all but the held-out and those bound by launching.

    Those bound by launching, in the grid or measured beside it, tell what a launch takes.

    Time is linear in the inverse rates, so each is found as a multiple of its present value.
    """
    apart, now = held_out(list(points)), measured()
    usable = [
        (as_run(setup_of(point, found[point.name]), found[point.name]), found[point.name])
        for point in (*points, *beside)
        if point.name in found and point.name not in apart and found[point.name].fault is None
    ]
    bound = [(setup, seen) for setup, seen in usable if iteration_time(setup, now).launch_bound]
    free = [pair for pair in usable if pair not in bound]
    ratios = _ratios(free, now) if free else dict.fromkeys(FITTED, 1.0)
    compiled = [pair for pair in bound if pair[0].compiled]
    eager = [pair for pair in bound if not pair[0].compiled]
    bandwidth = now.bandwidth_bytes_per_second / ratios["moved_bytes"]
    attention = {
        name: rate / ratios["attention_flops"] for name, rate in now.attention_flops_per_second.items()
    }
    return {
        "matmul_flops_per_second": now.matmul_flops_per_second / ratios["product_flops"],
        "matmul_traffic_share": now.matmul_traffic_share * ratios["product_bytes"] / ratios["moved_bytes"],
        "attention_flops_per_second": attention,
        "bandwidth_bytes_per_second": bandwidth,
        "eager_bandwidth_share": now.eager_bandwidth_share * ratios["moved_bytes"] / ratios["eager_bytes"],
        "kernel_seconds": now.kernel_seconds * ratios["kernels"],
        "launch_seconds": {
            "eager": _launch(eager) or now.launch_seconds["eager"],
            "compiled": _launch(compiled) or now.launch_seconds["compiled"],
        },
        "context_bytes": _median([seen.context_bytes for _, seen in usable]),
        "fragmentation_share": _fragmentation(usable, now),
        "configs": len(usable),
    }


def _ratios(pairs: Sequence[tuple[Setup, Found]], now: Calibration) -> dict[str, float]:
    rows, goals = [], []
    for setup, seen in pairs:
        seconds = statistics.median(seen.iteration_seconds)
        whole = micro_step(setup) * setup.micro_steps + per_iteration(setup)
        parts = [device_seconds(_only(whole, name), setup, now) / seconds for name in FITTED]
        rows.append(parts)
        rest = device_seconds(whole, setup, now) / seconds - sum(parts)
        goals.append(1 - rest)
    ties = TIES * len(pairs) ** 0.5 * np.eye(len(FITTED))
    found, *_ = np.linalg.lstsq(
        np.vstack([np.array(rows), ties]), np.concatenate([goals, ties.sum(0)]), rcond=None
    )
    return {name: max(0.1, float(value)) for name, value in zip(FITTED, found, strict=True)}


def _launch(pairs: Sequence[tuple[Setup, Found]]) -> float | None:
    """By least squares of the rates' relative errors: a host is a fifth slower from time to time."""
    seconds = [
        statistics.median(seen.iteration_seconds) / setup.micro_steps / micro_step(setup).kernels
        for setup, seen in pairs
    ]
    return sum(each**2 for each in seconds) / sum(seconds) if seconds else None


def _only(work: Work, name: str) -> Work:
    return Work(**{name: getattr(work, name)})


def _fragmentation(pairs: Sequence[tuple[Setup, Found]], now: Calibration) -> float | None:
    shares = []
    for setup, seen in pairs:
        if seen.reserved_bytes is None:
            continue
        without = memory_of(setup, replace(now, fragmentation_share=0.0))
        shares.append((seen.reserved_bytes - without.reserved) / without.allocated)
    return max(0.0, statistics.median(shares)) if shares else None


def _median(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
