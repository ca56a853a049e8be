"""NVIDIA's library made up: what it tells, and what it refuses to."""

from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.hardware.inventory import GpuState, Inventory, take_inventory
from nanodyno.hardware.telemetry import Holder

GIB = 2**30
NOBODY = 2**22 + 1


class Refused(Exception):
    pass


class Library:
    """Two cards; what is not an attribute is refused."""

    NVMLError = Refused
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def ask(*arguments: Any) -> Any:
            if name not in self._answers:
                raise Refused(f"{name}: Insufficient Permissions")
            answer = self._answers[name]
            return answer(*arguments) if callable(answer) else answer

        return ask


ANSWERS: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlDeviceGetCount": 2,
    "nvmlSystemGetDriverVersion": b"580.95",
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetName": lambda handle: f"card {handle}",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=12 * GIB, free=9 * GIB),
    "nvmlDeviceGetEnforcedPowerLimit": 200_000,
    "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=NOBODY, usedGpuMemory=GIB)],
    "nvmlDeviceGetGraphicsRunningProcesses": [SimpleNamespace(pid=NOBODY + 1, usedGpuMemory=2 * GIB)],
}


def test_every_gpu_is_reported_with_who_computes_and_draws_on_it_the_largest_first() -> None:
    found = take_inventory(Library(**ANSWERS))
    assert found.driver == "580.95"
    assert [gpu.name for gpu in found.gpus] == ["card 0", "card 1"]
    first = found.gpus[0]
    assert (first.memory_bytes, first.free_bytes, first.power_limit_watts) == (12 * GIB, 9 * GIB, 200.0)
    assert first.holders == (Holder(NOBODY + 1, None, 2 * GIB), Holder(NOBODY, None, GIB))


def test_what_the_library_refuses_is_not_known_and_the_rest_is() -> None:
    few = {key: ANSWERS[key] for key in ("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName")}
    assert take_inventory(Library(**few)).gpus == (GpuState(0), GpuState(1))
    denied = Library(**{key: value for key, value in ANSWERS.items() if "Processes" not in key})
    assert take_inventory(denied).gpus[0].holders == ()


@pytest.mark.parametrize("refuses", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_the_driver_or_the_right_to_ask_it_the_reason_is_reported(refuses: str) -> None:
    answers = {key: value for key, value in ANSWERS.items() if key != refuses}
    assert take_inventory(Library(**answers)) == Inventory(fault=f"{refuses}: Insufficient Permissions")
