"""Samples of the machine while a run trains: who used the cores, how the GPU ran, and who else was on it.

A thread takes them, so that an iteration or an evaluation of any length is sampled in its midst and the loop
never waits for a driver. It asks the system and NVML, never CUDA. The loop's caller takes what there is
between two iterations and writes it.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

import torch

from nanodyno.hardware.telemetry import (
    GpuReading,
    HostReading,
    others,
    process_family,
    read_host,
    watch_gpu,
)
from nanodyno.records.types import TelemetryRecord
from nanodyno.train.processes import Processes

FIRST_SECONDS, LATER_SECONDS, FIRST_MINUTE = 2.0, 10.0, 60.0
"""Between two samples, of which a run of seconds needs some as well, and a run of days needs not more than
8,640 a day. Without a GPU a sample takes 0.4 ms of CPU time (docs/log)."""
FAMILY_SECONDS = 60.0
"""Between two looks at all processes for those of ours: that is the dearest part, and they hardly change."""
LAST_SAMPLE_SECONDS = 5.0
"""How long the end of a run waits for the last sample; a driver that hangs is left behind."""

MachineReading = tuple[HostReading, GpuReading | None]


def machine_reader(device: torch.device, processes: Processes) -> Callable[[], MachineReading]:
    """Return what reads this machine and this process's GPU.

    Of several processes all are ours: they are children of one launcher.
    """
    me, root = os.getpid(), os.getpid() if processes.count == 1 else os.getppid()
    uuid = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else None
    gpu = watch_gpu(str(device), uuid)
    family, looked = process_family(root), time.monotonic()

    def read() -> MachineReading:
        nonlocal family, looked
        if time.monotonic() - looked >= FAMILY_SECONDS:
            family, looked = process_family(root), time.monotonic()
        return read_host(me, family), None if gpu is None else gpu.read()

    return read


def telemetry_record(
    before: HostReading, after: HostReading, gpu: GpuReading | None, iteration: int, wall_time: float
) -> TelemetryRecord:
    """Return one sample: what the counters grew by, and how the GPU stands."""
    used = [seconds - before.process_seconds[pid] for pid, seconds in after.process_seconds.items()
            if pid in before.process_seconds]  # fmt: skip
    return TelemetryRecord(
        iteration=iteration,
        seconds=after.seconds - before.seconds,
        cores=after.cores,
        quota_cores=after.quota_cores,
        busy_core_seconds=_grown(before.busy_seconds, after.busy_seconds),
        own_core_seconds=sum(used) if used else None,
        stolen_core_seconds=_grown(before.stolen_seconds, after.stolen_seconds),
        waited_seconds=_grown(before.waited_seconds, after.waited_seconds),
        swapped_bytes=after.swapped_bytes - before.swapped_bytes,
        load_average=after.load_average,
        available_bytes=after.available_bytes,
        wall_time=wall_time,
        **({} if gpu is None else _of_gpu(gpu, after.process_seconds.keys())),
    )


def _of_gpu(gpu: GpuReading, ours: Collection[int]) -> dict[str, Any]:
    can_tell = any(holder.process in ours for holder in gpu.holders)
    theirs = others([gpu], ours)
    return {
        "sm_mhz": gpu.sm_mhz,
        "memory_mhz": gpu.memory_mhz,
        "power_watts": gpu.power_watts,
        "power_limit_watts": gpu.power_limit_watts,
        "temperature_celsius": gpu.temperature_celsius,
        "gpu_utilization": gpu.utilization,
        "throttle_reasons": gpu.reasons,
        "other_gpu_processes": len(theirs) if can_tell else None,
        "other_gpu_bytes": sum(holder.bytes or 0 for holder, _ in theirs.values()) if can_tell else None,
        "other_gpu_share": sum(share for _, share in theirs.values()) if can_tell and gpu.busy else None,
    }


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


class TelemetrySampler:
    """Takes samples in a thread from `with` to `stop`. What fails there ends the samples, never a training.

    `reader` is called in the thread and returns what reads the machine. `wait` is the clock: it takes seconds
    and returns whether to stop.
    """

    def __init__(
        self,
        reader: Callable[[], Callable[[], MachineReading]],
        iteration: Callable[[], int],
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._reader = reader
        self._iteration = iteration
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._taken: SimpleQueue[TelemetryRecord] = SimpleQueue()
        self._thread = threading.Thread(target=self._sample, name="telemetry", daemon=True)

    def take(self) -> Iterator[TelemetryRecord]:
        """Yield the samples since the last time it was asked."""
        with suppress(Empty):
            while True:
                yield self._taken.get_nowait()

    def stop(self) -> Iterator[TelemetryRecord]:
        """End the thread, and yield what is left: a last sample reaches up to here."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LAST_SAMPLE_SECONDS)
        return self.take()

    def __enter__(self) -> Self:
        with suppress(RuntimeError, MemoryError):  # no more threads
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()

    def _sample(self) -> None:
        with suppress(Exception):  # drivers and systems fail in ways of their own
            read = self._reader()
            before, _ = read()
            began, stopping = before.seconds, False
            while not stopping:
                young = before.seconds - began < FIRST_MINUTE
                stopping = self._wait(FIRST_SECONDS if young else LATER_SECONDS)
                after, gpu = read()
                self._taken.put(telemetry_record(before, after, gpu, self._iteration(), time.time()))
                before = after
