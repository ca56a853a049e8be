"""A few iterations under torch's profiler, apart from all timing."""

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from nanodyno.analysis.probes import iteration_seconds
from nanodyno.probe.trace import Spent, device_slices, host_slices, launches
from nanodyno.records.probe import BreakdownRecord, SampleRecord

MOST_ITERATIONS = 3
PROFILED_SECONDS = {"cuda": 1.0, "cpu": 0.3}
"""Of a card enough that what is once an iteration weighs little; operators of a CPU make longer traces."""
NOT_ALLOWED = (
    "the profiler saw no kernel: the driver may allow it to administrators only "
    "(NVreg_RestrictProfilingToAdminUsers=0 lifts that), or another profiler is attached"
)


def profile_iterations(
    iterate: Callable[[int], SampleRecord], device: torch.device, samples: Sequence[SampleRecord], whole: int
) -> tuple[BreakdownRecord | None, str | None]:
    """Where their time went; or None and why not.

    `iterate` takes a number of micro-steps; `samples` were timed before, unwatched; an iteration has `whole`
    micro-steps. On a card only kernels are recorded and not operators, which would slow the host down.
    """
    if device.type not in PROFILED_SECONDS:
        return None, f"torch has no profiler of kernels for {device.type}"
    on_gpu = device.type == "cuda"
    micro_steps, iterations = _extent(samples, PROFILED_SECONDS[device.type], whole)
    try:
        watched, events = _traced(
            lambda: iterate(micro_steps),
            iterations,
            ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU,
        )
    except RuntimeError as error:
        return None, f"the profiler failed: {str(error).strip().splitlines()[0]}"
    slices = device_slices(events) if on_gpu else host_slices(events)
    if not slices:
        return None, NOT_ALLOWED
    spent = Spent.of(slices)
    wall = statistics.median(iteration_seconds(sample, micro_steps) for sample in samples)
    waiting = statistics.median(sample.data_seconds / sample.micro_steps for sample in samples)
    breakdown = BreakdownRecord(
        source="kernels" if on_gpu else "operators",
        iterations=iterations,
        micro_steps=iterations * micro_steps,
        part_seconds=spent.part_seconds,
        profiled_seconds=sum(sample.seconds for sample in watched),
        wall_seconds=wall * iterations,
        data_seconds=waiting * iterations * micro_steps,
        kernels=spent.count,
        launches=launches(events) if on_gpu else None,
        longest=spent.longest,
    )
    return breakdown, None


def _extent(samples: Sequence[SampleRecord], seconds: float, whole: int) -> tuple[int, int]:
    """Micro-steps of an iteration and iterations: about as long as asked for, and not less than was timed."""
    each = statistics.median(sample.seconds / sample.micro_steps for sample in samples)
    micro_steps = min(whole, max(samples[-1].micro_steps, round(seconds / each)))
    return micro_steps, min(MOST_ITERATIONS, max(1, round(seconds / (each * micro_steps))))


def _traced(
    iterate: Callable[[], SampleRecord], iterations: int, activity: ProfilerActivity
) -> tuple[list[SampleRecord], list[dict[str, Any]]]:
    with profile(activities=[activity]):
        iterate()  # the profiler makes itself ready, which takes long the first time
    with profile(activities=[activity]) as watched:
        samples = [iterate() for _ in range(iterations)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        watched.export_chrome_trace(str(path))
        return samples, _events(path)


def _events(trace: Path) -> list[dict[str, Any]]:
    """Names of kernels go into the file as they are, whatever characters they hold."""
    return json.loads(trace.read_text(encoding="utf-8", errors="replace"), strict=False)["traceEvents"]
