"""What a person sees while judge trains: a live line on a terminal, a line for each training and verdict."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nanodyno.analysis.judging import Judged
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.judge import CALLS
from nanodyno.report.progress import say


class JudgeDisplay(Protocol):
    """Shows events; closed when the judging ends, however it ends."""

    def __call__(self, event: Any) -> None: ...

    def close(self) -> None: ...


def make_judge_display(console: Console, language: Language = ENGLISH) -> JudgeDisplay:
    if console.is_terminal:
        return LiveJudging(console, language)
    return PlainJudging(console, language)


class PlainJudging:
    """A line for each training that begins and each verdict: for files, pipes and CI."""

    def __init__(self, console: Console, language: Language) -> None:
        self._console = console
        self._language = language

    def __call__(self, event: Any) -> None:
        if isinstance(event, Judged):
            call = self._language.say(CALLS[event.call])
            say(self._console, f"{event.name}: {call}")
        elif hasattr(event, "iterations"):
            say(self._console, training_words(event, self._language))

    def close(self) -> None:
        pass


class LiveJudging(PlainJudging):
    """One line that changes while a training runs, with the time that is left of it."""

    def __init__(
        self, console: Console, language: Language, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, language)
        self._clock = clock
        self._training: Any = None
        self._began = 0.0
        self._first: tuple[int, float] | None = None
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def __call__(self, event: Any) -> None:
        if isinstance(event, Judged):
            super().__call__(event)
        elif hasattr(event, "iterations"):
            self._training, self._began, self._first = event, self._clock(), None
            self._live.update(Text(training_words(event, self._language), overflow="ellipsis", no_wrap=True))
        elif self._training is not None:
            self._live.update(Text(self._reached(event.iteration), overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()

    def _reached(self, iteration: int) -> str:
        """The time that is left is by the pace since the first report: starting and compiling come before."""
        whole, now = self._training.iterations, self._clock()
        words = training_words(self._training, self._language)
        words += f"  {quantities.share(iteration / whole, '.0f', self._language)}"
        first, since = self._first = self._first or (iteration, now)
        if iteration == first:
            return words
        clocks = {
            "elapsed": quantities.clock(now - self._began, self._language),
            "left": quantities.clock(
                (now - since) * (whole - iteration) / (iteration - first), self._language
            ),
        }
        return f"{words}  {self._language.say('probe.progress.time-left', **clocks)}"


def training_words(event: Any, language: Language) -> str:
    if event.pair is None:
        return language.say("judge.training.pace", name=event.name)
    return language.say("judge.training.pair", name=event.name, pair=str(event.pair + 1))
