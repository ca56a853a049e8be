"""What a person sees while probes measure: one live line on a terminal, a line a stage elsewhere."""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nanodyno.records.probe import ProbeProgress
from nanodyno.report import quantities
from nanodyno.report.disturbances import disturbance_words
from nanodyno.report.progress import say


class ProbeDisplay(Protocol):
    """Shows progress; closed when the measuring ends, however it ends."""

    def __call__(self, progress: ProbeProgress) -> None: ...

    def close(self) -> None: ...


def make_probe_display(
    console: Console, rounds: int, clock: Callable[[], float] = time.monotonic
) -> ProbeDisplay:
    """rounds: the most that are planned."""
    if console.is_terminal:
        return LiveProbing(console, rounds, Pace(rounds, clock))
    return PlainProbing(console, rounds)


class Pace:
    """How long all planned rounds would take, by those that are over. A verdict may come sooner."""

    def __init__(self, rounds: int, clock: Callable[[], float]) -> None:
        self._rounds = rounds
        self._clock = clock
        self._began = self._round_began = clock()
        self._over = 0

    def elapsed(self) -> float:
        return self._clock() - self._began

    def enter(self, number: int) -> None:
        """A round, counted from 0."""
        if number > self._over:
            self._over = number
            self._round_began = self._clock()

    def left(self) -> float | None:
        """None in the first round."""
        if not self._over:
            return None
        each = (self._round_began - self._began) / self._over
        return max(0.0, (self._rounds - self._over) * each - (self._clock() - self._round_began))


class PlainProbing:
    """A line whenever a config enters another stage: for files, pipes and CI."""

    def __init__(self, console: Console, rounds: int) -> None:
        self._console = console
        self._rounds = rounds
        self._last: tuple[str, int, str] | None = None

    def __call__(self, progress: ProbeProgress) -> None:
        here = (progress.name, progress.round, progress.stage)
        if here != self._last or progress.redone_for:
            self._last = here
            say(self._console, progress_words(progress, self._rounds))

    def close(self) -> None:
        pass


class LiveProbing:
    """One line that changes, with the time so far and to come; what is measured again stays above it."""

    def __init__(self, console: Console, rounds: int, pace: Pace) -> None:
        self._console = console
        self._rounds = rounds
        self._pace = pace
        self._live = Live(console=console, transient=True, refresh_per_second=4)
        self._live.start()

    def __call__(self, progress: ProbeProgress) -> None:
        if progress.redone_for:
            say(self._console, progress_words(progress, self._rounds), "yellow", soft_wrap=False)
            return
        self._pace.enter(progress.round)
        left = self._pace.left()
        to_come = "" if left is None else f", up to about {quantities.clock(left)} to go"
        words = f"{quantities.clock(self._pace.elapsed())}{to_come}  {progress_words(progress, self._rounds)}"
        self._live.update(Text(words, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()


def progress_words(progress: ProbeProgress, rounds: int) -> str:
    words = progress.name
    if rounds > 1:
        words += f", process {progress.round + 1} of at most {rounds}"
    if progress.redone_for:
        causes = dict.fromkeys(disturbance_words(each) for each in progress.redone_for)
        return f"{words}: once more, since {'; '.join(causes)}"
    words += f": {progress.stage}"
    if progress.samples and progress.seconds is not None:
        words += f", {progress.samples} iterations, the last {quantities.milliseconds(progress.seconds)}"
    return words
