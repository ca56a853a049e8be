"""A made-up card and a made-up stopwatch for tune: a plugin of conftest.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from checkups import build_device, build_machine
from nanodyno.analysis.asking import Ask
from nanodyno.analysis.candidates import Ground, TuneRequest
from nanodyno.config import RunConfig, build_config
from nanodyno.experiments.ground import DeviceState
from nanodyno.experiments.stopwatch import Redo
from nanodyno.experiments.tune import TuneBench
from nanodyno.hardware.gpus import gpu_named
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import (
    BreakdownRecord,
    Failed,
    Measured,
    MemoryRecord,
    OutOfMemory,
    ProbeResult,
    RepetitionRecord,
    SampleRecord,
    SetupRecord,
    WatchProbe,
)
from nanodyno.records.types import ArithmeticRecord, VersionsRecord

GIB = 2**30
TOKENS = 16_384
SETTINGS: dict[str, Any] = {
    "n_layer": 2, "n_embd": 128, "block_size": 1024, "batch_size": 4, "tokens_per_iter": TOKENS,
}  # fmt: skip


def build_request(config: RunConfig, budget_seconds: float, **options: Any) -> TuneRequest:
    """With the vocabulary of GPT-2."""
    return TuneRequest(config, 50304, budget_seconds, **options)


def build_place(usable_gib: float = 12.0, **changes: Any) -> DeviceState:
    """An H200 of which so much is usable: half a GiB is the context, half a GiB is to stay free."""
    values: dict[str, Any] = {
        "device_type": "cuda",
        "dtype": "bfloat16",
        "gpu": gpu_named("H200"),
        "usable_bytes": int(usable_gib * GIB),
        "context_bytes": GIB // 2,
        "margin_bytes": GIB // 2,
        "has_triton": True,
        "has_fp8": True,
    }
    return DeviceState(build_device(), Ground(**(values | changes)))


def build_host_place(threads: tuple[int, ...] = ()) -> DeviceState:
    device = build_device(build_machine(device_type="cpu"), dtype="float32")
    return DeviceState(device, Ground("cpu", "float32", threads=threads))


def build_repetition(config: RunConfig, seconds: float, reserved: int, idle: float = 0.1) -> Measured:
    """Twenty even iterations of a process."""
    steps = config.gradient_accumulation_steps
    sample = SampleRecord(seconds=seconds, micro_steps=steps)
    setup = SetupRecord(
        machine=build_machine(),
        arithmetic=ArithmeticRecord(device="cuda:0", dtype="bfloat16", compiled=False),
        versions=VersionsRecord(nanodyno="0", python="3.11", torch="2.13"),
        vocab_size=50304,
        data_vocab_size=50257,
        dataset=None,
        matmul_flops_per_second=797e12,
        matmul_size=8192,
        start_seconds=10.0,
    )
    return Measured(
        config=config,
        setup=setup,
        repetitions=(RepetitionRecord(process=0, round=0, samples=(sample,) * 20, wall_time=0.0),),
        memory=MemoryRecord(peak_allocated_bytes=reserved, peak_reserved_bytes=reserved),
        breakdown=BreakdownRecord(
            source="kernels",
            iterations=1,
            micro_steps=steps,
            part_seconds={"matmul": (1 - idle) * seconds},
            profiled_seconds=seconds,
            wall_seconds=seconds,
            data_seconds=0.0,
            kernels=100,
        ),
    )


def rising(config: RunConfig) -> ProbeResult:
    """Speed rises to a micro-batch of 8 and is flat from there; memory doubles with it; 16 does not fit."""
    size = config.batch_size
    if size >= 16:
        return OutOfMemory(config=config, stage="building", memory=MemoryRecord(), words="CUDA out of memory")
    seconds = {1: 2.0, 2: 1.5, 4: 1.1, 8: 1.0}[size]
    return build_repetition(config, seconds, size * GIB, idle=0.4 if size < 4 else 0.05)


@dataclass
class FakeStopwatch:
    """Answers at once, and lets a clock of its own run on by so much for each visit."""

    answer: Callable[[RunConfig], ProbeResult] = rising
    repetition_seconds: float = 5.0
    interrupt_at: int | None = None
    at_once: int = 1
    now: float = 0.0
    asked: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    jobs: Mapping[str, ProbeJob] = field(default_factory=dict)
    latest: dict[str, ProbeResult] = field(default_factory=dict)

    def make(self, jobs: Mapping[str, ProbeJob], watch: WatchProbe, redo: Redo) -> "FakeStopwatch":
        del watch, redo
        self.jobs = jobs
        return self

    def measure(self, ask: Ask, names: list[str], seconds_left: float) -> dict[str, ProbeResult]:
        self.asked.append((ask.stage, ask.round, tuple(names)))
        self.latest = {}
        for name in names:
            if self.interrupt_at is not None and sum(len(each[2]) for each in self.asked) > self.interrupt_at:
                raise KeyboardInterrupt
            if self.repetition_seconds > seconds_left:
                self.now += seconds_left
                break
            self.now += self.repetition_seconds
            seconds_left -= self.repetition_seconds
            self.latest[name] = self.answer(self.jobs[name].config)
        return self.latest

    def measured(self) -> dict[str, ProbeResult]:
        return self.latest

    def bench(self, cache: Path, place: DeviceState | None = None) -> TuneBench:
        return TuneBench(self.make, lambda *_: place or build_place(), cache, lambda: self.now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        pass


@pytest.fixture
def tunings() -> Any:
    return SimpleNamespace(
        config=lambda **changes: build_config(SETTINGS | changes),
        request=build_request,
        place=build_place,
        host_place=build_host_place,
        repetition=build_repetition,
        rising=rising,
        stopwatch=FakeStopwatch,
        failed=lambda config, reason: Failed(
            config=config, reason=reason, stage="measuring", words="it is gone"
        ),
    )
