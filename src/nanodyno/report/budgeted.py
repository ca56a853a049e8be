"""One line that changes while a budget is spent: the time so far, how much there is, what is measured now."""

from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nanodyno.messages import quantities
from nanodyno.messages.language import Language
from nanodyno.records.probe import ProbeProgress
from nanodyno.report.probing import progress_words


class BudgetLine:
    """On a terminal, below what is printed meanwhile."""

    def __init__(
        self, console: Console, budget_seconds: float, language: Language, clock: Callable[[], float]
    ) -> None:
        self._budget = budget_seconds
        self._language = language
        self._clock = clock
        self._began = clock()
        self._spent_before = 0.0
        self._where = ""
        self._live = Live(console=console, transient=True, refresh_per_second=4)
        self._live.start()

    def enter(self, where: str, spent_seconds: float) -> None:
        """A part of the work, begun when so much was spent."""
        self._where, self._spent_before, self._began = where, spent_seconds, self._clock()

    def show(self, progress: ProbeProgress) -> None:
        spent = self._spent_before + self._clock() - self._began
        times = self._language.say(
            "common.spent-of-budget",
            spent=quantities.clock(spent, self._language),
            budget=quantities.clock(self._budget, self._language),
        )
        words = f"{times}  {self._where}: {progress_words(progress, 1, self._language)}"
        self._live.update(Text(words, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()
