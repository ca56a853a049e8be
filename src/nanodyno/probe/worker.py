"""The parent's side of a probe: a child that may die, hang or be killed without harm to the parent."""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

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
from nanodyno.records.probe import Failed, MemoryRecord, OutOfMemory, SampleRecord, SetupRecord, Stage
from nanodyno.records.types import Record

CHILD = (sys.executable, "-X", "faulthandler", "-m", "nanodyno.probe.child")
POLL_SECONDS = 0.25
LAST_WORDS_BYTES = 8192
FATAL = "Fatal Python error"
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

    It begins to import what it needs at once, and is told its config by `start`. The child leads a session of
    its own: the terminal's Ctrl-C reaches the parent only, which then ends the child with everything it
    started. A parent that dies takes it along, since the child reads its pipe.
    """

    def __init__(self, patience_seconds: float | None = None) -> None:
        """patience_seconds: of silence while measuring; None takes PATIENCE."""
        self._config: RunConfig | None = None
        self._patience = patience_seconds
        self._stage: Stage = "starting"
        self._stage_began = time.monotonic()
        self.samples: list[SampleRecord] = []
        self._warming_seconds = 0.0
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            CHILD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self.pid = self._process.pid
        threading.Thread(target=self._read, name=f"probe {self.pid}", daemon=True).start()

    def start(self, job: ProbeJob, tick: Tick) -> SetupRecord | Ended:
        """Until it is ready to measure: imports, model, compilation, first iterations."""
        self._config = job.config
        answer = self._ask(job, tick)
        if isinstance(answer, Ready):
            self._warming_seconds = time.monotonic() - self._stage_began
            return answer.setup
        return self._ended(answer)

    def has_imported(self) -> bool:
        """Of a spare, before `start`: waits until it does nothing but wait itself. False: it is of no use."""
        try:
            first = self._lines.get(timeout=IMPORT_SECONDS)
        except queue.Empty:
            return False
        self._lines.put(first)
        return first is not None

    def is_alive(self) -> bool:
        return self._process.poll() is None

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
        self._kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._errors.close()

    def _ask(self, what: Record, tick: Tick) -> Message | Failed:
        """Says it, and waits for the answer: the next message that is more than a stage or an iteration."""
        assert self._process.stdin is not None
        with suppress(OSError):  # a child that is gone shows when it is listened to
            self._process.stdin.write(what.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()
        heard = time.monotonic()
        while True:
            tick(self._stage, self.samples)
            try:
                line = self._lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
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

    def _hung(self, seconds: float) -> Failed:
        self._kill()
        words = f"no sign of life for {seconds:.0f} s while {self._stage}"
        return Failed(config=self.config, reason="hung", stage=self._stage, words=words)

    def _died(self) -> Failed:
        code = self._process.wait()
        last = self._last_words()
        words = f"{_how_it_ended(code)}{': ' if last else ''}{last}"
        return Failed(config=self.config, reason="died", stage=self._stage, words=words)

    def _last_words(self) -> str:
        """The last line of what it printed to stderr, or Python's own word on a fatal error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        fatal = [line for line in lines if line.startswith(FATAL)]  # what follows it lists modules
        return (fatal or lines or [""])[-1].strip()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _kill(self) -> None:
        """With all it started, such as the workers of torch's compiler."""
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            return
        with suppress(psutil.NoSuchProcess):
            for each in psutil.Process(self.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        self._process.kill()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    memory = ", as the system does when its memory runs out" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{memory}"
