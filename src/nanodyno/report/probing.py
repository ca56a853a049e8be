"""What a person sees while probes measure: one live line on a terminal, a line a stage elsewhere."""

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.probe import ProbeProgress
from nanodyno.report.disturbances import causes_words, stage_words
from nanodyno.report.progress import say


class ProbeDisplay(Protocol):
    """Shows progress; closed when the measuring ends, however it ends."""

    def __call__(self, progress: ProbeProgress) -> None: ...

    def close(self) -> None: ...


def make_probe_display(
    console: Console,
    rounds: int,
    language: Language = ENGLISH,
    clock: Callable[[], float] = time.monotonic,
) -> ProbeDisplay:
    """rounds: the most that are planned."""
    if console.is_terminal:
        return LiveProbing(console, rounds, RoundEta(rounds, clock), language)
    return PlainProbing(console, rounds, language)


class RoundEta:
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

    def __init__(self, console: Console, rounds: int, language: Language) -> None:
        self._console = console
        self._rounds = rounds
        self._language = language
        self._last: tuple[str, int, str] | None = None

    def __call__(self, progress: ProbeProgress) -> None:
        here = (progress.name, progress.round, progress.stage)
        if here != self._last or progress.redone_for:
            self._last = here
            say(self._console, progress_words(progress, self._rounds, self._language))

    def close(self) -> None:
        pass


class LiveProbing:
    """One line that changes, with the time so far and to come; what is measured again stays above it."""

    def __init__(self, console: Console, rounds: int, pace: RoundEta, language: Language) -> None:
        self._console = console
        self._rounds = rounds
        self._language = language
        self._pace = pace
        self._live = Live(console=console, transient=True, refresh_per_second=4)
        self._live.start()

    def __call__(self, progress: ProbeProgress) -> None:
        if progress.redone_for:
            words = progress_words(progress, self._rounds, self._language)
            say(self._console, words, "yellow", soft_wrap=False)
            return
        self._pace.enter(progress.round)
        times = pace_words(self._pace, self._language)
        words = f"{times}  {progress_words(progress, self._rounds, self._language)}"
        self._live.update(Text(words, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()


def pace_words(pace: RoundEta, language: Language) -> str:
    elapsed, left = quantities.clock(pace.elapsed(), language), pace.left()
    if left is None:
        return elapsed
    return language.say("probe.progress.time-left", elapsed=elapsed, left=quantities.clock(left, language))


def progress_words(progress: ProbeProgress, rounds: int, language: Language = ENGLISH) -> str:
    name = progress.name
    if rounds > 1:
        name = language.say(
            "probe.progress.process",
            name=name,
            number=str(progress.round + 1),
            most=str(rounds),
        )
    if progress.redone_for:
        why = causes_words(progress.redone_for, language)
        return language.say("probe.progress.repeated", name=name, why=why)
    stage = language.say("probe.progress.stage", name=name, stage=stage_words(progress.stage, language))
    if not progress.samples or progress.seconds is None:
        return stage
    last = language.say_plural(
        "probe.progress.iterations",
        progress.samples,
        time=quantities.milliseconds(progress.seconds, language),
    )
    return language.joined([stage, last])
