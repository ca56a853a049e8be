"""The parent's side of a probe: a child that may die, hang or be killed without harm to the parent."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    """One config in one process. After a method has returned Ended, the process is gone."""

    def __init__(self, job: ProbeJob, patience_seconds: float | None = None) -> None:
        """patience_seconds: of silence while measuring; None takes PATIENCE."""
        self.job = job
        self._patience = patience_seconds
        self._stage: Stage = "starting"
        self._stage_began = time.monotonic()
        self.samples: list[SampleRecord] = []
        self._warming_seconds = 0.0
        self._child = Child(CHILD)
        self.pid = self._child.pid

    def start(self, tick: Tick) -> SetupRecord | Ended:
        """Until it is ready to measure: imports, model, compilation, first iterations."""
        answer = self._ask(self.job, tick)
        if isinstance(answer, Ready):
            self._warming_seconds = time.monotonic() - self._stage_began
            return answer.setup
        return self._ended(answer)

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

    def end(self) -> None:
        """At once: it has nothing to save, and what it compiled is in the cache already."""
        self._child.end()

    def _ask(self, what: Record, tick: Tick) -> Message | Failed:
        """Says it, and waits for the answer: the next message that is more than a stage or an iteration."""
        self._child.say(what.model_dump_json().encode())
        heard = time.monotonic()
        while True:
            tick(self._stage, self.samples)
            try:
                line = self._child.hear(POLL_SECONDS)
            except Silence:
                if time.monotonic() - heard > self._allowed_silence():
                    return self._hung(time.monotonic() - heard)
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
                config=self.job.config,
                reason="refused",
                stage=stage,
                words=answer.message,
                hint=answer.hint,
            )
        if isinstance(answer, NoMemory):
            return OutOfMemory(config=self.job.config, stage=stage, memory=answer.memory, words=answer.words)
        if isinstance(answer, Fault):
            return Failed(config=self.job.config, reason="error", stage=stage, words=answer.words)
        assert isinstance(answer, Failed), answer
        return answer

    def _hung(self, seconds: float) -> Failed:
        self._child.kill()
        words = f"no sign of life for {seconds:.0f} s while {self._stage}"
        return Failed(config=self.job.config, reason="hung", stage=self._stage, words=words)

    def _died(self) -> Failed:
        return Failed(
            config=self.job.config, reason="died", stage=self._stage, words=self._child.how_it_died()
        )
