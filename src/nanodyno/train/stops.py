"""When a run saves and stops before its end: signals, a limit of hours, an hour of the day.

A first Ctrl-C or SIGTERM lets the iteration end and its state be saved; a second Ctrl-C stops at once.
"""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import FrameType

from nanodyno.records.types import SaveRecord, StopReason

AUTOSAVE_SECONDS = 15 * 60.0
SHORT_SAVE_SECONDS = 2.0
"""A save that takes less follows every evaluation."""
TIMES_ITS_LENGTH = 20.0
"""After the last evaluation that was saved, a longer one is saved again; or where an autosave is due."""
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

    def words(self) -> str:
        """When this process will stop, if it has a limit."""
        reported: list[str] = []
        if self.stop_at is not None:
            reported.append(
                f"at {datetime.fromtimestamp(self.stop_at).astimezone():%Y-%m-%d %H:%M} local time"
            )
        if self.max_seconds is not None:
            reported.append(f"after {self.max_seconds / 3600:.3g} hours")
        return f"saves and stops {' or '.join(reported)}" if reported else ""


class Stops:
    """Asked between two iterations. Durations are told by a clock that nobody sets."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._began = self._saved = clock()
        self._saved_evaluation = -math.inf
        self._save_seconds = 0.0
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

    def save_worthwhile(self) -> bool:
        """After an evaluation."""
        if self._save_seconds < SHORT_SAVE_SECONDS or self.autosave_due():
            return True
        return self._clock() - self._saved_evaluation >= TIMES_ITS_LENGTH * self._save_seconds

    def saved(self, save: SaveRecord) -> None:
        self._saved, self._save_seconds = self._clock(), save.save_seconds
        if save.reason == "evaluation":
            self._saved_evaluation = self._saved


class _Handlers:
    """What a signal does. Words are printed by a thread, since a signal may come in the middle of a print."""

    def __init__(self, stops: Stops, launched: bool, tell: Callable[[str], None]) -> None:
        self._stops = stops
        self._launched = launched
        self._tell = tell
        self._first = 0.0
        self._terminals = [
            stream for stream in (1, 2) if os.isatty(stream)
        ]  # once gone, none says it was one

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._stops.asked is None:
            self._first = now
            self._stops.asked = "interrupted"
            words = "Ctrl-C: finishing this iteration and saving; press it again to stop at once"
            threading.Thread(target=self._tell, args=(words,), daemon=True).start()
        elif not self._launched or now - self._first > SAME_SIGNAL_SECONDS:
            signal.default_int_handler(number, frame)

    def terminate(self, _: int, __: FrameType | None) -> None:
        self._stops.asked = self._stops.asked or "terminated"

    def hang_up(self, number: int, frame: FrameType | None) -> None:
        """The terminal is gone, and a print to it would fail."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in self._terminals:
            os.dup2(nowhere, stream)
        self.terminate(number, frame)


@contextmanager
def signals(stops: Stops, launched: bool, tell: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and the end of the terminal ask `stops` to stop; what was there before is put back.

    launched: by torchrun, which passes signals on. Python takes signals in its main thread alone; in another
    thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = _Handlers(stops, launched, tell)
    wanted = {signal.SIGINT: handlers.interrupt, signal.SIGTERM: handlers.terminate}
    # Under nohup it is ignored, and stays so; Windows has none.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        wanted[signal.SIGHUP] = handlers.hang_up
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
