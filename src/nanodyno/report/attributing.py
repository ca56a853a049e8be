"""What a person sees while attribute measures: a live line on a terminal, a line for each visit."""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console

from nanodyno.analysis.attribution import AttributeEvent, CombinationMeasured, RoundStarted
from nanodyno.analysis.probes import summarise_probe
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import settings_words, value_words
from nanodyno.records.attribution import AttributionLine, TrainedRecord
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeProgress
from nanodyno.report.budgeted import BudgetLine
from nanodyno.report.progress import say


class AttributeDisplay(Protocol):
    """Shows events; closed when the measuring ends, however it ends."""

    def __call__(self, event: AttributeEvent) -> None: ...

    def close(self) -> None: ...


def make_attribute_display(
    console: Console,
    budget_seconds: float,
    language: Language = ENGLISH,
    clock: Callable[[], float] = time.monotonic,
) -> AttributeDisplay:
    if console.is_terminal:
        return LiveAttributing(console, budget_seconds, language, clock)
    return PlainAttributing(console, language)


class PlainAttributing:
    """A line for each round that begins and combination that was measured: for files, pipes and CI."""

    def __init__(self, console: Console, language: Language) -> None:
        self._console = console
        self._language = language

    def __call__(self, event: AttributeEvent) -> None:
        if isinstance(event, RoundStarted):
            say(self._console, round_words(event, self._language))
        elif isinstance(event, CombinationMeasured) and not event.reused:
            say(self._console, measured_words(event, self._language))

    def close(self) -> None:
        pass


class LiveAttributing(PlainAttributing):
    """Below those of the first round one line that changes, with the time so far and how much there is."""

    def __init__(
        self, console: Console, budget_seconds: float, language: Language, clock: Callable[[], float]
    ) -> None:
        super().__init__(console, language)
        self._line = BudgetLine(console, budget_seconds, language, clock)

    def __call__(self, event: AttributeEvent) -> None:
        if isinstance(event, CombinationMeasured) and event.round == 0:
            super().__call__(event)
        if isinstance(event, RoundStarted):
            self._line.enter(round_words(event, self._language), event.spent_seconds)
        elif isinstance(event, ProbeProgress):
            self._line.show(event)

    def close(self) -> None:
        self._line.close()


def round_words(round_started: RoundStarted, language: Language) -> str:
    return language.say_plural(
        "attribute.progress.round",
        round_started.combinations,
        number=str(round_started.round + 1),
    )


def measured_words(combination_measured: CombinationMeasured, language: Language = ENGLISH) -> str:
    """`round 1, n_embd=384, batch_size=16: 1,068,871 tok/s`."""
    return language.say(
        "attribute.progress.measured",
        number=str(combination_measured.round + 1),
        combination=settings_words(combination_measured.settings, language),
        words=_reported(combination_measured.line, language),
    )


def _reported(line: AttributionLine, language: Language) -> str:
    if isinstance(line, TrainedRecord):
        if line.val_loss is None:
            return str(line.words)
        return language.say("attribute.progress.val-loss", loss=language.number(line.val_loss, ".4f"))
    result = line.result
    if isinstance(result, Measured):
        return value_words(summarise_probe(result).tokens_per_second.value, "tokens_per_second", language)
    if isinstance(result, OutOfMemory):
        return language.say("common.does-not-fit")
    return result.words if isinstance(result, Failed) else language.say("common.disturbed")
