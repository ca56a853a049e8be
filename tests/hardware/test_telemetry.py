import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from nanodyno.hardware import telemetry
from nanodyno.hardware.telemetry import (
    GpuReading,
    Holder,
    WatchedGpu,
    process_family,
    read_host,
    watch_gpu,
)

Nvml = Callable[..., Any]


def process(pid: int, memory: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def use(pid: int, share: int, time: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, smUtil=share, timeStamp=time)


def test_a_reading_is_in_watts_degrees_and_megahertz(nvml: Nvml) -> None:
    assert WatchedGpu(nvml(reasons=0x4), None).read() == GpuReading(
        sm_mhz=1980,
        memory_mhz=3201,
        temperature_celsius=87,
        power_watts=345.6,
        power_limit_watts=700.0,
        utilization=0.96,
        reasons=0x4,
    )


def test_a_process_on_the_gpu_has_its_name_and_its_memory(nvml: Nvml) -> None:
    us = os.getpid()
    (holder,) = WatchedGpu(nvml(holders=(process(us, 2**30),)), None).holders()
    assert holder == Holder(process=us, name=psutil.Process(us).name(), bytes=2**30)


def test_a_process_that_cannot_be_seen_has_no_name(nvml: Nvml) -> None:
    (holder,) = WatchedGpu(nvml(holders=(process(2**22 + 1, None),)), None).holders()
    assert (holder.name, holder.bytes) == (None, None)


def test_the_use_of_a_process_is_a_share_of_the_gpu(nvml: Nvml) -> None:
    assert WatchedGpu(nvml(busy=(use(20, 35, 5), use(0, 9, 6))), None).read().busy == {20: 0.35}


def test_a_cpu_has_no_gpu() -> None:
    assert watch_gpu("cpu", None) is None


@pytest.mark.parametrize(
    ("visible", "device", "number"),
    [("", "auto", 0), ("", "cuda:1", 1), ("2,3", "cuda:1", 3), ("GPU-7c1f", "cuda", 0)],
)
def test_a_gpu_that_was_renamed_for_torch_is_found_by_its_own_number(
    monkeypatch: pytest.MonkeyPatch, visible: str, device: str, number: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert telemetry._index(device) == number


def test_counters_of_a_host_only_grow() -> None:
    first, second = read_host(os.getpid()), read_host(os.getpid())
    assert second.seconds > first.seconds
    assert second.swapped_bytes >= first.swapped_bytes
    assert (second.waited_seconds or 0) >= (first.waited_seconds or 0)


def test_a_process_that_is_gone_has_waited_an_unknown_time() -> None:
    assert read_host(2**22 + 1).waited_seconds is None


def test_the_time_of_our_processes_is_within_that_of_the_cores() -> None:
    us = os.getpid()
    first = read_host(us, [us])
    sum(range(1_000_000))
    second = read_host(us, [us])
    assert second.process_seconds[us] >= first.process_seconds[us] > 0
    assert (second.busy_seconds or 0) >= second.process_seconds[us]
    assert 1 <= second.cores <= (psutil.cpu_count() or 1)


def test_a_process_that_is_gone_has_no_time_and_no_family() -> None:
    assert read_host(os.getpid(), [2**22 + 1]).process_seconds == {}
    assert process_family(2**22 + 1) == (2**22 + 1,)
    assert process_family(os.getpid())[0] == os.getpid()
