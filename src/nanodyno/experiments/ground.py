"""The machine that is tuned for: looked at in a process of its own, so that this one takes no memory."""

from dataclasses import dataclass

import psutil

from nanodyno.analysis.candidates import Ground
from nanodyno.config import RunConfig
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.target import present_target
from nanodyno.errors import RunFailed
from nanodyno.hardware.inventory import GpuState, take_inventory
from nanodyno.probe.checkup import DeviceRequest, check_device
from nanodyno.probe.process import Failure
from nanodyno.records.checkup import DeviceRecord

MARGIN_BYTES = 2**29
"""To be left free on a card: about what a desktop with a browser takes, or the allocator's gaps."""


@dataclass(frozen=True)
class DeviceState:
    """What is known before anything is measured."""

    device: DeviceRecord
    ground: Ground
    held_bytes: int = 0
    """By other programs on the card."""
    holders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def look_around(config: RunConfig, limit_bytes: int | None) -> DeviceState:
    before = take_inventory().gpus
    found = check_device("device", DeviceRequest(device=config.device), DeviceRecord)
    if isinstance(found, Failure):
        raise RunFailed(f"the device could not be examined: {found.words}", "`nanodyno doctor` reports more")
    return place_of(config, limit_bytes, found, before)


def place_of(
    config: RunConfig, limit_bytes: int | None, device: DeviceRecord, before: tuple[GpuState, ...]
) -> DeviceState:
    """`before`: the cards as NVIDIA's library saw them before we had a process on one."""
    machine = device.machine
    dtype = device.dtype if config.dtype == "auto" else config.dtype
    if machine.device_type != "cuda" or machine.device_memory_bytes is None:
        return DeviceState(
            device, Ground(machine.device_type, dtype, threads=_thread_counts(machine.cpu_threads))
        )
    target = present_target(machine.device_name, machine.device_memory_bytes, limit_bytes)
    state = next((each for each in before if each.uuid and device.uuid and device.uuid in each.uuid), None)
    total = machine.device_memory_bytes
    held = 0 if state is None or state.free_bytes is None else max(0, total - state.free_bytes)
    context, notes = _context(device, state, calibration_for(target.gpu, dtype).context_bytes, held)
    emulated = limit_bytes is not None and limit_bytes < total
    assert target.memory_bytes is not None
    ground = Ground(
        device_type="cuda",
        dtype=target.dtype(config.dtype),
        gpu=target.gpu,
        usable_bytes=min(target.memory_bytes, total - held),
        context_bytes=context,
        margin_bytes=MARGIN_BYTES,
        has_triton=device.no_triton is None,
        has_fp8=device.fp8,
    )
    if held and not emulated:
        notes += (f"other programs hold {held / 2**30:.2f} GiB of the GPU, which are counted as used",)
    names = (
        ()
        if state is None
        else tuple(f"{each.name or 'a process'} ({each.process})" for each in state.holders)
    )
    return DeviceState(device, ground, held, names, notes)


def _context(
    device: DeviceRecord, state: GpuState | None, assumed: int, held: int
) -> tuple[int, tuple[str, ...]]:
    """What is neither free nor torch's nor another program's is the context, in which nothing can be put."""
    total, free, reserved = device.machine.device_memory_bytes, device.free_bytes, device.reserved_bytes
    if state is None or state.free_bytes is None or total is None or free is None or reserved is None:
        note = f"the driver does not report the size of a context: {assumed / 2**30:.2f} GiB is assumed"
        return assumed, (note,)
    return max(0, total - free - reserved - held), ()


def _thread_counts(usual: int) -> tuple[int, ...]:
    """Besides torch's own choice: one a core, one a hardware thread, and half."""
    cores, hardware = psutil.cpu_count(logical=False) or usual, psutil.cpu_count() or usual
    return tuple(sorted({cores, hardware, max(1, cores // 2)} - {usual}))
