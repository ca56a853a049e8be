"""When a run saves and stops before its end: signals, a limit of hours, an hour of the day.

A first Ctrl-C or SIGTERM lets the iteration end and its state be saved; a second Ctrl-C stops at once.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from nanodyno.records.types import StopReason

AUTOSAVE_SECONDS = 15 * 60.0
STOPS: tuple[StopReason, ...] = ("interrupted", "terminated", "max-hours", "stop-at")
SAME_SIGNAL_SECONDS = 2.0
"""A launcher passes on the Ctrl-C that the terminal has given the process already."""


@dataclass(frozen=True)
class Limits:
    """How long this process may go on, and how often it saves besides the evaluations."""

    max_seconds: float | None = None
    stop_at: float | None = None
    """Unix time."""
    autosave_seconds: float | None = AUTOSAVE_SECONDS


class Stops:
    """Asked between two iterations. Durations are told by a clock that nobody sets."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._began = self._saved = clock()
        self.asked: StopReason | None = None

    def reason(self) -> StopReason | None:
        """Why to stop now, if at all."""
        if self.asked is not None:
            return self.asked
        limits = self._limits
        if limits.max_seconds is not None and self._clock() - self._began >= limits.max_seconds:
            return "max-hours"
        if limits.stop_at is not None and time.time() >= limits.stop_at:
            return "stop-at"
        return None

    def autosave_due(self) -> bool:
        every = self._limits.autosave_seconds
        return every is not None and self._clock() - self._saved >= every

    def saved(self) -> None:
        self._saved = self._clock()


@contextmanager
def signals(stops: Stops, launched: bool, tell: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask `stops` to stop; what was there before is put back.

    launched: by torchrun, which passes signals on. Python takes signals in its main thread alone; in another
    thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first = 0.0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if stops.asked is None:
            first = now
            stops.asked = "interrupted"
            # From a thread, since the signal may have come in the middle of a print.
            words = "Ctrl-C: finishing what is at hand and saving; once more stops at once"
            threading.Thread(target=tell, args=(words,), daemon=True).start()
        elif not launched or now - first > SAME_SIGNAL_SECONDS:
            signal.default_int_handler(number, frame)

    def terminate(_: int, __: FrameType | None) -> None:
        stops.asked = stops.asked or "terminated"

    before = {
        number: signal.signal(number, handler)
        for number, handler in ((signal.SIGINT, interrupt), (signal.SIGTERM, terminate))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
