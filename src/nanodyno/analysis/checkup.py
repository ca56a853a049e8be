"""What is to be fixed on a machine, what makes training impossible, what is good to know: from its facts."""

import re
from collections.abc import Iterator

from nanodyno.analysis.findings import Finding, Number, Severity
from nanodyno.analysis.metrics import gpu_of
from nanodyno.hardware.inventory import GpuState
from nanodyno.hardware.telemetry import THERMAL
from nanodyno.records.checkup import CheckupRecord, DeviceRecord, DiskRecord, HostRecord

GIB = 2**30
LITTLE_DISK_BYTES = 5 * GIB
SLOW_DISK_BYTES_PER_SECOND = 100e6
LITTLE_HOST_BYTES = 4 * GIB
LITTLE_GPU_BYTES = 2 * GIB
HELD_SHARE = 0.05
"""Of a GPU's memory, in other programs' hands."""
LOW_CEILING_SHARE = 0.6
"""Of the datasheet: large products reach 70 to 100% where nothing is wrong."""
FRONT_END = "cudnn-packed"


def findings(found: CheckupRecord) -> tuple[Finding, ...]:
    """What makes training impossible first, then what to fix, then what is good to know."""
    device = found.device
    every = [
        *_of_torch(found),
        *(_of_device(device, found) if device is not None else ()),
        *_of_measuring(found),
        *_of_disk(found.disk),
        *_of_host(found.host, device),
    ]
    order: tuple[Severity, ...] = ("impossible", "fix", "note")
    return tuple(sorted(every, key=lambda each: order.index(each.severity)))


def can_train(found: tuple[Finding, ...]) -> bool:
    return not any(each.severity == "impossible" for each in found)


def state_of_gpu(found: CheckupRecord) -> GpuState | None:
    """What NVML knows of the device that training would use."""
    if found.device is None or found.device.machine.device_type != "cuda":
        return None
    uuid = found.device.uuid
    return next((gpu for gpu in found.inventory.gpus if uuid and gpu.uuid == f"GPU-{uuid}"), None)


def free_memory(device: DeviceRecord, gpu: GpuState | None) -> int | None:
    """NVML's word is from before torch took some for itself."""
    return gpu.free_bytes if gpu is not None and gpu.free_bytes is not None else device.free_bytes


def _of_torch(found: CheckupRecord) -> Iterator[Finding]:
    """Yield why there is no GPU where one might be."""
    device, inventory = found.device, found.inventory
    if device is None:
        yield Finding("torch-broken", "impossible", numbers={"words": found.device_fault or "no answer"})
        return
    if device.machine.device_type == "cuda":
        if inventory.fault is not None:
            yield Finding("nvml-silent", "note", numbers={"words": inventory.fault})
        return
    if device.visible or device.machine.device_type == "mps":
        return  # asked for the CPU, or an Apple GPU
    if not inventory.gpus:
        yield Finding("no-gpu", "note", numbers={"words": inventory.fault or "NVIDIA's driver lists none"})
    elif device.cuda is None:
        yield Finding("torch-for-cpu", "fix", numbers={"gpus": len(inventory.gpus), "torch": device.torch})
    else:
        numbers: dict[str, Number] = {"cuda": device.cuda, "driver": inventory.driver or "unknown"}
        yield Finding("gpu-not-seen", "fix", numbers=numbers)


def _of_device(device: DeviceRecord, found: CheckupRecord) -> Iterator[Finding]:
    machine = device.machine
    if machine.device_type == "mps":
        yield Finding("mps-untried", "note", numbers={"dtype": device.dtype})
    if machine.device_type != "cuda":
        return
    if device.rocm:
        yield Finding("rocm-untried", "note")
    if machine.compute_capability and not _is_built_for(machine.compute_capability, device.built_for):
        numbers: dict[str, Number] = {"gpu": machine.device_name, "sm": machine.compute_capability}
        yield Finding("torch-not-for-gpu", "impossible", numbers=numbers)
    if len(set(device.visible)) > 1:
        listed = ", ".join(f"cuda:{number} {name}" for number, name in enumerate(device.visible))
        yield Finding("different-gpus", "note", numbers={"gpus": listed, "meant": machine.device_name})
    if gpu_of(machine) is None:
        yield Finding("unknown-gpu", "note", numbers={"gpu": machine.device_name})
    if not device.bfloat16:
        yield Finding("no-bfloat16", "note", numbers={"gpu": machine.device_name})
    yield from _of_kernels(device)
    yield from _of_gpu(state_of_gpu(found), device)


