"""A machine looked over: what it is, what works on it, what it reaches. The parent's side, without torch."""

import os
import platform
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import psutil

from nanodyno.config import DEVICES
from nanodyno.errors import NanodynoError
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.inventory import take_inventory
from nanodyno.hardware.telemetry import (
    GpuReading,
    HostReading,
    WatchedGpu,
    WatchGpu,
    read_host,
    watch_gpu,
)
from nanodyno.probe import disturbance
from nanodyno.probe.disk import try_disk
from nanodyno.probe.process import Child, Failure, Watch, run_task, unless_refused
from nanodyno.records.ceilings import recall_ceilings, remember_ceilings
from nanodyno.records.checkup import CheckupRecord, CompileRecord, DeviceRecord, HostRecord
from nanodyno.records.events import Notify
from nanodyno.records.probe import Disturbance
from nanodyno.records.types import Record, utc_now

LIMIT_SECONDS = {"device": 180.0, "compiler": 120.0, "ceilings": 300.0}
"""By task of device_checks.py."""
READ_SECONDS = 0.5
GPU_WIDTHS, HOST_WIDTHS = (384, 768), (128,)
"""Of the recipes."""

T = TypeVar("T")


@dataclass(frozen=True)
class CheckupRequest:
    device: str = "auto"
    width: int | None = None
    """Of a GPT whose products are measured besides those of the recipes."""
    again: bool = False
    """Measure also what is remembered."""
    quick: bool = False
    """Neither compile nor measure; what is remembered is shown."""


class DeviceRequest(Record):
    """What each of the device checks is asked."""

    device: str
    widths: tuple[int, ...] = ()


def check_device(
    task: str, request: DeviceRequest, kind: type[T], watch: Watch = lambda *_: None
) -> T | Failure:
    """Return what a check finds, from a child of its own. A device that is not here is a user's mistake."""
    name = f"nanodyno.probe.device_checks:{task}"
    return unless_refused(run_task(name, request, kind, watch, LIMIT_SECONDS[task]))


def check_up(
    wanted: CheckupRequest, folder: Path, tell: Notify, watch: WatchGpu = watch_gpu
) -> CheckupRecord:
    """A device that is not there is refused before anything else is done."""
    if re.fullmatch(DEVICES, wanted.device) is None:
        raise NanodynoError(f"--device={wanted.device} is not a device", "use auto, cpu, cuda, cuda:N or mps")
    inventory = take_inventory()  # before torch takes some of the GPU's memory
    request = DeviceRequest(device=wanted.device)
    device = check_device("device", request, DeviceRecord, lambda _, words: words and tell(words))
    tell("the host and its disk")
    found = CheckupRecord(at=utc_now(), host=describe_host(), disk=try_disk(folder), inventory=inventory)
    if isinstance(device, Failure):
        return found.model_copy(update={"device_fault": device.words})
    found = found.model_copy(update={"device": device})
    if not wanted.quick and device.machine.device_type != "mps":  # where training does not compile
        tell("a small compilation")
        found = found.model_copy(update={"compiling": _compiled(request)})
    return found.model_copy(update=_ceilings(wanted, device, tell, watch))


def describe_host() -> HostRecord:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return HostRecord(
        platform=platform.platform(),
        python=platform.python_version(),
        memory_bytes=memory.total,
        available_bytes=memory.available,
        swap_bytes=swap.total,
        swap_used_bytes=swap.used,
        gpu_can_page=disturbance.gpu_can_page(),
    )


def _compiled(request: DeviceRequest) -> CompileRecord:
    began = time.monotonic()
    done = check_device("compiler", request, CompileRecord)
    if isinstance(done, Failure):
        return CompileRecord(works=False, seconds=time.monotonic() - began, words=done.words)
    return done


def _ceilings(
    wanted: CheckupRequest, device: DeviceRecord, tell: Notify, watch: WatchGpu
) -> dict[str, object]:
    """What is to be changed in the record."""
    known = recall_ceilings(device.machine)
    widths = _widths(wanted, device, known)
    if known is not None and not wanted.again and (wanted.quick or set(widths) <= known.gpt.keys()):
        return {"ceilings": known, "remembered": True}
    if wanted.quick:
        return {}
    on_gpu = device.machine.device_type == "cuda"
    watching = _Watching(watch(wanted.device, device.uuid) if on_gpu else None, tell)
    request = DeviceRequest(device=wanted.device, widths=widths)
    done = check_device("ceilings", request, Ceilings, watching)
    if isinstance(done, Failure):
        return {"ceilings_fault": done.words}
    disturbances = watching.disturbances()
    measured = replace(done, disturbed=tuple(each.code for each in disturbances))
    spoilt = disturbance.REFUSED if on_gpu else {*disturbance.REFUSED, "cpu-contention"}
    kept = not any(each.code in spoilt for each in disturbances)
    cache_fault = remember_ceilings(measured) if kept else None
    return {"ceilings": measured, "kept": kept, "cache_fault": cache_fault, "disturbances": disturbances}


def _widths(wanted: CheckupRequest, device: DeviceRecord, known: Ceilings | None) -> tuple[int, ...]:
    usual = GPU_WIDTHS if device.machine.device_type == "cuda" else HOST_WIDTHS
    more = () if wanted.width is None else (wanted.width,)
    before = () if known is None else tuple(known.gpt)
    return tuple(sorted({*usual, *more, *before}))


class _Watching:
    """The GPU and the host while the child measures."""

    def __init__(self, gpu: WatchedGpu | None, tell: Notify) -> None:
        self._gpu = gpu
        self._tell = tell
        self._readings: list[GpuReading] = []
        self._read_at = 0.0
        self._first: HostReading | None = None
        self._last: HostReading | None = None
        self._pid = os.getpid()

    def __call__(self, child: Child, words: str | None) -> None:
        if words is not None:
            self._tell(f"ceilings: {words}")
        now = time.monotonic()
        if now - self._read_at < READ_SECONDS:
            return
        self._read_at, self._pid = now, child.pid
        self._last = read_host(child.pid)
        self._first = self._first or self._last
        if self._gpu is not None:
            self._readings.append(self._gpu.read())

    def disturbances(self) -> tuple[Disturbance, ...]:
        """The power limit is no disturbance of a ceiling, it is a part of it; nor are idle clocks between."""
        found = disturbance.of_gpu(self._readings, {self._pid})
        if self._first is not None and self._last is not None and self._last.seconds > self._first.seconds:
            found += disturbance.of_host(self._first, self._last)
        return tuple(each for each in found if each.code not in ("power-limit", "clock-drop"))
