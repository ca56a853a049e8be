"""What disturbed a probe, and why one has no rate, in words."""

from collections.abc import Sequence

from nanodyno.hardware.telemetry import Holder
from nanodyno.records.probe import (
    Disturbance,
    DisturbanceCode,
    Failed,
    OutOfMemory,
    Throttled,
    VisitRecord,
)
from nanodyno.report import quantities

WORDS: dict[DisturbanceCode, str] = {
    "thermal": "the card throttled for heat in {share:.0%} of the readings, at {celsius:.0f} degrees",
    "power-brake": "the power supply braked the card in {share:.0%} of the readings",
    "power-limit": "the card was at its power limit in {share:.0%} of the readings, as in a long run",
    "clock-drop": "the card's clock went from {from_mhz:.0f} down to {to_mhz:.0f} MHz",
    "busy-neighbour": "another process computed on the card, up to {share:.0%} of it: {who} ({process:.0f})",
    "neighbour": "another process holds memory on the card: {who} ({process:.0f})",
    "paging": "memory was moved to the host or to disk and back",
    "cpu-contention": "others had the processor for {share:.0%} of the time",
    "unsteady": "times had not become steady after {iterations:.0f} iterations",
    "bursts": "too many of the {iterations:.0f} iterations were far from the rest",
}
USUAL: frozenset[DisturbanceCode] = frozenset({"power-limit", "clock-drop", "neighbour"})
"""Of a card that does all it can, or shows a desktop: nothing that a second attempt would be without."""


def disturbance_words(disturbance: Disturbance) -> str:
    return WORDS[disturbance.code].format(**disturbance.numbers, who=disturbance.who or "not named")


def redone_words(redone: Sequence[VisitRecord]) -> str:
    causes = dict.fromkeys(disturbance_words(each) for visit in redone for each in visit.disturbances)
    times = "once" if len(redone) == 1 else f"{len(redone)} times"
    why = "; ".join(causes) or "the config beside it was disturbed"
    return f"measured again {times}, not counted: {why}"


def result_words(result: OutOfMemory | Throttled | Failed) -> str:
    match result:
        case OutOfMemory():
            return _out_of_memory(result)
        case Throttled():
            causes = dict.fromkeys(disturbance_words(each) for each in result.redone[-1].disturbances)
            often = f"disturbed in all of {len(result.redone)} attempts"
            return f"{often}, so no rate is claimed: {'; '.join(causes)}"
        case Failed():
            hint = f" ({result.hint})" if result.hint else ""
            return f"{_FAILED[result.reason]} while {result.stage}: {result.words}{hint}"


_FAILED = {
    "hung": "hung",
    "died": "died",
    "error": "failed",
    "interrupted": "stopped",
    "refused": "refused",
}


def _out_of_memory(result: OutOfMemory) -> str:
    memory = result.memory
    words = f"out of memory while {result.stage}"
    if memory.peak_allocated_bytes is not None and memory.peak_reserved_bytes is not None:
        words += f", with {quantities.gib(memory.peak_allocated_bytes)} allocated and "
        words += f"{quantities.gib(memory.peak_reserved_bytes)} reserved"
    elif memory.peak_host_bytes is not None:
        words += f", with {quantities.gib(memory.peak_host_bytes)} of host memory in use"
    if memory.device_memory_bytes is not None:
        words += f" of the card's {quantities.gib(memory.device_memory_bytes)}"
    if result.holders:
        words += f"; the card is also held by {', '.join(map(holder_words, result.holders))}"
    return f"{words} ({result.words})"


def holder_words(holder: Holder) -> str:
    name = holder.name or "a process"
    size = "" if holder.bytes is None else f" with {quantities.gib(holder.bytes)}"
    return f"{name} ({holder.process}){size}"
