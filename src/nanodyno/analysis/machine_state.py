"""How the machine stood while a run trained: whether its speed is that of its settings, or of its neighbours.

Thresholds, and why:

- On a CPU, other programs with more than 10% of the usable cores make the machine busy. An idle desktop or
  server uses 1 to 3%. Training uses all cores, so that what others take is missing from it: at 10% the speed
  is lower by about that much, many times what two starts of one run differ by. It holds for a training of few
  threads as well: two threads of one core, its caches and the memory's bandwidth are shared.
- On a GPU the host only starts kernels, and others on its cores do no harm unless it has to wait for one. So
  the machine is busy where the main thread waited for a core for more than 5% of the time while others used
  more than 5% of them; its own threads can make it wait, too.
- A virtual machine whose host took more than 5% of its cores' time is busy either way.
- A GPU is throttled where its clocks were lowered by heat or by the power supply in more than 5% of the time.
  Such a clock is 10 to 50% lower, which is 0.5 to 2.5% of the speed and more. Clocks that are lowered at the
  power limit are the normal state of a GPU under full load, and the next run will have them too.
- A GPU is shared where others used more than 5% of its multiprocessors. Memory that an idle program holds
  slows nothing; it counts only where the driver does not report who uses the GPU.

Means are over time, so that a load counts by how long it lasted: half of a run beside a program that keeps
one of two cores busy is 25%.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from nanodyno.analysis.findings import Code, Finding
from nanodyno.hardware.telemetry import IDLE, Throttling, throttling
from nanodyno.records.types import TelemetryRecord

BUSY_SHARE = 0.10
WAITED_SHARE = 0.05
STOLEN_SHARE = 0.05
THROTTLED_SHARE = 0.05
GPU_SHARED = 0.05

T = TypeVar("T")


@dataclass(frozen=True)
class MachineState:
    """Of the iterations that a speed is of. Shares are means over time; None means not measured."""

    is_busy: bool = False
    """Other programs, or the host of a virtual machine, took enough of the CPU to change the speed."""
    is_throttled: bool = False
    """The GPU lowered its clocks because of heat or of its power supply; not because of its power limit."""
    gpu_shared: bool = False
    """Other processes computed on the GPU."""
    samples: int = 0
    seconds: float = 0.0
    """That the samples cover."""
    cores: float | None = None
    """Usable: a container may have a part of them."""
    others_cpu_share: float | None = None
    """Of the usable cores, by other programs."""
    own_cpu_share: float | None = None
    stolen_cpu_share: float | None = None
    """By the host of a virtual machine."""
    waited_share: float | None = None
    """Of the time, in which the main thread waited for a core."""
    load_average: float | None = None
    """The median."""
    lowest_available_bytes: int | None = None
    swapped_bytes: int | None = None
    sm_mhz: float | None = None
    """The median, as are the clock of the memory and the power."""
    highest_sm_mhz: int | None = None
    memory_mhz: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    highest_celsius: int | None = None
    gpu_utilization: float | None = None
    thermal_share: float | None = None
    """Of the time under load, in which heat lowered the clocks."""
    power_brake_share: float | None = None
    power_limit_share: float | None = None
    other_gpu_processes: int | None = None
    """The most at once, as is the memory that they held."""
    other_gpu_bytes: int | None = None
    other_gpu_share: float | None = None
    """Of the GPU's multiprocessors."""


def machine_state(samples: Sequence[TelemetryRecord], on_gpu: bool) -> MachineState | None:
    """Return how the machine stood over these samples, or None without any."""
    samples = [each for each in samples if each.seconds > 0]
    if not samples:
        return None
    of_host, of_gpu = _of_host(samples, on_gpu), _of_gpu(samples)
    return MachineState(
        samples=len(samples), seconds=sum(each.seconds for each in samples), **of_host, **of_gpu
    )


def _of_host(samples: Sequence[TelemetryRecord], on_gpu: bool) -> dict[str, Any]:
    others = _mean(samples, _others_share)
    waited = _mean(samples, lambda each: _over(each.waited_seconds, each.seconds))
    stolen = _mean(samples, lambda each: _over(each.stolen_core_seconds, each.seconds * each.cores))
    if on_gpu:
        taken = (waited or 0) > WAITED_SHARE and (others or 0) > WAITED_SHARE
    else:
        taken = (others or 0) > BUSY_SHARE
    return {
        "is_busy": taken or (stolen or 0) > STOLEN_SHARE,
        "cores": usable_cores(samples[-1]),
        "others_cpu_share": others,
        "own_cpu_share": _mean(
            samples, lambda each: _over(each.own_core_seconds, each.seconds * usable_cores(each))
        ),
        "stolen_cpu_share": stolen,
        "waited_share": waited,
        "load_average": _median(each.load_average for each in samples),
        "lowest_available_bytes": min(_known(each.available_bytes for each in samples), default=None),
        "swapped_bytes": sum(_known(each.swapped_bytes for each in samples)),
    }


