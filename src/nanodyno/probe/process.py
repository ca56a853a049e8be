"""A child that may die, hang or be killed without harm to its parent: lines in, lines out, last words."""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress

import psutil

LAST_WORDS_BYTES = 8192
FATAL = "Fatal Python error"


class Silence(Exception):
    """The child has said nothing for as long as it was listened to."""


class Child:
    """`python -m module`, which reads stdin and says a JSON document a line.

    The child leads a session of its own: the terminal's Ctrl-C reaches the parent only, which then ends the
    child with everything it started. A parent that dies takes it along, since the child reads its pipe.
    """

    def __init__(self, module: str) -> None:
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            (sys.executable, "-X", "faulthandler", "-m", module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self.pid = self._process.pid
        threading.Thread(target=self._read, name=f"child {self.pid}", daemon=True).start()

    def say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # a child that is gone shows when it is listened to
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def hear(self, timeout_seconds: float) -> bytes | None:
        """The next line; None when the child is gone. Raises Silence."""
        try:
            return self._lines.get(timeout=timeout_seconds)
        except queue.Empty:
            raise Silence from None

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def how_it_died(self) -> str:
        """Of one that is gone: by what, with the last line of what it printed to stderr."""
        code = self._process.wait()
        last = self._last_words()
        return f"{how_it_ended(code)}{': ' if last else ''}{last}"

    def end(self) -> None:
        """At once: it has nothing to save."""
        self.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._errors.close()

    def kill(self) -> None:
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


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    memory = ", as the system does when its memory runs out" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{memory}"
