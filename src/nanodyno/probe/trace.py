"""From a profiler's trace to seconds by part: each moment of the device is counted once."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nanodyno.probe.parts import part_of_kernel, part_of_operator
from nanodyno.records.probe import BreakdownPart, KernelRecord

DEVICE_KINDS = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
HOST_KINDS = frozenset({"cpu_op", "user_annotation"})
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cuGraphLaunch")
LONGEST = 12
PER_SECOND = 1e6
"""Traces count in microseconds."""


@dataclass(frozen=True)
class Slice:
    """A kernel or operator with the time that is its own."""

    name: str
    part: BreakdownPart
    seconds: float


@dataclass(frozen=True)
class Spent:
    part_seconds: dict[BreakdownPart, float]
    longest: tuple[KernelRecord, ...]
    count: int

    @classmethod
    def of(cls, slices: Sequence[Slice]) -> "Spent":
        parts: dict[BreakdownPart, float] = defaultdict(float)
        times: dict[tuple[str, BreakdownPart], list[float]] = defaultdict(list)
        for each in slices:
            parts[each.part] += each.seconds
            times[each.name, each.part].append(each.seconds)
        ranked = sorted(times.items(), key=lambda item: -sum(item[1]))[:LONGEST]
        longest = tuple(
            KernelRecord(name=name[:200], part=part, seconds=sum(seconds), times=len(seconds))
            for (name, part), seconds in ranked
        )
        return cls(dict(parts), longest, len(slices))


def device_slices(events: Iterable[dict[str, Any]]) -> list[Slice]:
    """Kernels in order of time; where two run at once the earlier one has the moment."""
    ours = sorted(_of_kinds(events, DEVICE_KINDS), key=lambda event: event["ts"])
    slices: list[Slice] = []
    covered = float("-inf")
    for event in ours:
        begin, end = event["ts"], event["ts"] + event["dur"]
        own = max(0.0, end - max(begin, covered))
        covered = max(covered, end)
        part: BreakdownPart = part_of_kernel(event["name"]) if event["cat"] == "kernel" else "copies"
        slices.append(Slice(event["name"], part, own / PER_SECOND))
    return slices


def host_slices(events: Iterable[dict[str, Any]]) -> list[Slice]:
    """Operators of the busiest thread, each without what it called."""
    by_thread: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in _of_kinds(events, HOST_KINDS):
        by_thread[event["tid"]].append(event)
    if not by_thread:
        return []
    busiest = max(by_thread.values(), key=len)
    busiest.sort(key=lambda event: (event["ts"], -event["dur"]))
    own = [event["dur"] for event in busiest]
    parts: list[BreakdownPart] = []
    open_calls: list[int] = []
    for number, event in enumerate(busiest):
        while open_calls and _end(busiest[open_calls[-1]]) <= event["ts"]:
            open_calls.pop()
        if open_calls:
            own[open_calls[-1]] -= event["dur"]
        parts.append(part_of_operator(event["name"], parts[open_calls[-1]] if open_calls else None))
        open_calls.append(number)
    return [
        Slice(event["name"], part, max(0.0, seconds) / PER_SECOND)
        for event, part, seconds in zip(busiest, parts, own, strict=True)
    ]


def launches(events: Iterable[dict[str, Any]]) -> int:
    """Calls with which the host started kernels."""
    return sum(event["name"].startswith(LAUNCHES) for event in events if event.get("ph") == "X")


def _of_kinds(events: Iterable[dict[str, Any]], kinds: frozenset[str]) -> list[dict[str, Any]]:
    return [event for event in events if event.get("ph") == "X" and event.get("cat") in kinds]


def _end(event: dict[str, Any]) -> float:
    return event["ts"] + event["dur"]
