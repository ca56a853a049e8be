"""The sampler with a machine and a clock that are made up."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nanodyno.hardware.telemetry import GpuReading, Holder, HostReading
from nanodyno.train.telemetry import (
    FIRST_SECONDS,
    LATER_SECONDS,
    MachineReading,
    TelemetrySampler,
    telemetry_record,
)


def host(seconds: float, **changes: Any) -> HostReading:
    """Two cores that are busy all the time, one of them for process 10."""
    values: dict[str, Any] = {
        "seconds": seconds,
        "cores": 2,
        "waited_seconds": 0.25 * seconds,
        "stolen_seconds": 0.5 * seconds,
        "swapped_bytes": 7,
        "busy_seconds": 2 * seconds,
        "process_seconds": {10: seconds},
    }
    return HostReading(**(values | changes))


def test_a_sample_is_what_the_counters_grew_by() -> None:
    found = telemetry_record(host(10.0), host(14.0, load_average=3.5), None, 8, 99.0)
    assert (found.iteration, found.seconds, found.cores, found.wall_time) == (8, 4.0, 2, 99.0)
    assert (found.busy_core_seconds, found.own_core_seconds) == (8.0, 4.0)
    assert (found.waited_seconds, found.stolen_core_seconds) == (1.0, 2.0)
    assert (found.swapped_bytes, found.load_average, found.sm_mhz) == (0, 3.5, None)


def test_what_a_system_does_not_count_is_not_measured() -> None:
    silent = {"waited_seconds": None, "stolen_seconds": None, "busy_seconds": None, "process_seconds": {}}
    found = telemetry_record(host(1.0, **silent), host(2.0, **silent), None, 0, 0.0)
    assert found.waited_seconds is found.stolen_core_seconds is None
    assert found.busy_core_seconds is found.own_core_seconds is None


def test_a_child_that_came_meanwhile_brings_no_time_of_before() -> None:
    after = host(4.0, process_seconds={10: 4.0, 11: 50.0})
    assert telemetry_record(host(2.0), after, None, 0, 0.0).own_core_seconds == 2.0


def test_others_on_the_gpu_are_those_that_are_not_ours() -> None:
    holders = (Holder(10, bytes=100), Holder(77, bytes=30), Holder(78, bytes=12))
    gpu = GpuReading(sm_mhz=1500, reasons=0x4, busy={10: 0.5, 77: 0.3, 78: 0.1}, holders=holders)
    found = telemetry_record(host(0.0), host(1.0), gpu, 0, 0.0)
    assert (found.sm_mhz, found.throttle_reasons) == (1500, 0x4)
    assert (found.other_gpu_processes, found.other_gpu_bytes) == (2, 42)
    assert found.other_gpu_share == pytest.approx(0.4)


def test_of_a_driver_that_does_not_report_use_no_share_is_known() -> None:
    gpu = GpuReading(holders=(Holder(10), Holder(77, bytes=30)))
    found = telemetry_record(host(0.0), host(1.0), gpu, 0, 0.0)
    assert (found.other_gpu_processes, found.other_gpu_bytes, found.other_gpu_share) == (1, 30, None)


def test_in_a_container_whose_processes_have_other_numbers_nobody_is_another() -> None:
    gpu = GpuReading(busy={4242: 0.9}, holders=(Holder(4242, bytes=30),))
    found = telemetry_record(host(0.0), host(1.0), gpu, 0, 0.0)
    assert found.other_gpu_processes is found.other_gpu_bytes is found.other_gpu_share is None


def test_samples_are_close_in_the_first_minute_and_a_last_one_reaches_to_the_end() -> None:
    moments = iter([0.0, 2.0, 58.0, 60.0, 70.0, 71.0])
    waits: list[float] = []
    ended = threading.Event()

    def read() -> MachineReading:
        return host(next(moments)), None

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 5:
            ended.set()
        return len(waits) == 5

    with TelemetrySampler(lambda: read, lambda: len(waits), wait) as sampler:
        ended.wait()
        found = list(sampler.stop())
    assert waits == [*[FIRST_SECONDS] * 3, *[LATER_SECONDS] * 2]
    assert [(each.iteration, each.seconds) for each in found] == [
        (1, 2.0), (2, 56.0), (3, 2.0), (4, 10.0), (5, 1.0),
    ]  # fmt: skip
    assert list(sampler.take()) == []


@pytest.mark.parametrize(
    "error", [OSError("too many open files"), ZeroDivisionError(), RuntimeError("no mem line"), KeyError("x")]
)
def test_a_machine_that_can_be_asked_no_more_ends_the_samples_alone(error: Exception) -> None:
    readings: Iterator[HostReading] = iter([host(0.0), host(2.0)])

    def read() -> MachineReading:
        for each in readings:
            return each, None
        raise error

    with TelemetrySampler(lambda: read, lambda: 0, lambda _: False) as sampler:
        assert [each.seconds for each in sampler.stop()] == [2.0]


def test_a_machine_that_cannot_be_asked_at_all_has_no_samples() -> None:
    def reader() -> Callable[[], MachineReading]:
        raise ImportError("pynvml")

    with TelemetrySampler(reader, lambda: 0) as sampler:
        assert list(sampler.stop()) == []


def test_without_another_thread_there_are_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    sampler = TelemetrySampler(lambda: lambda: (host(0.0), None), lambda: 0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with sampler:
        assert list(sampler.stop()) == []
