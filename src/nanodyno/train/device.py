"""The device of a run: chosen from the config, named for the record, synchronised before a clock is read."""

import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from nanodyno.config import DEVICES, RunConfig
from nanodyno.costs.setup import Dtype
from nanodyno.errors import NanodynoError
from nanodyno.hardware.inventory import take_inventory
from nanodyno.records.types import MachineRecord

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class DeviceChoice:
    """What the config's device and dtype come to on this machine, with what had to change."""

    device: torch.device
    dtype: Dtype
    notes: tuple[str, ...] = ()


def choose(config: RunConfig, local_rank: int = 0) -> DeviceChoice:
    """Of several processes on one machine each has the GPU of its number."""
    device = choose_device(config.device, local_rank)
    if config.dtype == "auto":
        return DeviceChoice(device, _best_dtype(device))
    if config.dtype == "bfloat16" and device.type == "cuda" and not _has_bfloat16(device):
        note = (
            f"{torch.cuda.get_device_name(device)} has no bfloat16: "
            "training in float16 with a loss scaler instead"
        )
        return DeviceChoice(device, "float16", (note,))
    return DeviceChoice(device, config.dtype)


def choose_device(wanted: str, local_rank: int = 0) -> torch.device:
    """The device asked for; `auto` takes a GPU where there is one."""
    if wanted in ("auto", "cuda") and local_rank and torch.cuda.is_available():
        wanted = f"cuda:{local_rank}"
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    if re.fullmatch(DEVICES, wanted) is None:
        raise NanodynoError(f"unknown device {wanted!r}", "use auto, cpu, cuda, cuda:N or mps")
    device = torch.device(wanted)
    if device.type == "cuda":
        return _cuda_device(device)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise NanodynoError(
            "device=mps, but torch finds no Apple GPU here", "use --device=cpu or --device=auto"
        )
    return device


def _cuda_device(device: torch.device) -> torch.device:
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        hint = (
            "the driver may be missing or too old for this torch: check `nvidia-smi`, or use --device=cpu"
            if built
            else "this torch was built for the CPU: install a CUDA build, or use --device=cpu"
        )
        raise NanodynoError(f"device={device}, but torch finds no CUDA device here", hint)
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise NanodynoError(
            f"device={device}, but this machine has {torch.cuda.device_count()} GPUs, from cuda:0 on"
        )
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def _has_bfloat16(device: torch.device) -> bool:
    """Emulation does not count: Turing and Volta would run it, far slower than float16."""
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def _best_dtype(device: torch.device) -> Dtype:
    if device.type != "cuda":
        return "float32"
    return "bfloat16" if _has_bfloat16(device) else "float16"


def on_rocm() -> bool:
    """Return whether torch is a build for AMD GPUs, which it calls cuda too."""
    return torch.version.hip is not None


def on_mps(device: torch.device) -> bool:
    """Return whether the device is an Apple GPU."""
    return device.type == "mps"


def take_threads(number: int | None) -> None:
    """For what is computed on the CPU; None leaves torch its choice."""
    if number is not None:
        torch.set_num_threads(number)


class Clock:
    """Seconds, read only after the device has finished what it was given."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def seconds(self) -> float:
        synchronise(self.device)
        return time.perf_counter()


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@dataclass(frozen=True)
class PeakMemory:
    """Bytes since the last reset; the host's since the process began."""

    allocated: int | None
    reserved: int | None
    host: int | None


def peak_memory(device: torch.device, graph_bytes: int = 0) -> PeakMemory:
    """`graph_bytes` is what a CUDA graph uses when it runs: torch counted it once, when it was captured."""
    if device.type != "cuda":
        return PeakMemory(None, None, _peak_host_bytes())
    stats = torch.cuda.memory_stats_as_nested_dict(device)  # torch.cuda.memory_stats sorts them: slow
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    in_graph = allocated["current"] + graph_bytes
    return PeakMemory(max(allocated["peak"], in_graph), reserved["peak"], _peak_host_bytes())


def allocated_memory(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def reset_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


NO_MEMORY = (
    "can't allocate memory",
    "Storage size calculation overflowed",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """On the host torch has no class of its own for it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = str(error) if isinstance(error, RuntimeError) else ""
    return any(each in words for each in NO_MEMORY)


def free_cached_memory(device: torch.device) -> None:
    """Gives back what the allocator keeps for later, so that another split of it can be made."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def _peak_host_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe_machine(device: torch.device) -> MachineRecord:
    cpu = _cpu_name()
    facts: dict[str, object] = {"device_name": cpu}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts = {
            "device_name": properties.name,
            "device_memory_bytes": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "driver": None if on_rocm() else _nvidia_driver(),
        }
    elif on_mps(device):
        facts["device_memory_bytes"] = torch.mps.recommended_max_memory()
    return MachineRecord.model_validate(
        {
            "device_type": device.type,
            "cpu_name": cpu,
            "cpu_count": os.cpu_count() or 1,
            "cpu_threads": torch.get_num_threads(),
            "platform": platform.platform(),
            **facts,
        }
    )


def gpu_key(device: torch.device, *more: object) -> str:
    """What a GPU's own measurements are remembered by, and all else they depend on."""
    return "; ".join(map(str, (torch.cuda.get_device_name(device), torch.__version__, *more)))


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":  # where Python knows no more than `arm`
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=False,
        )
        if name := asked.stdout.strip():
            return name
    return platform.processor() or platform.machine()


def _nvidia_driver() -> str | None:
    """The kernel module's own word; on Windows and under WSL that of NVIDIA's library."""
    version = Path("/sys/module/nvidia/version")
    return version.read_text().strip() if version.exists() else take_inventory().driver