def _of_kernels(device: DeviceRecord) -> Iterator[Finding]:
    if device.rocm:  # which leaves the fused kernels out
        pass
    elif device.no_triton is not None:
        yield Finding("no-triton", "fix", numbers={"words": device.no_triton})
    elif "No module" in device.attention_faults.get(FRONT_END, ""):
        yield Finding("no-cudnn-front-end", "fix")
    if not device.attention_seconds:
        yield Finding("no-attention", "fix", numbers={"words": "; ".join(device.attention_faults.values())})


def _of_gpu(gpu: GpuState | None, device: DeviceRecord) -> Iterator[Finding]:
    free = free_memory(device, gpu)
    if free is not None and free < LITTLE_GPU_BYTES:
        yield Finding("gpu-full", "fix", numbers={"bytes": free})
    if gpu is None:
        return
    held = sum(holder.bytes or 0 for holder in gpu.holders)
    if gpu.memory_bytes and held > HELD_SHARE * gpu.memory_bytes:
        yield Finding("memory-held", "fix", numbers={"bytes": held, "programs": len(gpu.holders)})
    if gpu.reasons is not None and gpu.reasons & THERMAL:
        yield Finding("hot-gpu", "fix", numbers={"celsius": gpu.temperature_celsius or 0})
    if gpu.lanes and gpu.most_lanes and 2 * gpu.lanes <= gpu.most_lanes:
        yield Finding("few-lanes", "note", numbers={"lanes": gpu.lanes, "most": gpu.most_lanes})


def _is_built_for(capability: str, built_for: tuple[str, ...]) -> bool:
    """Binaries run on later GPUs of a generation, PTX on every later GPU. An unknown list is trusted."""
    major, minor = (int(part) for part in capability.split("."))
    parsed = [found for each in built_for if (found := re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", each))]
    if not parsed:
        return True
    return any(
        (int(each[2]), int(each[3])) <= (major, minor) and (each[1] == "compute" or int(each[2]) == major)
        for each in parsed
    )


def _of_measuring(found: CheckupRecord) -> Iterator[Finding]:
    if found.compiling is not None and not found.compiling.works:
        yield Finding(
            "compile-fails", "fix", numbers={"words": found.compiling.words or "no reason was given"}
        )
    if found.ceilings_fault is not None:
        yield Finding("not-measured", "fix", numbers={"words": found.ceilings_fault})
    if not found.kept:
        yield Finding("not-remembered", "note")
    if found.cache_fault is not None:
        yield Finding("cache-refuses", "fix", numbers={"words": found.cache_fault})
    share = ceiling_fraction(found)
    if share is not None and share < LOW_CEILING_SHARE:
        yield Finding("low-ceiling", "fix", numbers={"share": share})


def ceiling_fraction(found: CheckupRecord) -> float | None:
    """Large products as measured, of what the datasheet promises."""
    if found.ceilings is None or found.device is None:
        return None
    gpu, dtype = gpu_of(found.device.machine), found.device.dtype
    peak = gpu.peak_flops_per_second(dtype) if gpu else None
    reached = found.ceilings.matmul_flops(dtype)
    return reached / peak if peak and reached else None


def _of_disk(disk: DiskRecord) -> Iterator[Finding]:
    if disk.fault is not None:
        yield Finding("disk-refuses", "fix", numbers={"folder": disk.folder, "words": disk.fault})
    if disk.free_bytes is not None and disk.free_bytes < LITTLE_DISK_BYTES:
        yield Finding("little-disk", "fix", numbers={"bytes": disk.free_bytes})
    if disk.bytes and disk.write_seconds and disk.bytes / disk.write_seconds < SLOW_DISK_BYTES_PER_SECOND:
        yield Finding("slow-disk", "fix", numbers={"rate": disk.bytes / disk.write_seconds})


def _of_host(host: HostRecord, device: DeviceRecord | None) -> Iterator[Finding]:
    if host.available_bytes < LITTLE_HOST_BYTES:
        yield Finding("little-memory", "fix", numbers={"bytes": host.available_bytes})
    on_gpu = device is not None and device.machine.device_type == "cuda"
    if on_gpu and host.gpu_can_page:
        yield Finding("gpu-pages", "fix")
