"""Who measures for a search: each candidate in a process of its own, until the time is up."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from nanodyno.analysis.asking import Ask
from nanodyno.probe.bench import Bench, ProbePlan, TimeUp
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import Failed, Measured, ProbeProgress, ProbeResult, WatchProbe

PRECISION = 0.01
MANY_PROCESSES = 10**6
"""While more may come, the next one imports in advance."""


LIMIT_SHARE, SHORTEST_LIMIT = 0.5, 60.0
"""Of the time that is left, for a visit with its process: compiling is slow, and one that hangs in it leaves
the others half of the time. Below a minute slow and hung cannot be told apart."""


def repetition_limit(seconds_left: float) -> float:
    return max(SHORTEST_LIMIT, LIMIT_SHARE * seconds_left)


@dataclass(frozen=True)
class Redo:
    """How often a disturbed round is made again."""

    first_looks: int = 0
    """And second ones."""
    final: int = 0


class Stopwatch(Protocol):
    """What a search measures with; closed when it ends, however it ends."""

    @property
    def at_once(self) -> int:
        """Devices that measure side by side."""
        ...

    def measure(self, ask: Ask, names: list[str], seconds_left: float) -> dict[str, ProbeResult]:
        """One visit of each of these, as far as the time goes: a name may be missing."""
        ...

    def measured(self) -> dict[str, ProbeResult]:
        """Of the latest ask, also when Ctrl-C ended it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *ended: object) -> None: ...


@dataclass
class _Latest:
    bench: Bench
    number: int
    names: list[str]


class BenchStopwatch:
    """The bench of this machine. Another stage is another bench, since its visits are longer."""

    at_once = 1

    def __init__(
        self, jobs: Mapping[str, ProbeJob], watch: WatchProbe, redo: Redo, processes: int = MANY_PROCESSES
    ) -> None:
        """processes: as many as there will be at most."""
        self._processes = processes
        self._jobs = jobs
        self._watch = watch
        self._redo = redo
        self._bench: Bench | None = None
        self._stage: str | None = None
        self._latest: _Latest | None = None
        self._until = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._close()

    def measure(self, ask: Ask, names: list[str], seconds_left: float) -> dict[str, ProbeResult]:
        self._latest = None
        self._until = time.monotonic() + seconds_left
        bench = self._bench_for(ask)
        bench.limit_seconds = repetition_limit(seconds_left)
        self._latest = _Latest(bench, ask.round, names)
        try:
            bench.round(ask.round, names, ask.breakdown)
        except TimeUp:
            self._close()
        return self.measured()

    def measured(self) -> dict[str, ProbeResult]:
        if self._latest is None:
            return {}
        latest = self._latest
        results = latest.bench.results()
        found = {name: repetition_of(results[name], latest.number) for name in latest.names}
        return {name: result for name, result in found.items() if result is not None}

    def _bench_for(self, ask: Ask) -> Bench:
        if self._bench is None or self._stage != ask.stage:
            self._close()
            plan = ProbePlan(
                precision=PRECISION,
                repetition_seconds=ask.repetition_seconds,
                redo=self._redo.final if ask.stage == "final" else self._redo.first_looks,
                most_processes=self._processes,
            )
            self._bench, self._stage = Bench(self._jobs, plan, self._tell), ask.stage
        return self._bench

    def _tell(self, progress: ProbeProgress) -> None:
        self._watch(progress)
        if time.monotonic() > self._until:
            raise TimeUp

    def _close(self) -> None:
        if self._bench is not None:
            self._bench.__exit__(None, None, None)
            self._bench = None


def repetition_of(result: ProbeResult, number: int) -> ProbeResult | None:
    """What a config's result says of one round; None where it says nothing, because its time was up."""
    if isinstance(result, Failed) and result.reason == "interrupted":
        return None
    if not isinstance(result, Measured):
        return result
    repetitions = tuple(repetition for repetition in result.repetitions if repetition.round == number)
    if repetitions:
        return result.model_copy(update={"repetitions": repetitions, "redone": ()})
    if result.stopped is None:
        return None
    return Failed(config=result.config, reason="died", stage="measuring", words=result.stopped)
