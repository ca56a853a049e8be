"""What the card and the host say about themselves: what there is, and how it goes while a child measures.

Thin on purpose: what readings mean is said elsewhere. What a driver or a system does not tell is None.
"""

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

NANO, MILLI, PERCENT = 1e9, 1e3, 100.0


@dataclass(frozen=True)
class Holder:
    """A process with memory on the card."""

    process: int
    name: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class GpuReading:
    sm_mhz: int | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    reasons: int | None = None
    """NVML's bit mask of why the clocks are not higher."""
    busy: dict[int, float] = field(default_factory=dict[int, float])
    """Share of the card's multiprocessors by process."""
    holders: tuple[Holder, ...] = ()


class WatchedGpu:
    """One card through NVML."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._seen = time.time_ns() // 1000

    def read(self) -> GpuReading:
        nvml, handle = self._nvml, self._handle
        power = self._asked(nvml.nvmlDeviceGetPowerUsage, handle)
        return GpuReading(
            sm_mhz=self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            temperature_celsius=self._asked(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_watts=None if power is None else power / MILLI,
            # The older of two names for one call: drivers old and new know it.
            reasons=self._asked(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
            busy=self._busy(),
            holders=self.holders(),
        )

    def holders(self) -> tuple[Holder, ...]:
        """Every process that computes on the card, with its memory there."""
        processes = self._asked(self._nvml.nvmlDeviceGetComputeRunningProcesses, self._handle) or []
        return tuple(
            Holder(process=each.pid, name=process_name(each.pid), bytes=each.usedGpuMemory)
            for each in processes
        )

    def _busy(self) -> dict[int, float]:
        """Since the last time it was asked; empty also where the driver does not tell."""
        samples = self._asked(self._nvml.nvmlDeviceGetProcessUtilization, self._handle, self._seen) or []
        self._seen = max((sample.timeStamp for sample in samples), default=self._seen)
        return {sample.pid: sample.smUtil / PERCENT for sample in samples if sample.pid}

    def _asked(self, function: Any, *arguments: Any) -> Any:
        with suppress(self._nvml.NVMLError):
            return function(*arguments)
        return None


WatchGpu = Callable[[str, str | None], WatchedGpu | None]


def watch_gpu(device: str, uuid: str | None) -> WatchedGpu | None:
    """By the UUID that torch has named, else by the number in the config; None without NVIDIA's driver."""
    if device in ("cpu", "mps"):
        return None
    import pynvml

    try:
        pynvml.nvmlInit()
        if uuid is not None:
            return WatchedGpu(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))
        return WatchedGpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(_index(device)))
    except pynvml.NVMLError:
        return None


def _index(device: str) -> int:
    """NVML's number of a card: CUDA_VISIBLE_DEVICES renames cards for torch alone."""
    number = int(device.partition(":")[2] or 0)
    visible = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    if number < len(visible) and visible[number].isdecimal():
        return int(visible[number])
    return number


def process_name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None


@dataclass(frozen=True)
class HostReading:
    """Counters that only grow; two readings tell what lay between them."""

    seconds: float
    cores: int
    waited_seconds: float | None
    """The child's main thread could have run, and another one had its core."""
    stolen_seconds: float | None
    """Of all cores of a virtual machine, taken by its host."""
    swapped_bytes: int


def read_host(pid: int) -> HostReading:
    swap = psutil.swap_memory()
    return HostReading(
        seconds=time.monotonic(),
        cores=psutil.cpu_count() or 1,
        waited_seconds=_waited(pid),
        stolen_seconds=getattr(psutil.cpu_times(), "steal", None),
        swapped_bytes=swap.sin + swap.sout,
    )


def _waited(pid: int) -> float | None:
    """Linux counts it, in nanoseconds, as the second number of schedstat."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / NANO
    except (OSError, IndexError, ValueError):
        return None


def others(readings: Collection[GpuReading], ours: Collection[int]) -> dict[int, tuple[Holder, float]]:
    """Processes on the card that are not ours, with the largest share of it that each was seen to use.

    Inside a container NVML may number processes as the host does. Then ours is not among them, and nothing
    can be told apart.
    """
    holders = {holder.process: holder for reading in readings for holder in reading.holders}
    if not holders.keys() & set(ours):
        return {}
    return {
        pid: (holder, max((reading.busy.get(pid, 0.0) for reading in readings), default=0.0))
        for pid, holder in holders.items()
        if pid not in ours
    }
