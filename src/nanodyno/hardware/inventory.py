"""Which GPUs there are and who holds their memory, by NVIDIA's library, or why it does not say."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nanodyno.hardware.telemetry import MILLI, Holder, process_name


@dataclass(frozen=True)
class GpuState:
    index: int
    """NVML's own: CUDA_VISIBLE_DEVICES renames GPUs for torch alone."""
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    reasons: int | None = None
    """NVML's bit mask of why the clocks are not higher."""
    lanes: int | None = None
    """Of PCI Express, in use."""
    most_lanes: int | None = None
    holders: tuple[Holder, ...] = ()
    """Programs that compute and programs that draw, the largest first."""


@dataclass(frozen=True)
class Inventory:
    driver: str | None = None
    gpus: tuple[GpuState, ...] = ()
    fault: str | None = None
    """Why nothing is known."""


def take_inventory(nvml: Any = None) -> Inventory:
    """Return what NVML reports, or why it does not: without NVIDIA's driver, or without permission."""
    if nvml is None:
        import pynvml

        nvml = pynvml
    try:
        nvml.nvmlInit()
        number = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return Inventory(fault=str(error))
    return Inventory(
        driver=_text(_asked(nvml, nvml.nvmlSystemGetDriverVersion)),
        gpus=tuple(_state(nvml, index) for index in range(number)),
    )


def _state(nvml: Any, index: int) -> GpuState:
    handle = _asked(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:  # a GPU that this user may not ask
        return GpuState(index)
    memory = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    limit = _asked(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    return GpuState(
        index=index,
        name=_text(_asked(nvml, nvml.nvmlDeviceGetName, handle)),
        uuid=_text(_asked(nvml, nvml.nvmlDeviceGetUUID, handle)),
        memory_bytes=None if memory is None else memory.total,
        free_bytes=None if memory is None else memory.free,
        power_limit_watts=None if limit is None else limit / MILLI,
        temperature_celsius=_asked(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        reasons=_asked(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
        lanes=_asked(nvml, nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        most_lanes=_asked(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        holders=_holders(nvml, handle),
    )


def _holders(nvml: Any, handle: Any) -> tuple[Holder, ...]:
    asked: Iterable[Callable[..., Any]] = (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
    )
    found = {each.pid: each.usedGpuMemory for ask in asked for each in _asked(nvml, ask, handle) or ()}
    holders = (Holder(pid, process_name(pid), size) for pid, size in found.items())
    return tuple(sorted(holders, key=lambda each: -(each.bytes or 0)))


def _asked(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    with suppress(nvml.NVMLError):
        return function(*arguments)
    return None


def _text(value: Any) -> str | None:
    """Older versions of the library answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
