"""A machine looked over: what it is, what works on it, what it reaches. The parent's side, without torch."""

import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from nanodyno.config import DEVICES
from nanodyno.errors import NanodynoError
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.inventory import take_inventory
from nanodyno.hardware.telemetry import (
    CardReading,
    HostReading,
    WatchCard,
    WatchedCard,
    read_host,
    watch_card,
)
from nanodyno.probe import disturbance
from nanodyno.probe.disk import try_disk
from nanodyno.probe.errand import Errand, Found, NotFound, run_errand
from nanodyno.records.ceilings import recall_ceilings, remember_ceilings
from nanodyno.records.checkup import CheckupRecord, CompileRecord, DeviceRecord, HostRecord
from nanodyno.records.probe import Disturbance
from nanodyno.records.types import utc_now

DEVICE_SECONDS = 180.0
COMPILE_SECONDS = 120.0
CEILINGS_SECONDS = 300.0
READ_SECONDS = 0.5
CARD_WIDTHS, HOST_WIDTHS = (384, 768), (128,)
"""Of the recipes."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    device: str = "auto"
    width: int | None = None
    """Of a GPT whose products are measured besides those of the recipes."""
    again: bool = False
    """Measure also what is remembered."""
    quick: bool = False
    """Neither compile nor measure; what is remembered is shown."""


def check_up(wanted: Wanted, folder: Path, tell: Tell, watch: WatchCard = watch_card) -> CheckupRecord:
    """A device that is not there is refused before anything else is done."""
    if re.fullmatch(DEVICES, wanted.device) is None:
        raise NanodynoError(f"--device={wanted.device} is no device", "auto, cpu, cuda, cuda:N or mps")
    inventory = take_inventory()  # before torch takes some of the card's memory
    device = run_errand(Errand(task="device", device=wanted.device), DeviceRecord, DEVICE_SECONDS, tell)
    tell("the host and its disk")
    found = CheckupRecord(at=utc_now(), host=describe_host(), disk=try_disk(folder), inventory=inventory)
    if isinstance(device, NotFound):
        return found.model_copy(update={"device_fault": device.words})
    found = found.model_copy(update={"device": device.value})
    if not wanted.quick:
        tell("a small compilation")
        found = found.model_copy(update={"compiling": _compiled(wanted.device)})
    return found.model_copy(update=_ceilings(wanted, device.value, tell, watch))


def describe_host() -> HostRecord:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return HostRecord(
        platform=platform.platform(),
        python=platform.python_version(),
        memory_bytes=memory.total,
        available_bytes=memory.available,
        swap_bytes=swap.total,
        swap_used_bytes=swap.used,
        card_can_page=disturbance.card_can_page(),
    )


def _compiled(device: str) -> CompileRecord:
    began = time.monotonic()
    done = run_errand(Errand(task="compile", device=device), CompileRecord, COMPILE_SECONDS)
    if isinstance(done, Found):
        return done.value
    return CompileRecord(works=False, seconds=time.monotonic() - began, words=done.words)


def _ceilings(wanted: Wanted, device: DeviceRecord, tell: Tell, watch: WatchCard) -> dict[str, object]:
    """What is to be changed in the record."""
    known = recall_ceilings(device.machine)
    widths = _widths(wanted, device, known)
    if known is not None and not wanted.again and (wanted.quick or set(widths) <= known.gpt.keys()):
        return {"ceilings": known, "remembered": True}
    if wanted.quick:
        return {}
    on_card = device.machine.device_type == "cuda"
    watching = _Watching(watch(wanted.device, device.uuid) if on_card else None)
    errand = Errand(task="ceilings", device=wanted.device, widths=widths)
    done = run_errand(errand, Ceilings, CEILINGS_SECONDS, lambda words: tell(f"ceilings: {words}"), watching)
    if isinstance(done, NotFound):
        return {"ceilings_fault": done.words}
    disturbances = watching.disturbances()
    measured = replace(done.value, disturbed=tuple(each.code for each in disturbances))
    spoilt = disturbance.REFUSED if on_card else {*disturbance.REFUSED, "cpu-contention"}
    kept = not any(each.code in spoilt for each in disturbances)
    cache_fault = remember_ceilings(measured) if kept else None
    return {"ceilings": measured, "kept": kept, "cache_fault": cache_fault, "disturbances": disturbances}


def _widths(wanted: Wanted, device: DeviceRecord, known: Ceilings | None) -> tuple[int, ...]:
    usual = CARD_WIDTHS if device.machine.device_type == "cuda" else HOST_WIDTHS
    more = () if wanted.width is None else (wanted.width,)
    before = () if known is None else tuple(known.gpt)
    return tuple(sorted({*usual, *more, *before}))


class _Watching:
    """The card and the host while the child measures."""

    def __init__(self, card: WatchedCard | None) -> None:
        self._card = card
        self._readings: list[CardReading] = []
        self._read_at = 0.0
        self._first: HostReading | None = None
        self._last: HostReading | None = None
        self._pid = os.getpid()

    def __call__(self, pid: int) -> None:
        now = time.monotonic()
        if now - self._read_at < READ_SECONDS:
            return
        self._read_at, self._pid = now, pid
        self._last = read_host(pid)
        self._first = self._first or self._last
        if self._card is not None:
            self._readings.append(self._card.read())

    def disturbances(self) -> tuple[Disturbance, ...]:
        """The power limit is no disturbance of a ceiling, it is a part of it; nor are idle clocks between."""
        found = disturbance.of_card(self._readings, {self._pid})
        if self._first is not None and self._last is not None and self._last.seconds > self._first.seconds:
            found += disturbance.of_host(self._first, self._last)
        return tuple(each for each in found if each.code not in ("power-limit", "clock-drop"))
