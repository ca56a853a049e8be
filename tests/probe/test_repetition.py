"""A repetition with a made-up child and a made-up GPU: what is found beside the times."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.analysis.test_probes import build_setup

from nanodyno.hardware.telemetry import GpuReading
from nanodyno.probe.repetition import Measure, ProbeJob, Repetition
from nanodyno.records.probe import MemoryRecord, SampleRecord

POWER_CAP = 0x4
SWINGING = ([1.0] * 5 + [1.1] * 3) * 4
"""Of every eight iterations three take a tenth longer."""


@pytest.mark.parametrize(("reasons", "reported"), [(POWER_CAP, ["power-limit"]), (0, ["bursts"])])
def test_swings_are_a_disturbance_unless_the_gpu_is_at_its_power_limit(
    reasons: int, reported: list[str], job: Callable[..., ProbeJob]
) -> None:
    samples = tuple(SampleRecord(seconds=each, micro_steps=2) for each in SWINGING)

    def ask(_: Measure, __: object, watch: Any) -> MemoryRecord:
        for sample in samples:
            watch(child, sample.model_dump(mode="json"))
            watch(child, None)
        return MemoryRecord()

    child: Any = SimpleNamespace(pid=os.getpid(), stage="measuring", ask=ask)
    gpu: Any = SimpleNamespace(read=lambda: GpuReading(sm_mhz=1500, reasons=reasons))
    setup = build_setup(gpu=None, matmul=None)
    repetition = Repetition(child, job().config, setup, gpu, lambda *_: None)
    done = repetition.measure(Measure(precision=0.01, limit_seconds=1), 0, 0, [])
    assert isinstance(done, tuple)
    assert done[0].samples == samples
    assert [each.code for each in done[0].disturbances if each.code != "cpu-contention"] == reported
