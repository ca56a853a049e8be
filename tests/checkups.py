"""Builders of machines, ceilings and checkups: a plugin of conftest.py."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from nanodyno.hardware.ceilings import Ceilings, Matmul, Timing
from nanodyno.hardware.inventory import GpuState, Inventory
from nanodyno.records.ceilings import device_of
from nanodyno.records.checkup import CheckupRecord, CompileRecord, DeviceRecord, DiskRecord, HostRecord
from nanodyno.records.types import MachineRecord

GIB = 2**30

H200: dict[str, Any] = {
    "device_type": "cuda",
    "device_name": "NVIDIA H200",
    "device_memory_bytes": 150_754_820_096,
    "multiprocessors": 132,
    "compute_capability": "9.0",
    "driver": "580.159",
}


def build_machine(**changes: Any) -> MachineRecord:
    """A host with an H200; device_type="cpu" has none."""
    host: dict[str, Any] = {"cpu_name": "some CPU", "cpu_count": 8, "cpu_threads": 8, "platform": "Linux"}
    device: dict[str, Any] = {"device_name": "some CPU"} if changes.get("device_type") == "cpu" else H200
    return MachineRecord(**(host | device | changes))


def build_ceilings(machine: MachineRecord | None = None, **changes: Any) -> Ceilings:
    """Of an H200: 791.2 TFLOP/s, 80% of its datasheet, and so on."""
    square = Matmul(8192, 8192, 8192, Timing(791.2e9, (0.00099, 0.001, 0.001, 0.001, 0.00101)))
    values: dict[str, Any] = {
        "device": device_of(machine or build_machine()),
        "torch": "2.13",
        "measured_at": 1_763_230_000.0,
        "seconds": 19.0,
        "large": {"bfloat16": square},
        "gpt_dtype": "bfloat16",
        "gpt": {768: {"fc forward": Matmul(8192, 3072, 768, Timing(6.5e9, (1e-5, 1e-5)))}},
        "copy": Timing(4.2e9, (0.001, 0.001, 0.001, 0.001)),
        "host_to_device": Timing(5.5e7, (0.001,)),
        "launch": Timing(500, (0.001,)),
        "micro_step": {"eager": Timing(5, (0.07,)), "graph": Timing(5, (0.002,))},
    }
    return Ceilings(**(values | changes))


def build_device(machine: MachineRecord | None = None, **changes: Any) -> DeviceRecord:
    values: dict[str, Any] = {
        "machine": machine or build_machine(),
        "uuid": "7c1f",
        "visible": ("NVIDIA H200",),
        "free_bytes": 139 * GIB,
        "torch": "2.13.0+cu130",
        "cuda": "13.0",
        "built_for": ("sm_80", "sm_90", "compute_90"),
        "cudnn": 91900,
        "triton": "3.6.0",
        "dtype": "bfloat16",
        "bfloat16": True,
        "float16": True,
        "fp8": True,
        "attention_seconds": {"flash": 0.0003, "cudnn-packed": 0.0002},
        "attention_faults": {"fa3": "No module named 'flash_attn_interface'"},
        "attention_shape": (8, 12, 1024, 64),
    }
    return DeviceRecord(**(values | changes))


def build_checkup(**changes: Any) -> CheckupRecord:
    """A machine in order, with an H200."""
    gpu = GpuState(
        0, "NVIDIA H200", "GPU-7c1f", 150_754_820_096, 139 * GIB, 700.0, 40, 0, lanes=16, most_lanes=16
    )
    values: dict[str, Any] = {
        "at": datetime(2026, 11, 15, tzinfo=UTC),
        "host": HostRecord(
            platform="Linux-6.8",
            python="3.11.7",
            memory_bytes=128 * GIB,
            available_bytes=100 * GIB,
            swap_bytes=0,
            swap_used_bytes=0,
            gpu_can_page=False,
        ),
        "disk": DiskRecord(
            folder="/runs", free_bytes=700 * GIB, bytes=2**28, write_seconds=0.25, read_seconds=0.1
        ),
        "inventory": Inventory("580.159", (gpu,)),
        "device": build_device(),
        "compiling": CompileRecord(works=True, seconds=8.0),
        "ceilings": build_ceilings(),
    }
    return CheckupRecord(**(values | changes))


@pytest.fixture(scope="session")
def machine() -> Callable[..., MachineRecord]:
    return build_machine


@pytest.fixture(scope="session")
def ceilings() -> Callable[..., Ceilings]:
    return build_ceilings


@pytest.fixture(scope="session")
def device() -> Callable[..., DeviceRecord]:
    return build_device


@pytest.fixture(scope="session")
def checkup() -> Callable[..., CheckupRecord]:
    return build_checkup
