"""What a person sees while attribute measures: a live line on a terminal, a line for each visit."""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nanodyno.analysis.attribution import AttributeEvent, Visited, Visiting
from nanodyno.analysis.probes import summarise_probe
from nanodyno.records.attribution import TrainedRecord
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeProgress
from nanodyno.report import quantities
from nanodyno.report.attribute_words import settings_words
from nanodyno.report.probing import progress_words
from nanodyno.report.progress import say


class AttributeDisplay(Protocol):
    """Shows events; closed when the measuring ends, however it ends."""

    def __call__(self, event: AttributeEvent) -> None: ...

    def close(self) -> None: ...


def make_attribute_display(
    console: Console, budget_seconds: float, clock: Callable[[], float] = time.monotonic
) -> AttributeDisplay:
    if console.is_terminal:
        return LiveAttributing(console, budget_seconds, clock)
    return PlainAttributing(console)


class PlainAttributing:
    """A line for each corner that was measured: for files, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: AttributeEvent) -> None:
        if isinstance(event, Visited) and not event.reused:
            say(self._console, visited_words(event))

    def close(self) -> None:
        pass


class LiveAttributing(PlainAttributing):
    """Below those of the first round one line that changes, with the time so far and how much there is."""

    def __init__(self, console: Console, budget_seconds: float, clock: Callable[[], float]) -> None:
        super().__init__(console)
        self._budget = budget_seconds
        self._clock = clock
        self._began = clock()
        self._spent_before = 0.0
        self._where = ""
        self._live = Live(console=console, transient=True, refresh_per_second=4)
        self._live.start()

    def __call__(self, event: AttributeEvent) -> None:
        if isinstance(event, Visited) and event.round == 0:
            super().__call__(event)
        if isinstance(event, Visiting):
            self._spent_before, self._began = event.spent_seconds, self._clock()
            self._where = f"round {event.round + 1} of {event.corners} corners"
        elif isinstance(event, ProbeProgress):
            spent = self._spent_before + self._clock() - self._began
            times = f"{quantities.clock(spent)} of at most {quantities.clock(self._budget)}"
            words = f"{times}  {self._where}: {progress_words(event, 1)}"
            self._live.update(Text(words, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()


def visited_words(visited: Visited) -> str:
    """`round 1, n_embd=384, batch_size=16: 1,068,871 tok/s`."""
    line = visited.line
    where = f"round {visited.round + 1}, {settings_words(visited.settings)}"
    if isinstance(line, TrainedRecord):
        told = f"val loss {line.val_loss:.4f}" if line.val_loss is not None else str(line.words)
        return f"{where}: {told}"
    result = line.result
    if isinstance(result, Measured):
        return f"{where}: {quantities.rate(summarise_probe(result).tokens_per_second.estimate)} tok/s"
    if isinstance(result, OutOfMemory):
        return f"{where}: does not fit"
    return f"{where}: {result.words if isinstance(result, Failed) else 'disturbed'}"
