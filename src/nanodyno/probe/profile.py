"""A few iterations under torch's profiler, apart from all timing."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from nanodyno.probe.trace import Spent, device_slices, host_slices, launches
from nanodyno.records.probe import BreakdownRecord, SampleRecord

MOST_ITERATIONS = 3
PROFILED_SECONDS = 0.5
NOT_ALLOWED = (
    "the profiler saw no kernel: the driver may allow it to administrators only "
    "(NVreg_RestrictProfilingToAdminUsers=0 lifts that), or another profiler is attached"
)


def profile_iterations(
    iterate: Callable[[], SampleRecord], device: torch.device, wall_seconds: float, data_seconds: float
) -> tuple[BreakdownRecord | None, str | None]:
    """Where their time went; or None and why not. wall and data seconds are of one iteration unwatched.

    On a card only kernels are recorded and not operators, which would slow the host down.
    """
    if device.type not in ("cpu", "cuda"):
        return None, f"torch has no profiler of kernels for {device.type}"
    on_card = device.type == "cuda"
    iterations = min(MOST_ITERATIONS, max(1, round(PROFILED_SECONDS / wall_seconds)))
    try:
        samples, events = _traced(
            iterate, iterations, ProfilerActivity.CUDA if on_card else ProfilerActivity.CPU
        )
    except RuntimeError as error:
        return None, f"the profiler failed: {str(error).strip().splitlines()[0]}"
    slices = device_slices(events) if on_card else host_slices(events)
    if not slices:
        return None, NOT_ALLOWED
    spent = Spent.of(slices)
    breakdown = BreakdownRecord(
        source="kernels" if on_card else "operators",
        micro_steps=sum(sample.micro_steps for sample in samples),
        part_seconds=spent.part_seconds,
        profiled_seconds=sum(sample.seconds for sample in samples),
        wall_seconds=wall_seconds * iterations,
        data_seconds=data_seconds * iterations,
        kernels=spent.count,
        launches=launches(events) if on_card else None,
        longest=spent.longest,
    )
    return breakdown, None


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
