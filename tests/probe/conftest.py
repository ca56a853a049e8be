from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.config import build_config
from nanodyno.probe.messages import ProbeJob

TINY: dict[str, Any] = {
    "n_layer": 1,
    "n_head": 1,
    "n_embd": 16,
    "block_size": 16,
    "batch_size": 2,
    "gradient_accumulation_steps": 2,
    "tokenizer": "bytes",
    "device": "cpu",
    "compile": False,
}


def build_job(**changes: Any) -> ProbeJob:
    """A config of a millisecond an iteration."""
    return ProbeJob(config=build_config(TINY | changes), threads=1)


@pytest.fixture(scope="session")
def job() -> Callable[..., ProbeJob]:
    return build_job


class NoNvml(Exception):
    """What the library raises for all that a card does not tell."""


def build_nvml(reasons: int = 0, holders: tuple[Any, ...] = (), busy: tuple[Any, ...] = ()) -> Any:
    """NVIDIA's library with a card of 87 degrees, 345.6 W and 1,980 MHz, which tells only what is given."""

    def told(values: Any) -> Callable[..., Any]:
        def ask(*_: object) -> Any:
            if values in (None, ()):
                raise NoNvml
            return values

        return ask

    return SimpleNamespace(
        NVMLError=NoNvml,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetClockInfo=told(1980),
        nvmlDeviceGetTemperature=told(87),
        nvmlDeviceGetPowerUsage=told(345_600),
        nvmlDeviceGetCurrentClocksThrottleReasons=told(reasons),
        nvmlDeviceGetComputeRunningProcesses=told(holders),
        nvmlDeviceGetProcessUtilization=told(busy),
    )


@pytest.fixture(scope="session")
def nvml() -> Callable[..., Any]:
    return build_nvml
