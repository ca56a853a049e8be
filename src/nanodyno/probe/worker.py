"""The parent's side of a probe: a child that may die, hang or be killed without harm to the parent."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nanodyno.config import RunConfig
from nanodyno.probe.messages import (
    MESSAGES,
    AtStage,
    BreakDown,
    BrokenDown,
    Fault,
    Measure,
    Message,
    Mistake,
    NoMemory,
    ProbeJob,
    Ready,
    Sampled,
    Visited,
)
from nanodyno.probe.process import Child, Silence
from nanodyno.records.probe import Failed, MemoryRecord, OutOfMemory, SampleRecord, SetupRecord, Stage
from nanodyno.records.types import Record

CHILD = "nanodyno.probe.child"
POLL_SECONDS = 0.25
PATIENCE: dict[Stage, float] = {
    "starting": 300.0,
    "building": 300.0,
    "compiling": 1800.0,
    "warming up": 900.0,
    "measuring": 60.0,
    "profiling": 300.0,
    "waiting": 60.0,
}
"""Seconds of silence after which a child counts as hung."""
IMPORT_SECONDS = 60.0
"""A spare process that takes longer for its imports is given up."""
SLOWEST_TIMES = 20.0
"""Silence may also last this many times the slowest iteration, or before the first one the warm-up."""

Ended = OutOfMemory | Failed
"""The child is gone, and this is the config's result."""
Tick = Callable[[Stage, Sequence[SampleRecord]], None]
"""Called several times a second while a child is waited for, and after each of its iterations."""


@dataclass(frozen=True)
class Measurements:
    samples: tuple[SampleRecord, ...]
    memory: MemoryRecord


class Worker:
    """One process for one config. After a method has returned Ended, the process is gone.

    It begins to import what it needs at once, and is told its config by `start`.
    """

    def __init__(self, patience_seconds: float | None = None) -> None:
        """patience_seconds: of silence while measuring; None takes PATIENCE."""
        self._config: RunConfig | None = None
        self._patience = patience_seconds
        self._stage: Stage = "starting"
        self._stage_began = time.monotonic()
        self.samples: list[SampleRecord] = []
        self._warming_seconds = 0.0
        self._limit, self._until = math.inf, math.inf
        self._child = Child(CHILD)
        self.pid = self._child.pid

    def start(self, job: ProbeJob, tick: Tick) -> SetupRecord | Ended:
        """Until it is ready to measure: imports, model, compilation, first iterations."""
        self._config = job.config
        answer = self._ask(job, tick)
        if isinstance(answer, Ready):
            self._warming_seconds = time.monotonic() - self._stage_began
            return answer.setup
        return self._ended(answer)

    def limit(self, seconds: float) -> None:
        """All that is asked from here on, however lively: what is not answered by then counts as hung."""
        self._limit, self._until = seconds, time.monotonic() + seconds

    def has_imported(self) -> bool:
        """Of a spare, before `start`: waits until it does nothing but wait itself. False: it is of no use."""
        try:
            return self._child.hear(IMPORT_SECONDS) is not None
        except Silence:
            return False

    def is_alive(self) -> bool:
        return self._child.is_alive()

    def measure(self, command: Measure, tick: Tick) -> Measurements | Ended:
        """Every iteration from here on, until the child has enough or its time is up."""
        self.samples = []
        answer = self._ask(command, tick)
        if isinstance(answer, Visited):
            return Measurements(tuple(self.samples), answer.memory)
        return self._ended(answer)

    def break_down(self, tick: Tick) -> BrokenDown | Ended:
        """Where the time goes; after `measure`, whose times it is held against."""
        answer = self._ask(BreakDown(), tick)
        return answer if isinstance(answer, BrokenDown) else self._ended(answer)

    @property
    def config(self) -> RunConfig:
        assert self._config is not None, "not started"
        return self._config

    def end(self) -> None:
        """At once: it has nothing to save, and what it compiled is in the cache already."""
        self._child.end()

    def _ask(self, what: Record, tick: Tick) -> Message | Failed:
        """Says it, and waits for the answer: the next message that is more than a stage or an iteration."""
        self._child.say(what.model_dump_json().encode())
        heard = time.monotonic()
        while True:
            tick(self._stage, self.samples)
            if time.monotonic() > self._until:
                return self._hung(f"not done after {self._limit:.3g} s, still {self._stage}")
            try:
                line = self._child.hear(POLL_SECONDS)
            except Silence:
                silence = time.monotonic() - heard
                if silence > self._allowed_silence():
                    return self._hung(f"no sign of life for {silence:.0f} s while {self._stage}")
                continue
            if line is None:
                return self._died()
            heard = time.monotonic()
            message = MESSAGES.validate_json(line)
            if isinstance(message, AtStage):
                self._stage, self._stage_began = message.stage, heard
            elif isinstance(message, Sampled):
                self.samples.append(message.sample)
            else:
                return message

    def _allowed_silence(self) -> float:
        if self._patience is not None and self._stage == "measuring":
            return self._patience
        slowest = max((sample.seconds for sample in self.samples), default=self._warming_seconds)
        return max(PATIENCE[self._stage], SLOWEST_TIMES * slowest)

    def _ended(self, answer: Message | Failed) -> Ended:
        """A result for what ended the child."""
        stage = self._stage
        self.end()
        if isinstance(answer, Mistake):
            return Failed(
                config=self.config,
                reason="refused",
                stage=stage,
                words=answer.message,
                hint=answer.hint,
            )
        if isinstance(answer, NoMemory):
            return OutOfMemory(config=self.config, stage=stage, memory=answer.memory, words=answer.words)
        if isinstance(answer, Fault):
            return Failed(config=self.config, reason="error", stage=stage, words=answer.words)
        assert isinstance(answer, Failed), answer
        return answer

    def _hung(self, words: str) -> Failed:
        self._child.kill()
        return Failed(config=self.config, reason="hung", stage=self._stage, words=words)

    def _died(self) -> Failed:
        words = self._child.how_it_died()
        return Failed(config=self.config, reason="died", stage=self._stage, words=words)
