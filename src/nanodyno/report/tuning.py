"""What a person sees while tune searches: a live line on a terminal, a line for each candidate."""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nanodyno.analysis.probes import summarise_probe
from nanodyno.analysis.tuning import Asked, Heard, TuneEvent
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeProgress
from nanodyno.report import quantities
from nanodyno.report.probing import progress_words
from nanodyno.report.progress import say

STAGES = {"screening": "a first look", "halving": "a second look", "final": "measured afresh"}


class TuneDisplay(Protocol):
    """Shows events; closed when the search ends, however it ends."""

    def __call__(self, event: TuneEvent) -> None: ...

    def close(self) -> None: ...


def make_tune_display(
    console: Console, budget_seconds: float, clock: Callable[[], float] = time.monotonic
) -> TuneDisplay:
    if console.is_terminal:
        return LiveTuning(console, budget_seconds, clock)
    return PlainTuning(console)


class PlainTuning:
    """A line for each candidate that was measured: for files, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: TuneEvent) -> None:
        if isinstance(event, Heard) and not event.reused:
            say(self._console, heard_words(event))

    def close(self) -> None:
        pass


class LiveTuning(PlainTuning):
    """Below those lines one that changes, with the time so far and how much there is."""

    def __init__(self, console: Console, budget_seconds: float, clock: Callable[[], float]) -> None:
        super().__init__(console)
        self._budget = budget_seconds
        self._clock = clock
        self._began = clock()
        self._spent_before = 0.0
        self._where = ""
        self._live = Live(console=console, transient=True, refresh_per_second=4)
        self._live.start()

    def __call__(self, event: TuneEvent) -> None:
        super().__call__(event)
        if isinstance(event, Asked):
            self._spent_before, self._began = event.spent_seconds, self._clock()
            self._where = asked_words(event)
        elif isinstance(event, ProbeProgress):
            spent = self._spent_before + self._clock() - self._began
            times = f"{quantities.clock(spent)} of {quantities.clock(self._budget)}"
            words = f"{times}  {self._where}: {progress_words(event, 1)}"
            self._live.update(Text(words, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()


def asked_words(asked: Asked) -> str:
    ask = asked.ask
    if ask.stage == "final":
        return f"{STAGES['final']}, round {ask.round + 1}"
    return f"{STAGES[ask.stage]} at up to {asked.entrants}"


def heard_words(heard: Heard) -> str:
    """`16 x 32: 607,553 tok/s, 8.93 GiB (a first look)`."""
    name, result = heard.candidate.name, heard.result
    where = f" ({STAGES[heard.stage]})"
    if isinstance(result, Measured):
        summary = summarise_probe(result)
        peak = result.memory.peak_allocated_bytes or result.memory.peak_host_bytes
        size = "" if peak is None else f", {quantities.gib(peak)}"
        return f"{name}: {quantities.rate(summary.tokens_per_second.estimate)} tok/s{size}{where}"
    if isinstance(result, OutOfMemory):
        return f"{name}: does not fit{where}"
    if isinstance(result, Failed):
        return f"{name}: {result.words}{where}"
    return f"{name}: disturbed{where}"
