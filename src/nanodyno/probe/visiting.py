"""One visit: a worker measures while its card and its host are watched, and what disturbed it is found."""

import time
from collections.abc import Callable, Collection, Sequence

from nanodyno.analysis.probes import visit_speed, visit_summary
from nanodyno.hardware.telemetry import CardReading, WatchedCard, read_host
from nanodyno.probe import disturbance
from nanodyno.probe.messages import Measure
from nanodyno.probe.worker import Ended, Measurements, Worker
from nanodyno.records.probe import Disturbance, MemoryRecord, SampleRecord, SetupRecord, Stage, VisitRecord

READ_SECONDS = 0.5
"""Between two looks at the card, which are not free for the driver."""

FEWEST_SAMPLES = 8

Tell = Callable[[Stage, Sequence[SampleRecord]], None]


class Visiting:
    """Of one worker that is ready. `ours` are the processes of all our workers on the card."""

    def __init__(self, worker: Worker, setup: SetupRecord, card: WatchedCard | None, tell: Tell) -> None:
        self._worker = worker
        self._setup = setup
        self._card = card
        self._tell = tell
        self._readings: list[CardReading] = []
        self._read_at = 0.0

    def measure(
        self, command: Measure, process: int, number: int, ours: Collection[int]
    ) -> tuple[VisitRecord, MemoryRecord] | Ended:
        before = read_host(self._worker.pid)
        done = self._worker.measure(command, self._tick)
        if not isinstance(done, Measurements):
            return done
        found = (
            *disturbance.of_host(before, read_host(self._worker.pid)),
            *disturbance.of_card(self._readings, ours),
        )
        visit = self._visit(process, number, done.samples).model_copy(update={"disturbances": found})
        found += (*self._of_samples(visit, done.memory),)
        return visit.model_copy(update={"disturbances": found}), done.memory

    def cut_short(self, process: int, number: int) -> VisitRecord | None:
        """What was measured before Ctrl-C, where that is enough to tell a mean of."""
        samples = self._worker.samples
        return self._visit(process, number, samples) if len(samples) >= FEWEST_SAMPLES else None

    def _visit(self, process: int, number: int, samples: Sequence[SampleRecord]) -> VisitRecord:
        return VisitRecord(
            process=process,
            round=number,
            samples=tuple(samples),
            sm_mhz=tuple(each.sm_mhz for each in self._readings if each.sm_mhz is not None),
            temperature_celsius=max((each.temperature_celsius or 0 for each in self._readings), default=0)
            or None,
            power_watts=max((each.power_watts or 0.0 for each in self._readings), default=0.0) or None,
            wall_time=time.time(),
        )

    def _of_samples(self, visit: VisitRecord, memory: MemoryRecord) -> list[Disturbance]:
        config = self._worker.config
        summary = visit_summary(visit, config)
        reached = visit_speed(visit, config, self._setup).ceiling_fraction
        share = None if reached is None else reached.value
        found = disturbance.of_memory(memory, visit.samples, share, disturbance.card_can_page())
        if summary.disturbed is not None:
            found.append(Disturbance(code=summary.disturbed, numbers={"iterations": len(visit.samples)}))
        return found

    def _tick(self, stage: Stage, samples: Sequence[SampleRecord]) -> None:
        self._tell(stage, samples)
        now = time.monotonic()
        if self._card is not None and now - self._read_at >= READ_SECONDS:
            self._read_at = now
            self._readings.append(self._card.read())
