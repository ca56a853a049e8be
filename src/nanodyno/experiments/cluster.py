"""A search over a Ray cluster: probes on many devices side by side, and never two on one.

A slot is a card, or a node without cards. First looks are spread over the slots; a round of the final stays
on one, so that its candidates are neighbours there too. A node that is lost costs what it was at, which is
measured elsewhere. All slots have to have the same device: others are left out, and told.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

from nanodyno.analysis.asking import Ask
from nanodyno.config import RunConfig
from nanodyno.data.prepare.ray import connected
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.experiments.ground import DeviceState
from nanodyno.experiments.node import NodeRequest, look_on_node, measure_on_node
from nanodyno.experiments.stopwatch import Redo
from nanodyno.experiments.tune import TuneBench
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import ProbeProgress, ProbeResult, WatchProbe

LOOK_SECONDS = 120.0
GRACE_SECONDS = 15.0
"""For a task to begin and to come back, beyond the time that it was given to measure."""


@dataclass(frozen=True)
class ClusterSlot:
    node: str
    number: int
    on_gpu: bool


def ray_bench(address: str) -> TuneBench:
    cluster = Cluster(address)
    return TuneBench(make=cluster.stopwatch, look=cluster.look)


class Cluster:
    """Connected from the first look to the end of the search."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stack = ExitStack()
        self._ray: Any = None
        self._slots: list[ClusterSlot] = []

    def look(self, config: RunConfig, limit_bytes: int | None) -> DeviceState:
        self._ray = self._stack.enter_context(connected(self._address))
        slots = slots_of(self._ray.nodes(), config.device)
        if not slots:
            raise NanodynoError("the cluster has no device to measure on", "see `ray status`")
        asked = [begin(self._ray, slot, look_on_node, config, limit_bytes) for slot in slots]
        try:
            places: list[DeviceState] = self._ray.get(asked, timeout=LOOK_SECONDS)
        except self._ray.exceptions.GetTimeoutError:
            words = f"not every device of the cluster could be examined within {LOOK_SECONDS:.0f} s"
            raise RunFailed(words, "others may be using it: see `ray status`") from None
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            raise RunFailed(f"a node was lost: {str(error).splitlines()[0]}", "see `ray status`") from error
        same = [_kind(place) == _kind(places[0]) for place in places]
        self._slots = [slot for slot, is_same in zip(slots, same, strict=True) if is_same]
        notes = (f"probes are spread over {len(self._slots)} devices of the cluster",)
        if others := len(slots) - len(self._slots):
            name = places[0].device.machine.device_name
            notes += (f"{others} devices are another kind than {name}, and are left out",)
        return replace(places[0], notes=(*places[0].notes, *notes))

    def stopwatch(self, jobs: Mapping[str, ProbeJob], watch: WatchProbe, redo: Redo) -> "RayStopwatch":
        return RayStopwatch(self._ray, self._slots, jobs, watch, redo, self._stack)


class RayStopwatch:
    def __init__(
        self,
        ray: Any,
        slots: Sequence[ClusterSlot],
        jobs: Mapping[str, ProbeJob],
        watch: WatchProbe,
        redo: Redo,
        stack: ExitStack,
    ) -> None:
        self._ray, self._slots, self._stack = ray, list(slots), stack
        self._jobs, self._watch, self._redo = jobs, watch, redo
        self._latest: dict[str, ProbeResult] = {}
        self._running: dict[Any, tuple[ClusterSlot, list[str]]] = {}
        self.placed: dict[str, ClusterSlot] = {}
        """Where each candidate was measured last."""

    @property
    def at_once(self) -> int:
        return len(self._slots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._give_up()
        self._stack.close()

    def _give_up(self) -> None:
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._running = {}

    def measured(self) -> dict[str, ProbeResult]:
        return self._latest

    def measure(self, ask: Ask, names: list[str], seconds_left: float) -> dict[str, ProbeResult]:
        self._latest = {}
        waiting = [names] if ask.stage == "final" else [[name] for name in names]
        first = ask.round % len(self._slots)
        free = self._slots[first:] + self._slots[:first]
        end = time.monotonic() + seconds_left + GRACE_SECONDS
        while waiting or self._running:
            if time.monotonic() > end:
                self._give_up()
                break
            while waiting and free:
                self._begin(free.pop(0), waiting.pop(0), ask, seconds_left)
            for task in self._ray.wait(list(self._running), num_returns=1, timeout=1.0)[0]:
                slot, at = self._running.pop(task)
                try:
                    results = self._ray.get(task)
                except self._ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                except self._ray.exceptions.RayError as error:
                    self._lose(slot, error)
                    free = [each for each in free if each.node != slot.node]
                    waiting.append(at)
                else:
                    self._latest |= results
                    free += [slot] if slot in self._slots else []
        return self._latest

    def _begin(self, slot: ClusterSlot, names: list[str], ask: Ask, seconds_left: float) -> None:
        request = NodeRequest(
            {name: self._jobs[name] for name in names},
            replace(ask, names=tuple(names)),
            seconds_left,
            self._redo,
        )
        self.placed |= dict.fromkeys(names, slot)
        self._running[begin(self._ray, slot, measure_on_node, request)] = slot, names
        for name in names:
            self._watch(ProbeProgress(name, ask.round, "measuring"))

    def _lose(self, slot: ClusterSlot, error: Exception) -> None:
        self._slots = [each for each in self._slots if each.node != slot.node]
        if not self._slots:
            words = f"the last node was lost: {str(error).splitlines()[0]}"
            raise RunFailed(words, "see `ray status`; the same command continues from what was measured")


def slots_of(nodes: Sequence[Mapping[str, Any]], device: str) -> list[ClusterSlot]:
    """Every card; where there are none, or the CPU is asked for, every node."""
    alive = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0)]
    gpus = [
        ClusterSlot(str(node["NodeID"]), number, True)
        for node in alive
        for number in range(int(node["Resources"].get("GPU", 0)))
    ]
    return (
        gpus if gpus and device != "cpu" else [ClusterSlot(str(node["NodeID"]), 0, False) for node in alive]
    )


def begin(ray: Any, slot: ClusterSlot, function: Any, *arguments: Any) -> Any:
    """Ray gives each task a card of its own; of the nodes without, one task at a time is begun on each."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id=slot.node, soft=False)
    options = {"num_cpus": 1, "num_gpus": 1 if slot.on_gpu else 0, "max_retries": 0}
    return ray.remote(function).options(scheduling_strategy=there, **options).remote(*arguments)


def _kind(place: DeviceState) -> tuple[str, int | None, int | None]:
    machine = place.device.machine
    return machine.device_name, machine.device_memory_bytes, machine.multiprocessors
