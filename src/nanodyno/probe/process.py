"""Work in a child process, the parent's side: probes, device checks and short trainings alike.

A task is a generator in a module of its own, named `module:function`, which child.py runs. The parent sends
requests, and the child answers each with TaskProgress, as often as it likes, and then a TaskResult or a
Failure: one JSON document a line. Whatever becomes of the child is a value here.
"""

import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self, TypeVar

import psutil
from pydantic import Field, TypeAdapter

from nanodyno.errors import NanodynoError
from nanodyno.records.probe import Failed, MemoryRecord
from nanodyno.records.types import Record

ENTRY = "nanodyno.probe.child"
POLL_SECONDS = 0.25
SLOWEST_TIMES = 20.0
"""Silence may also last this many times the longest piece of work so far, such as the slowest iteration."""
LAST_WORDS_BYTES = 8192
FATAL = "Fatal Python error"

T = TypeVar("T")


class TaskProgress(Record):
    """What the child is doing; with a value, a piece of the work is done."""

    kind: Literal["progress"] = "progress"
    stage: str
    value: Any = None


class TaskResult(Record):
    kind: Literal["result"] = "result"
    value: Any


class Failure(Record):
    """Why there is no result."""

    kind: Literal["failure"] = "failure"
    reason: Literal["refused", "out-of-memory", "hung", "died", "error"]
    """refused: a NanodynoError, raised where the device and the data are."""
    words: str
    hint: str | None = None
    stage: str = "starting"
    memory: MemoryRecord | None = None
    """What was reached before it ran out."""


_MESSAGES: TypeAdapter[TaskProgress | TaskResult | Failure] = TypeAdapter(
    Annotated[TaskProgress | TaskResult | Failure, Field(discriminator="kind")]
)

Watch = Callable[["Child", Any], object]
"""Called with the value of each progress, and several times a second with None."""


def run_task(
    task: str,
    request: Record,
    kind: type[T],
    watch: Watch = lambda *_: None,
    limit_seconds: float = math.inf,
    patience: Mapping[str, float] | None = None,
) -> T | Failure:
    """Return the answer to a single request, from a child of its own that is gone afterwards."""
    with Child(task, patience, limit_seconds) as child:
        return child.ask(request, kind, watch)


def unless_refused(result: T) -> T:
    """Return the result, but raise a user's mistake: of work that is pointless without it."""
    if isinstance(result, Failure | Failed) and result.reason == "refused":
        raise NanodynoError(result.words, result.hint)
    return result


class Child:
    """A process that imports its task at once and then waits for requests. After a Failure it is gone.

    It leads a session of its own: the terminal's Ctrl-C reaches the parent only, which then ends the child
    with everything it started. A parent that dies takes it along, since the child reads its pipe.
    """

    def __init__(
        self, task: str, patience: Mapping[str, float] | None = None, limit_seconds: float = math.inf
    ) -> None:
        """patience: seconds of silence by stage, after which it counts as hung; without an entry, never."""
        self.stage = "starting"
        self._patience = patience or {}
        self._slowest_seconds = 0.0
        self.limit(limit_seconds)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            (sys.executable, "-X", "faulthandler", "-m", ENTRY, task),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self.pid = self._process.pid
        threading.Thread(target=self._read, name=f"child {self.pid}", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def limit(self, seconds: float) -> None:
        """Count what is not answered within so many seconds from now as hung, however lively."""
        self._limit_seconds, self._until = seconds, time.monotonic() + seconds

    def ask(self, request: Record, kind: type[T], watch: Watch = lambda *_: None) -> T | Failure:
        """Return the child's result, read as `kind`."""
        assert self._process.stdin is not None
        with suppress(OSError):  # a child that is gone shows when it is listened to
            self._process.stdin.write(request.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()
        answer = self._answer(watch)
        if isinstance(answer, TaskResult):
            return TypeAdapter(kind).validate_python(answer.value)
        self.end()
        return answer.model_copy(update={"stage": self.stage})

    def has_started(self, timeout_seconds: float) -> bool:
        """Wait, before the first request, until it has imported its task; False: it is of no use."""
        try:
            return self._lines.get(timeout=timeout_seconds) is not None
        except queue.Empty:
            return False

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """End it at once with all it started, such as the workers of torch's compiler: nothing is lost."""
        if self._errors.closed:
            return
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        else:
            with suppress(psutil.NoSuchProcess):
                for each in psutil.Process(self.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._errors.close()

    def _answer(self, watch: Watch) -> TaskResult | Failure:
        value, slowest, heard = None, 0.0, time.monotonic()
        while True:
            watch(self, value)
            message, value = self._next(heard), None
            if message is None:
                continue
            if isinstance(message, Failure):
                return message
            waited, heard = time.monotonic() - heard, time.monotonic()
            if message.value is not None:
                slowest = self._slowest_seconds = max(slowest, waited)
            if isinstance(message, TaskResult):
                return message
            self.stage, value = message.stage, message.value

    def _next(self, heard: float) -> TaskProgress | TaskResult | Failure | None:
        """Return the next message, or the Failure that the lack of one is; None while neither is there."""
        if time.monotonic() > self._until:
            return _hung(f"not done after {self._limit_seconds:.6g} s, still {self.stage}")
        was_alive = self.is_alive()
        try:
            line = self._lines.get(timeout=POLL_SECONDS)
        except queue.Empty:
            silence = time.monotonic() - heard
            if not was_alive:  # and something that it started holds its pipe open
                return self._died()
            if silence > self._allowed_silence():
                return _hung(f"no sign of life for {silence:.0f} s while {self.stage}")
            return None
        if line is None:  # its pipe is closed; if it lives on, its time will be up
            return None if self.is_alive() else self._died()
        return _MESSAGES.validate_json(line)

    def _allowed_silence(self) -> float:
        """By the pieces of work of this request, and before its first by those of the one before."""
        return max(self._patience.get(self.stage, math.inf), SLOWEST_TIMES * self._slowest_seconds)

    def _died(self) -> Failure:
        """By what, with the last line that it printed to stderr or Python's own word on a fatal error."""
        code = self._process.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        fatal = [line for line in lines if line.startswith(FATAL)]  # what follows it lists modules
        last = (fatal or lines or [""])[-1].strip()
        return Failure(reason="died", words=f"{how_it_ended(code)}{': ' if last else ''}{last}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)


def _hung(words: str) -> Failure:
    return Failure(reason="hung", words=words)


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    memory = ", as the system does when its memory runs out" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{memory}"
