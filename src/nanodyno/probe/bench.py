"""Configs on the bench: each measured in processes of its own, in whatever order and as often as one asks.

One stopwatch for all: a single probe, a comparison A B B A (rounds.py), a search and a factorial differ in
which rounds they ask for.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from nanodyno.hardware.telemetry import WatchCard, WatchedCard, watch_card
from nanodyno.probe import disturbance
from nanodyno.probe.messages import Measure, ProbeJob
from nanodyno.probe.visiting import Tell, Visiting
from nanodyno.probe.worker import Ended, Worker
from nanodyno.records.probe import (
    BreakdownRecord,
    Failed,
    Measured,
    MemoryRecord,
    OutOfMemory,
    ProbeProgress,
    ProbeResult,
    SampleRecord,
    SetupRecord,
    Stage,
    Throttled,
    VisitRecord,
    WatchProbe,
)


class TimeUp(Exception):
    """Raised by who watches, when there is no time left: what was measured by then is kept."""


@dataclass(frozen=True)
class Plan:
    """How carefully to measure."""

    precision: float = 0.01
    """To which a process knows its own mean before it stops."""
    visit_seconds: float = 20.0
    """After which it stops in any case."""
    redo: int = 2
    """How often a disturbed round is made again."""
    cooling_seconds: float = 20.0
    """Before a round that heat disturbed is made again."""
    rounds_per_process: int = 1
    """More keep the processes of all configs resident between rounds: quicker, if their memory allows it."""
    most_processes: int = 1
    """Of all configs together. While more may come, the next one imports as the one before it starts."""
    breakdown: bool = True
    patience_seconds: float | None = None
    """Of silence between two iterations before a child counts as hung; None goes by the slowest so far."""


@dataclass
class _Entry:
    """One config: its process, if it has one now, and all that is known about it."""

    name: str
    job: ProbeJob
    worker: Worker | None = None
    setup: SetupRecord | None = None
    card: WatchedCard | None = None
    stage: Stage = "starting"
    processes: int = 0
    rounds_in_process: int = 0
    pending: VisitRecord | None = None
    """Of the round that is under way."""
    visits: list[VisitRecord] = field(default_factory=list[VisitRecord])
    redone: list[VisitRecord] = field(default_factory=list[VisitRecord])
    memory: MemoryRecord = field(default_factory=MemoryRecord)
    breakdown: BreakdownRecord | None = None
    breakdown_fault: str | None = None
    ended: Ended | None = None

    def result(self) -> ProbeResult:
        if self.setup is not None and self.visits:
            return Measured(
                config=self.job.config,
                setup=self.setup,
                visits=tuple(self.visits),
                redone=tuple(self.redone),
                memory=self.memory,
                breakdown=self.breakdown,
                breakdown_fault=self.breakdown_fault,
                stopped=None if self.ended is None else self.ended.words,
            )
        if self.ended is not None:
            return self.ended
        if self.setup is not None and self.redone:
            return Throttled(
                config=self.job.config, setup=self.setup, redone=tuple(self.redone), memory=self.memory
            )
        return Failed(
            config=self.job.config, reason="interrupted", stage=self.stage, words="it was not measured"
        )

    def settle(self, again: bool = False) -> None:
        """Puts the pending visit where it belongs; again: the round is made once more."""
        if self.pending is not None:
            refused = again or disturbance.is_refused(self.pending)
            (self.redone if refused else self.visits).append(self.pending)
            self.pending = None

    def revive(self) -> None:
        """A process that died or hung says little about a config that was measured: it gets another."""
        if self.visits and isinstance(self.ended, Failed) and self.ended.reason in ("died", "hung"):
            self.ended = None

    def end_process(self) -> None:
        if self.worker is not None:
            self.worker.end()
            self.worker = None
        self.rounds_in_process = 0


class Bench:
    """Use it as a context: leaving it ends every child. `results` tells what is known at any moment."""

    def __init__(
        self,
        jobs: Mapping[str, ProbeJob],
        plan: Plan,
        watch: WatchProbe = lambda _: None,
        watch_card: WatchCard = watch_card,
    ) -> None:
        self._plan = plan
        self._watch = watch
        self._watch_card = watch_card
        self._entries = {name: _Entry(name, job) for name, job in jobs.items()}
        self._spare: Worker | None = None
        self._breaks_down = plan.breakdown
        self.limit_seconds = math.inf
        """Of a visit with its process, compiling included."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for entry in self._entries.values():
            entry.end_process()
        self._end_spare()

    def round(self, number: int, names: Sequence[str], breakdown: bool = True) -> None:
        """Visits these configs once in this order; disturbed, all again, so that pairs stay neighbours.

        A config that has ended (out of memory, failed) is passed over. breakdown: also where its time goes,
        once per config, if the plan has it.
        """
        entries = [self._entries[name] for name in names]
        for entry in entries:
            entry.revive()
        self._breaks_down = self._plan.breakdown and breakdown
        try:
            self._visit_all(entries, number)
            for _ in range(self._plan.redo):
                if not self._to_make_again(entries, number):
                    break
                self._visit_all(entries, number)
        finally:  # Ctrl-C and the end of the time leave what was visited before
            for entry in entries:
                entry.settle()

    def results(self) -> dict[str, ProbeResult]:
        return {name: entry.result() for name, entry in self._entries.items()}

    def running(self) -> list[str]:
        """The configs that have not ended."""
        return [name for name, entry in self._entries.items() if entry.ended is None]

    def _visit_all(self, entries: Sequence[_Entry], number: int) -> None:
        for entry in entries:
            if entry.ended is None:
                entry.pending = self._visit(entry, number)

    def _to_make_again(self, entries: Sequence[_Entry], number: int) -> bool:
        """Sets a disturbed round aside, tells why, and lets a hot card cool; False for one to be kept."""
        found = {entry.name: disturbance.to_redo(entry.pending) for entry in entries if entry.pending}
        if not any(found.values()):
            return False
        for entry in entries:
            entry.settle(again=True)
            entry.end_process()
        for name, causes in found.items():
            if causes:
                self._watch(ProbeProgress(name, number, "waiting", redone_for=causes))
        if any(each.code == "thermal" for causes in found.values() for each in causes):
            time.sleep(self._plan.cooling_seconds)
        return True

    def _visit(self, entry: _Entry, number: int) -> VisitRecord | None:
        """One visit, in the process that stands or in a new one; None when the config ended in it."""
        if entry.worker is None:
            self._start(entry, number)
        else:
            entry.worker.limit(self.limit_seconds)
        if entry.worker is None or entry.setup is None:
            return None
        tell = self._teller(entry, number)
        command = Measure(precision=self._plan.precision, limit_seconds=self._plan.visit_seconds)
        visiting = Visiting(entry.worker, entry.setup, entry.card, tell)
        try:
            done = visiting.measure(command, entry.processes - 1, number, self._pids())
        except (KeyboardInterrupt, TimeUp):
            entry.pending = visiting.cut_short(entry.processes - 1, number)
            raise
        if isinstance(done, OutOfMemory | Failed):
            self._end(entry, done)
            return None
        visit, entry.memory = done
        self._break_down(entry, tell)
        entry.rounds_in_process += 1
        if entry.rounds_in_process >= self._plan.rounds_per_process:
            entry.end_process()
        return visit

    def _start(self, entry: _Entry, number: int) -> None:
        """A new process for the config, alone on the card if it finds no room beside the others."""
        tell = self._teller(entry, number)
        tell("starting", ())
        setup = self._new_process(entry, tell)
        if isinstance(setup, OutOfMemory) and self._pids():
            for other in self._entries.values():
                other.end_process()
            setup = self._new_process(entry, tell)
        if isinstance(setup, OutOfMemory | Failed):
            self._end(entry, setup)
            return
        entry.setup = setup
        entry.card = entry.card or self._watch_card(setup.arithmetic.device, setup.device_uuid)

    def _new_process(self, entry: _Entry, tell: Tell) -> SetupRecord | Ended:
        entry.worker = self._next_worker()
        entry.worker.limit(self.limit_seconds)
        entry.processes += 1
        begun = sum(each.processes for each in self._entries.values())
        if begun < self._plan.most_processes:
            self._spare = Worker(self._plan.patience_seconds)
        setup = entry.worker.start(entry.job, tell)
        if not isinstance(setup, SetupRecord):
            entry.worker = None
        if self._spare is not None and not self._spare.has_imported():
            self._end_spare()
        return setup

    def _next_worker(self) -> Worker:
        """The spare, unless something has ended it while it waited, which says nothing about the config."""
        if self._spare is not None and self._spare.is_alive():
            spare, self._spare = self._spare, None
            return spare
        self._end_spare()
        return Worker(self._plan.patience_seconds)

    def _end_spare(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None

    def _break_down(self, entry: _Entry, tell: Tell) -> None:
        """Once per config. A child that dies of it takes nothing of what was measured along."""
        known = entry.breakdown is not None or entry.breakdown_fault is not None
        if known or not self._breaks_down or entry.worker is None:
            return
        answer = entry.worker.break_down(tell)
        if isinstance(answer, OutOfMemory | Failed):
            entry.breakdown_fault = f"the profiler ended the process: {answer.words}"
            entry.worker = None
        else:
            entry.breakdown, entry.breakdown_fault = answer.breakdown, answer.fault

    def _end(self, entry: _Entry, ended: Ended) -> None:
        if isinstance(ended, OutOfMemory):
            card = entry.card or self._watch_card(entry.job.config.device, None)
            holders = card.holders() if card else ()
            others = tuple(holder for holder in holders if holder.process not in self._pids())
            ended = ended.model_copy(update={"holders": others})
        entry.ended = ended
        entry.end_process()

    def _pids(self) -> set[int]:
        return {entry.worker.pid for entry in self._entries.values() if entry.worker is not None}

    def _teller(self, entry: _Entry, number: int) -> Tell:
        def tell(stage: Stage, samples: Sequence[SampleRecord]) -> None:
            seconds = samples[-1].seconds if samples else None
            entry.stage = stage
            self._watch(ProbeProgress(entry.name, number, stage, len(samples), seconds))

        return tell
