"""One config measured once: what its child is asked for, and what disturbed it, by its GPU and its host."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nanodyno.analysis.probes import repetition_speed, repetition_summary
from nanodyno.config import RunConfig
from nanodyno.hardware.telemetry import GpuReading, WatchedGpu, read_host
from nanodyno.probe import disturbance
from nanodyno.probe.process import Child, Failure
from nanodyno.records.probe import Disturbance, MemoryRecord, RepetitionRecord, SampleRecord, SetupRecord
from nanodyno.records.types import Record

READ_SECONDS = 0.5
"""Between two looks at the GPU, which are not free for the driver."""

FEWEST_SAMPLES = 8

TASK = "nanodyno.probe.workload:probe"
PATIENCE: dict[str, float] = {
    "starting": 300.0,
    "building": 300.0,
    "compiling": 1800.0,
    "warming up": 900.0,
    "measuring": 60.0,
    "profiling": 300.0,
}
"""Seconds of silence after which a child counts as hung."""

WatchSamples = Callable[[str, Sequence[SampleRecord]], None]
"""Called several times a second with the child's stage, and after each of its iterations."""


class ProbeJob(Record):
    """The first request to a probe's child: what it is to measure."""

    config: RunConfig
    with_data: bool = False
    """Read the config's dataset; otherwise tokens are synthetic."""
    data_folder: Path = Path("data")
    threads: int | None = None
    """On a CPU; None leaves the number to torch."""
    memory_limit_bytes: int | None = None
    """Of what the allocator may take, for the emulation of a smaller GPU."""


class Measure(Record):
    """A request: iterate until the process knows its own mean to +-precision, or the time is up."""

    precision: float
    limit_seconds: float


class BreakDown(Record):
    """A request, after a Measure, whose times it is held against: profile some iterations."""


def start_child() -> Child:
    return Child(TASK, PATIENCE)


@dataclass
class Repetition:
    """Of one child that is ready."""

    child: Child
    config: RunConfig
    setup: SetupRecord
    gpu: WatchedGpu | None
    tell: WatchSamples
    samples: list[SampleRecord] = field(default_factory=list[SampleRecord])
    _readings: list[GpuReading] = field(default_factory=list[GpuReading])
    _read_at: float = 0.0

    def measure(
        self, request: Measure, process: int, number: int, ours: Collection[int]
    ) -> tuple[RepetitionRecord, MemoryRecord] | Failure:
        """Return every iteration with what disturbed it. `ours` are our processes on the GPU."""
        before = read_host(self.child.pid)
        memory = self.child.ask(request, MemoryRecord, self._watch)
        if isinstance(memory, Failure):
            return memory
        found = (
            *disturbance.of_host(before, read_host(self.child.pid)),
            *disturbance.of_gpu(self._readings, ours),
        )
        repetition = self._repetition(process, number).model_copy(update={"disturbances": found})
        found += (*self._of_samples(repetition, memory),)
        return repetition.model_copy(update={"disturbances": found}), memory

    def cut_short(self, process: int, number: int) -> RepetitionRecord | None:
        """Return what was measured before Ctrl-C, where that is enough for a mean."""
        return self._repetition(process, number) if len(self.samples) >= FEWEST_SAMPLES else None

    def _repetition(self, process: int, number: int) -> RepetitionRecord:
        return RepetitionRecord(
            process=process,
            round=number,
            samples=tuple(self.samples),
            sm_mhz=tuple(each.sm_mhz for each in self._readings if each.sm_mhz is not None),
            temperature_celsius=max((each.temperature_celsius or 0 for each in self._readings), default=0)
            or None,
            power_watts=max((each.power_watts or 0.0 for each in self._readings), default=0.0) or None,
            wall_time=time.time(),
        )

    def _of_samples(self, repetition: RepetitionRecord, memory: MemoryRecord) -> list[Disturbance]:
        summary = repetition_summary(repetition, self.config)
        reached = repetition_speed(repetition, self.config, self.setup).ceiling_fraction
        share = None if reached is None else reached.value
        found = disturbance.of_memory(memory, repetition.samples, share, disturbance.gpu_can_page())
        if summary.disturbed is not None:
            found.append(Disturbance(code=summary.disturbed, numbers={"iterations": len(repetition.samples)}))
        return found

    def _watch(self, child: Child, sample: Any) -> None:
        if sample is not None:
            self.samples.append(SampleRecord.model_validate(sample))
        self.tell(child.stage, self.samples)
        now = time.monotonic()
        if self.gpu is not None and now - self._read_at >= READ_SECONDS:
            self._read_at = now
            self._readings.append(self.gpu.read())
