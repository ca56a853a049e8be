"""The forecast of a run while it trains, renewed at each evaluation."""

from contextlib import suppress
from dataclasses import replace

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.forecast import ForecastLoss, ForecastQuestion, forecast
from nanodyno.analysis.forecast_findings import findings_of
from nanodyno.errors import NanodynoError
from nanodyno.messages.findings import words as finding_words
from nanodyno.records.events import Started
from nanodyno.records.store import Run, read_run
from nanodyno.records.types import EvalRecord, StepRecord

ENOUGH_EVALS = 5
MOST_STEPS, RECENT_STEPS = 6000, 1000
"""Kept of them: every second of the older ones is let go, so that a forecast costs the same at any length."""
EARLIEST, LATEST = 0.1, 0.98
"""Of the run: before, little is known; after, there is nothing left to forecast."""

NO_END = ("forecast-overfitting", "forecast-dead", "forecast-dead-from-start", "forecast-stuck")
"""Said once in place of a forecast."""


class Outlook:
    """Keeps losses and rates; a resumed run's are read from its folder once."""

    def __init__(self, started: Started) -> None:
        self._account = account_of(Run(started.folder, started.record, (), ()))
        self._steps: list[AccountStep] = []
        self._evals: list[AccountEval] = []
        self._reported: set[str] = set()
        if started.iteration:
            with suppress(NanodynoError):  # what cannot be read is not forecast from; training goes on
                earlier = account_of(read_run(started.folder, up_to_damage=True))
                self._steps, self._evals = list(earlier.steps), list(earlier.evals)

    def add_step(self, step: StepRecord) -> None:
        self._steps.append(
            AccountStep(step.iteration, step.loss, learning_rate=step.learning_rate, tokens=step.tokens)
        )
        if len(self._steps) > MOST_STEPS:
            self._steps = [*self._steps[:-RECENT_STEPS:2], *self._steps[-RECENT_STEPS:]]

    def add_eval(self, entry: EvalRecord) -> tuple[str, list[str]]:
        """The forecast in a few words or none, and warnings that were not given before."""
        self._evals.append(AccountEval(entry.iteration, entry.val_loss, entry.train_loss))
        account = self._now()
        planned = int(account.settings["max_iters"] or 0)
        share = entry.iteration / planned
        if len(self._evals) < ENOUGH_EVALS or not EARLIEST <= share <= LATEST:
            return "", []
        try:
            made = forecast(account, ForecastQuestion(), None)
        except NanodynoError:
            return "", []
        found = [
            each
            for each in findings_of(made, account)
            if each.code.startswith("warning-") or each.code in NO_END
        ]
        fresh = [each for each in found if each.code not in self._reported]
        self._reported |= {each.code for each in fresh}
        final = made.expected
        words = _short_end(final) if final and made.basis == "curve" else ""
        return words, [finding_words(each) for each in fresh]

    def _now(self) -> Account:
        return replace(self._account, steps=tuple(self._steps), evals=tuple(self._evals))


def _short_end(final: ForecastLoss) -> str:
    """For a line of progress, which is English."""
    return f"forecast final loss {final.median:.3f} (80%: {final.low:.3f} to {final.high:.3f})"
