"""What had a part in the times besides the config: readings in, disturbances out."""

import platform
import statistics
import sys
from collections.abc import Collection, Sequence

from nanodyno.hardware.telemetry import IDLE, GpuReading, HostReading, Throttling, others, throttling
from nanodyno.records.probe import Disturbance, DisturbanceCode, MemoryRecord, RepetitionRecord, SampleRecord

REFUSED: frozenset[DisturbanceCode] = frozenset({"thermal", "power-brake", "busy-neighbour", "paging"})
"""Measured again, and when that does not help no rate is claimed: it would not be the config's."""
REDONE: frozenset[DisturbanceCode] = frozenset({*REFUSED, "cpu-contention", "unsteady", "bursts"})
"""Measured again, and when that does not help told beside the rate. The rest is told only: a card at its
power limit is as fast as it will be for the whole run."""

UNEVEN: frozenset[DisturbanceCode] = frozenset({"unsteady", "bursts"})
ENOUGH_ITERATIONS = 16
"""Fewer are too few to become steady: another attempt would come to the same."""

CLOCK_DROP = 0.10
BUSY_SHARE = 0.05
CONTENTION_SHARE = 0.05
SWAPPED_BYTES = 64 * 2**20
FULL_SHARE = 0.02
"""Less of a card free than this is a full card."""
PAGED_SHARE = 0.05
"""Of the matrix ceiling: a config that fills a card is far above it unless its memory is elsewhere."""
PAGED_TIMES = 3.0


def to_redo(repetition: RepetitionRecord) -> tuple[Disturbance, ...]:
    """What a second attempt may be free of."""
    short = len(repetition.samples) < ENOUGH_ITERATIONS
    return tuple(
        each
        for each in repetition.disturbances
        if each.code in REDONE and not (short and each.code in UNEVEN)
    )


def is_refused(repetition: RepetitionRecord) -> bool:
    return any(each.code in REFUSED for each in repetition.disturbances)


def of_gpu(readings: Sequence[GpuReading], ours: Collection[int]) -> list[Disturbance]:
    """Throttling, and others on the card. ours: the processes of all our workers."""
    loaded = [each for each in readings if each.reasons is None or not each.reasons & IDLE]
    found = [*_throttling(loaded), *_clock_drop(loaded)]
    for holder, share in others(readings, ours).values():
        numbers = {"share": share, "process": holder.process}
        if holder.bytes is not None:
            numbers["bytes"] = holder.bytes
        code: DisturbanceCode = "busy-neighbour" if share >= BUSY_SHARE else "neighbour"
        found.append(Disturbance(code=code, numbers=numbers, who=holder.name))
    return found


def _throttling(loaded: Sequence[GpuReading]) -> list[Disturbance]:
    masks = [each.reasons for each in loaded if each.reasons is not None]
    hottest = max((each.temperature_celsius or 0 for each in loaded), default=0)
    codes: tuple[Throttling, ...] = ("thermal", "power-brake", "power-limit")
    return [
        Disturbance(code=code, numbers={"share": statistics.fmean(seen), "celsius": hottest})
        for code in codes
        if any(seen := [code in throttling(mask) for mask in masks])
    ]


def _clock_drop(loaded: Sequence[GpuReading]) -> list[Disturbance]:
    clocks = [each.sm_mhz for each in loaded if each.sm_mhz]
    if not clocks or min(clocks) >= (1 - CLOCK_DROP) * max(clocks):
        return []
    return [Disturbance(code="clock-drop", numbers={"from_mhz": max(clocks), "to_mhz": min(clocks)})]


def of_host(before: HostReading, after: HostReading) -> list[Disturbance]:
    """Cores that others had, and memory that went to disk and back."""
    found: list[Disturbance] = []
    seconds = after.seconds - before.seconds
    waited = _grown(before.waited_seconds, after.waited_seconds) / seconds
    stolen = _grown(before.stolen_seconds, after.stolen_seconds) / (seconds * after.cores)
    if max(waited, stolen) > CONTENTION_SHARE:
        found.append(Disturbance(code="cpu-contention", numbers={"share": max(waited, stolen)}))
    swapped = after.swapped_bytes - before.swapped_bytes
    if swapped > SWAPPED_BYTES:
        found.append(Disturbance(code="paging", numbers={"bytes": swapped}))
    return found


def _grown(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else after - before


def of_memory(
    memory: MemoryRecord, samples: Sequence[SampleRecord], ceiling_fraction: float | None, can_page: bool
) -> list[Disturbance]:
    """A card that lends the host's memory instead of running out: full, and far too slow or very uneven."""
    total, free = memory.device_memory_bytes, memory.device_free_bytes
    if not can_page or total is None or free is None or free > FULL_SHARE * total:
        return []
    steps = [seconds for sample in samples for seconds in sample.micro_step_seconds]
    uneven = bool(steps) and max(steps) > PAGED_TIMES * min(steps)
    if not uneven and (ceiling_fraction is None or ceiling_fraction >= PAGED_SHARE):
        return []
    return [Disturbance(code="paging", numbers={"free_bytes": free})]


def gpu_can_page() -> bool:
    """On Windows, and in its Linux."""
    return sys.platform == "win32" or "microsoft" in platform.release().lower()
