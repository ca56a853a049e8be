"""What a person sees while tune searches: a live line on a terminal, a line for each candidate."""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console

from nanodyno.analysis.asking import SearchStage
from nanodyno.analysis.probes import summarise_probe
from nanodyno.analysis.tuning import AskStarted, Heard, TuneEvent
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeProgress, ProbeResult
from nanodyno.report.budgeted import BudgetLine
from nanodyno.report.progress import say

STAGES: dict[SearchStage, str] = {
    "screening": "tune.stage.first-look",
    "halving": "tune.stage.second-look",
    "final": "tune.stage.final",
}


class TuneDisplay(Protocol):
    """Shows events; closed when the search ends, however it ends."""

    def __call__(self, event: TuneEvent) -> None: ...

    def close(self) -> None: ...


def make_tune_display(
    console: Console,
    budget_seconds: float,
    language: Language = ENGLISH,
    clock: Callable[[], float] = time.monotonic,
) -> TuneDisplay:
    if console.is_terminal:
        return LiveTuning(console, budget_seconds, language, clock)
    return PlainTuning(console, language)


class PlainTuning:
    """A line for each candidate that was measured: for files, pipes and CI."""

    def __init__(self, console: Console, language: Language) -> None:
        self._console = console
        self._language = language

    def __call__(self, event: TuneEvent) -> None:
        if isinstance(event, Heard) and not event.reused:
            say(self._console, heard_words(event, self._language))

    def close(self) -> None:
        pass


class LiveTuning(PlainTuning):
    """Below those lines one that changes, with the time so far and how much there is."""

    def __init__(
        self, console: Console, budget_seconds: float, language: Language, clock: Callable[[], float]
    ) -> None:
        super().__init__(console, language)
        self._line = BudgetLine(console, budget_seconds, language, clock)

    def __call__(self, event: TuneEvent) -> None:
        super().__call__(event)
        if isinstance(event, AskStarted):
            self._line.enter(asked_words(event, self._language), event.spent_seconds)
        elif isinstance(event, ProbeProgress):
            self._line.show(event)

    def close(self) -> None:
        self._line.close()


def asked_words(asked: AskStarted, language: Language) -> str:
    ask = asked.ask
    if ask.stage == "final":
        return language.say("tune.progress.final-round", number=str(ask.round + 1))
    stage = language.say(STAGES[ask.stage])
    return language.say("tune.progress.search-stage", stage=stage, number=str(asked.search_candidates))


def heard_words(heard: Heard, language: Language) -> str:
    """`16 x 32: 607,553 tok/s, 8.93 GiB (screening)`."""
    words = _result_words(heard.result, language)
    stage = language.say(STAGES[heard.stage])
    return language.say("tune.progress.measured", name=heard.candidate.name, words=words, stage=stage)


def _result_words(result: ProbeResult, language: Language) -> str:
    if isinstance(result, Measured):
        rate = summarise_probe(result).tokens_per_second.value
        peak = result.memory.peak_allocated_bytes or result.memory.peak_host_bytes
        speed = quantities.of_unit(quantities.rate(rate, language), "tok/s", language)
        return language.joined([speed] if peak is None else [speed, quantities.gib(peak, language)])
    if isinstance(result, OutOfMemory):
        return language.say("common.does-not-fit")
    return result.words if isinstance(result, Failed) else language.say("common.disturbed")
