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


def make_probe_display(console: Console, rounds: int, configs: int) -> ProbeDisplay:
    """rounds: the most that may come."""
    if console.is_terminal:
        return LiveProbing(console, rounds, Pace(rounds * configs))
    return PlainProbing(console, rounds)


class Pace:
    """How long the rest takes at most, by the processes that have ended."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._began = clock()
        self._ended = 0
        self._last_end = self._began
        self._here: tuple[str, int] | None = None

    def elapsed(self) -> float:
        return self._clock() - self._began

    def enter(self, name: str, number: int) -> None:
        """A config in a round."""
        if self._here not in (None, (name, number)):
            self._ended += 1
            self._last_end = self._clock()
        self._here = (name, number)

    def left(self) -> float | None:
        """None until one has ended."""
        if not self._ended:
            return None
        each = (self._last_end - self._began) / self._ended
        return max(0.0, (self._most - self._ended) * each - (self._clock() - self._last_end))


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
        self._pace.enter(progress.name, progress.round)
        left = self._pace.left()
        to_come = "" if left is None else f", at most {quantities.clock(left)} to go"
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
