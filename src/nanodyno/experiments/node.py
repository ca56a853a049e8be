"""What a node of a cluster does for a search: it looks at its device, or measures one candidate."""

from dataclasses import dataclass

from nanodyno.analysis.asking import Ask
from nanodyno.config import RunConfig
from nanodyno.experiments.ground import DeviceState, look_around
from nanodyno.experiments.stopwatch import BenchStopwatch, Redo
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import ProbeResult


@dataclass(frozen=True)
class NodeRequest:
    """One visit of each of these, one after the other, on one device."""

    jobs: dict[str, ProbeJob]
    ask: Ask
    seconds_left: float
    redo: Redo


def look_on_node(config: RunConfig, limit_bytes: int | None) -> DeviceState:
    return look_around(config, limit_bytes)


def measure_on_node(request: NodeRequest) -> dict[str, ProbeResult]:
    with BenchStopwatch(request.jobs, lambda _: None, request.redo, len(request.jobs)) as stopwatch:
        return stopwatch.measure(request.ask, list(request.jobs), request.seconds_left)
