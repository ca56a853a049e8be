"""What the GPU and the host report about themselves while a process measures or trains.

Thin on purpose: what readings mean is decided elsewhere. What a driver or a system does not report is None.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from nanodyno.hardware.host import available_memory, cpu_quota

NANO, MILLI, PERCENT = 1e9, 1e3, 100.0

IDLE = 0x1
POWER_CAP = 0x4
SLOWDOWN = 0x8
THERMAL = 0x20 | 0x40
POWER_BRAKE = 0x80
"""Bits of NVML's mask of why the clocks are not higher."""
Throttling = Literal["thermal", "power-brake", "power-limit"]


def throttling(mask: int) -> frozenset[Throttling]:
    """Return why the clocks are lowered: by heat, by the power supply, or by the GPU's own power limit.

    A slowdown by the hardware comes with its cause; alone it is taken for heat. The power limit is no fault:
    a GPU under full load runs there, as fast as it will for the whole run.
    """
    found: set[Throttling] = set()
    if mask & POWER_BRAKE:
        found.add("power-brake")
    elif mask & (THERMAL | SLOWDOWN):
        found.add("thermal")
    if mask & POWER_CAP:
        found.add("power-limit")
    return frozenset(found)


@dataclass(frozen=True)
class Holder:
    """A process with memory on the card."""

    process: int
    name: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class GpuReading:
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    utilization: float | None = None
    """Share of the last moments in which a kernel ran."""
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
        limit = self._asked(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        used = self._asked(nvml.nvmlDeviceGetUtilizationRates, handle)
        return GpuReading(
            sm_mhz=self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_mhz=self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            temperature_celsius=self._asked(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_watts=None if power is None else power / MILLI,
            power_limit_watts=None if limit is None else limit / MILLI,
            utilization=None if used is None else used.gpu / PERCENT,
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
    """Counters that only grow, so that two readings say what lay between them; and how things stand now."""

    seconds: float
    cores: int
    """That the process may run on."""
    waited_seconds: float | None
    """The process's main thread could have run, and another one had its core."""
    stolen_seconds: float | None
    """Of these cores of a virtual machine, taken by its host."""
    swapped_bytes: int
    busy_seconds: float | None = None
    """Of these cores, by any program."""
    process_seconds: dict[int, float] = field(default_factory=dict[int, float])
    """CPU time of each of our processes, with that of its children that have ended."""
    quota_cores: float | None = None
    """What a container may use at once, where it has such a limit."""
    load_average: float | None = None
    """Programs that ran or waited for a core, over the last minute."""
    available_bytes: int | None = None


def read_host(pid: int, ours: Iterable[int] = ()) -> HostReading:
    """Read the host's counters. `ours` are the processes whose CPU time is ours."""
    swap = psutil.swap_memory()
    times = _times_of_cores(pid)
    steals = [each.steal for each in times if hasattr(each, "steal")]
    return HostReading(
        seconds=time.monotonic(),
        cores=len(times) or 1,
        waited_seconds=_waited(pid),
        stolen_seconds=sum(steals) if steals else None,
        swapped_bytes=swap.sin + swap.sout,
        busy_seconds=sum(_busy_seconds(each) for each in times) if times else None,
        process_seconds={each: used for each in ours if (used := _process_seconds(each)) is not None},
        quota_cores=cpu_quota(),
        load_average=psutil.getloadavg()[0],
        available_bytes=available_memory(),
    )


def process_family(root: int) -> tuple[int, ...]:
    """Return a process and all that it started. It looks at every process there is: not for every reading."""
    try:
        return (root, *(each.pid for each in psutil.Process(root).children(recursive=True)))
    except psutil.Error:
        return (root,)


def _times_of_cores(pid: int) -> list[Any]:
    """CPU times of each core that the process may run on."""
    times = psutil.cpu_times(percpu=True)
    try:
        allowed = psutil.Process(pid).cpu_affinity()
    except (psutil.Error, AttributeError):  # macOS binds no process to cores
        return times
    if not allowed or max(allowed) >= len(times):  # cores that are off are not listed
        return times
    return [times[core] for core in allowed]


def _busy_seconds(times: Any) -> float:
    """Time in programs and in the kernel. A virtual machine's guests are within `user` already."""
    return sum(getattr(times, each, 0.0) for each in ("user", "nice", "system", "irq", "softirq"))


def _process_seconds(pid: int) -> float | None:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return times.user + times.system + times.children_user + times.children_system


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