def _of_gpu(samples: Sequence[TelemetryRecord]) -> dict[str, Any]:
    loaded = [each for each in samples if each.throttle_reasons is None or not each.throttle_reasons & IDLE]
    thermal, brake, limit = (
        _mean(loaded, lambda each, code=code: _throttled(each, code))
        for code in ("thermal", "power-brake", "power-limit")
    )
    share = _mean(samples, lambda each: each.other_gpu_share)
    processes = max(_known(each.other_gpu_processes for each in samples), default=None)
    return {
        "is_throttled": (thermal or 0) + (brake or 0) > THROTTLED_SHARE,
        "gpu_shared": bool(processes) and (share is None or share > GPU_SHARED),
        "sm_mhz": _median(each.sm_mhz for each in loaded),
        "highest_sm_mhz": max(_known(each.sm_mhz for each in samples), default=None),
        "memory_mhz": _median(each.memory_mhz for each in loaded),
        "power_watts": _median(each.power_watts for each in loaded),
        "power_limit_watts": _median(each.power_limit_watts for each in samples),
        "highest_celsius": max(_known(each.temperature_celsius for each in samples), default=None),
        "gpu_utilization": _mean(samples, lambda each: each.gpu_utilization),
        "thermal_share": thermal,
        "power_brake_share": brake,
        "power_limit_share": limit,
        "other_gpu_processes": processes,
        "other_gpu_bytes": max(_known(each.other_gpu_bytes for each in samples), default=None),
        "other_gpu_share": share,
    }


def usable_cores(sample: TelemetryRecord) -> float:
    return sample.cores if sample.quota_cores is None else min(sample.cores, sample.quota_cores)


def _others_share(sample: TelemetryRecord) -> float | None:
    """Of the usable cores. What others use of cores that a container may not use is no loss to it.

    Counters go by ticks of 10 ms, and ours by another clock than those of the cores: below 0 is 0.
    """
    if sample.busy_core_seconds is None or sample.own_core_seconds is None:
        return None
    usable = usable_cores(sample)
    theirs = (sample.busy_core_seconds - sample.own_core_seconds) / sample.seconds
    return min(1.0, max(0.0, theirs - (sample.cores - usable)) / usable)


def _throttled(sample: TelemetryRecord, code: Throttling) -> float | None:
    return None if sample.throttle_reasons is None else float(code in throttling(sample.throttle_reasons))


def _over(amount: float | None, whole: float) -> float | None:
    return None if amount is None else amount / whole


def _mean(
    samples: Sequence[TelemetryRecord], value_of: Callable[[TelemetryRecord], float | None]
) -> float | None:
    """Over time, of the samples that have it."""
    found = [(value, each.seconds) for each in samples if (value := value_of(each)) is not None]
    return sum(value * seconds for value, seconds in found) / sum(s for _, s in found) if found else None


def _median(values: Iterable[float | None]) -> float | None:
    found = _known(values)
    return statistics.median(found) if found else None


def _known(values: Iterable[T | None]) -> list[T]:
    return [each for each in values if each is not None]


def machine_findings(name: str, state: MachineState | None) -> Iterator[Finding]:
    """Yield what is to be known about the machine before a run's speed is taken for that of its settings."""
    if state is None:
        return
    numbers = asdict(state)

    def of(code: Code, *keys: str) -> Finding:
        return Finding(code, "caution", (name,), {key: numbers[key] for key in keys})

    if state.is_busy:
        yield of(
            "machine-busy", "others_cpu_share", "own_cpu_share", "stolen_cpu_share", "waited_share", "cores"
        )
    if state.is_throttled:
        yield of(
            "gpu-throttled",
            "thermal_share",
            "power_brake_share",
            "highest_celsius",
            "sm_mhz",
            "highest_sm_mhz",
        )
    if state.gpu_shared:
        yield of("gpu-shared", "other_gpu_processes", "other_gpu_bytes", "other_gpu_share")
