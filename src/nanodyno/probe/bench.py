"""Configs on the bench: each measured in processes of its own, in whatever order and as often as one asks.

One stopwatch for all: a single probe, a comparison A B B A (rounds.py), a search and a factorial differ in
which rounds they ask for.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, cast

from nanodyno.hardware.telemetry import WatchedGpu, WatchGpu, watch_gpu
from nanodyno.probe import disturbance
from nanodyno.probe.process import Child, Failure, Watch
from nanodyno.probe.repetition import BreakDown, Measure, ProbeJob, Repetition, WatchSamples, start_child
from nanodyno.records.probe import (
    BreakdownRecord,
    Failed,
    Measured,
    MemoryRecord,
    OutOfMemory,
    ProbeProgress,
    ProbeResult,
    ProbeStage,
    RepetitionRecord,
    SampleRecord,
    SetupRecord,
    Throttled,
    WatchProbe,
)

IMPORT_SECONDS = 60.0
"""A spare process that takes longer for its imports is given up."""


class TimeUp(Exception):
    """Raised by who watches, when there is no time left: what was measured by then is kept."""


@dataclass(frozen=True)
class ProbePlan:
    """How carefully to measure."""

    precision: float = 0.01
    """To which a process knows its own mean before it stops."""
    repetition_seconds: float = 20.0
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


@dataclass
class _Entry:
    """One config: its process, if it has one now, and all that is known about it."""

    name: str
    job: ProbeJob
    child: Child | None = None
    setup: SetupRecord | None = None
    gpu: WatchedGpu | None = None
    stage: ProbeStage = "starting"
    processes: int = 0
    rounds_in_process: int = 0
    pending: RepetitionRecord | None = None
    """Of the round that is under way."""
    repetitions: list[RepetitionRecord] = field(default_factory=list[RepetitionRecord])
    redone: list[RepetitionRecord] = field(default_factory=list[RepetitionRecord])
    memory: MemoryRecord = field(default_factory=MemoryRecord)
    breakdown: BreakdownRecord | None = None
    breakdown_fault: str | None = None
    ended: OutOfMemory | Failed | None = None

    def result(self) -> ProbeResult:
        if self.setup is not None and self.repetitions:
            return Measured(
                config=self.job.config,
                setup=self.setup,
                repetitions=tuple(self.repetitions),
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
        """Put the pending repetition where it belongs; again: the round is made once more."""
        if self.pending is not None:
            refused = again or disturbance.is_refused(self.pending)
            (self.redone if refused else self.repetitions).append(self.pending)
            self.pending = None

    def revive(self) -> None:
        """A process that died or hung says little about a config that was measured: it gets another."""
        if self.repetitions and isinstance(self.ended, Failed) and self.ended.reason in ("died", "hung"):
            self.ended = None

    def end_process(self) -> None:
        if self.child is not None:
            self.child.end()
            self.child = None
        self.rounds_in_process = 0


class Bench:
    """Use it as a context: leaving it ends every child. `results` tells what is known at any moment."""

    def __init__(
        self,
        jobs: Mapping[str, ProbeJob],
        plan: ProbePlan,
        watch: WatchProbe = lambda _: None,
        watch_gpu: WatchGpu = watch_gpu,
    ) -> None:
        self._plan = plan
        self._watch = watch
        self._watch_gpu = watch_gpu
        self._entries = {name: _Entry(name, job) for name, job in jobs.items()}
        self._spare: Child | None = None
        self._breaks_down = plan.breakdown
        self.limit_seconds = math.inf
        """Of a repetition with its process, compiling included."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for entry in self._entries.values():
            entry.end_process()
        self._end_spare()

    def round(self, number: int, names: Sequence[str], breakdown: bool = True) -> None:
        """Measure these configs once in this order; disturbed, all again, so that pairs stay neighbours.

        A config that has ended (out of memory, failed) is passed over. breakdown: also where its time goes,
        once per config, if the plan has it.
        """
        entries = [self._entries[name] for name in names]
        for entry in entries:
            entry.revive()
        self._breaks_down = self._plan.breakdown and breakdown
        try:
            self._measure_all(entries, number)
            for _ in range(self._plan.redo):
                if not self._to_make_again(entries, number):
                    break
                self._measure_all(entries, number)
        finally:  # Ctrl-C and the end of the time leave what was measured before
            for entry in entries:
                entry.settle()

    def results(self) -> dict[str, ProbeResult]:
        return {name: entry.result() for name, entry in self._entries.items()}

    def running(self) -> list[str]:
        """The configs that have not ended."""
        return [name for name, entry in self._entries.items() if entry.ended is None]

    def _measure_all(self, entries: Sequence[_Entry], number: int) -> None:
        for entry in entries:
            if entry.ended is None:
                entry.pending = self._measure(entry, number)

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

    def _measure(self, entry: _Entry, number: int) -> RepetitionRecord | None:
        """One repetition, in the process that stands or in a new one; None when the config ended in it."""
        if entry.child is None:
            self._start(entry, number)
        else:
            entry.child.limit(self.limit_seconds)
        if entry.child is None or entry.setup is None:
            return None
        tell = self._teller(entry, number)
        request = Measure(precision=self._plan.precision, limit_seconds=self._plan.repetition_seconds)
        repetition = Repetition(entry.child, entry.job.config, entry.setup, entry.gpu, tell)
        try:
            done = repetition.measure(request, entry.processes - 1, number, self._pids())
        except (KeyboardInterrupt, TimeUp):
            entry.pending = repetition.cut_short(entry.processes - 1, number)
            raise
        if isinstance(done, Failure):
            self._end(entry, done)
            return None
        repetition, entry.memory = done
        self._break_down(entry, entry.child, lambda child, _: tell(child.stage, repetition.samples))
        entry.rounds_in_process += 1
        if entry.rounds_in_process >= self._plan.rounds_per_process:
            entry.end_process()
        return repetition

    def _start(self, entry: _Entry, number: int) -> None:
        """A new process for the config, alone on the GPU if it finds no room beside the others."""
        tell = self._teller(entry, number)
        tell("starting", ())
        setup = self._new_process(entry, tell)
        if isinstance(setup, Failure) and setup.reason == "out-of-memory" and self._pids():
            for other in self._entries.values():
                other.end_process()
            setup = self._new_process(entry, tell)
        if isinstance(setup, Failure):
            self._end(entry, setup)
            return
        entry.setup = setup
        entry.gpu = entry.gpu or self._watch_gpu(setup.arithmetic.device, setup.device_uuid)

    def _new_process(self, entry: _Entry, tell: WatchSamples) -> SetupRecord | Failure:
        entry.child = self._next_child()
        entry.child.limit(self.limit_seconds)
        entry.processes += 1
        begun = sum(each.processes for each in self._entries.values())
        if begun < self._plan.most_processes:
            self._spare = start_child()
        setup = entry.child.ask(entry.job, SetupRecord, lambda child, _: tell(child.stage, ()))
        if isinstance(setup, Failure):
            entry.child = None
        if self._spare is not None and not self._spare.has_started(IMPORT_SECONDS):
            self._end_spare()
        return setup

    def _next_child(self) -> Child:
        """The spare, unless something has ended it while it waited, which says nothing about the config."""
        if self._spare is not None and self._spare.is_alive():
            spare, self._spare = self._spare, None
            return spare
        self._end_spare()
        return start_child()

    def _end_spare(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None

    def _break_down(self, entry: _Entry, child: Child, watch: Watch) -> None:
        """Once per config. A child that dies of it takes nothing of what was measured along."""
        known = entry.breakdown is not None or entry.breakdown_fault is not None
        if known or not self._breaks_down:
            return
        answer = child.ask(BreakDown(), tuple[BreakdownRecord | None, str | None], watch)
        if isinstance(answer, Failure):
            entry.breakdown_fault = f"the profiler ended the process: {answer.words}"
            entry.child = None
        else:
            entry.breakdown, entry.breakdown_fault = answer

    def _end(self, entry: _Entry, failure: Failure) -> None:
        """The config's result is why its process has none."""
        config, stage, words = entry.job.config, cast(ProbeStage, failure.stage), failure.words
        if failure.reason == "out-of-memory":
            gpu = entry.gpu or self._watch_gpu(config.device, None)
            holders = gpu.holders() if gpu else ()
            others = tuple(holder for holder in holders if holder.process not in self._pids())
            memory = failure.memory or MemoryRecord()
            entry.ended = OutOfMemory(config=config, stage=stage, memory=memory, words=words, holders=others)
        else:
            entry.ended = Failed(
                config=config, reason=failure.reason, stage=stage, words=words, hint=failure.hint
            )
        entry.end_process()

    def _pids(self) -> set[int]:
        return {entry.child.pid for entry in self._entries.values() if entry.child is not None}

    def _teller(self, entry: _Entry, number: int) -> WatchSamples:
        def tell(stage: str, samples: Sequence[SampleRecord]) -> None:
            seconds = samples[-1].seconds if samples else None
            entry.stage = cast(ProbeStage, stage)
            self._watch(ProbeProgress(entry.name, number, entry.stage, len(samples), seconds))

        return tell
