"""Losses as pictures: where their points lie."""

from typing import Any

from tests.analysis.accounts import account

from nanodyno.analysis.account import AccountEval, AccountStep
from nanodyno.messages.language import ENGLISH
from nanodyno.report.figures import Lines
from nanodyno.report.page import FigureChoice
from nanodyno.report.pages.losses import loss_pictures


def lines(**changes: Any) -> dict[str, Lines]:
    found = loss_pictures([account("a", **changes)], ENGLISH)
    assert isinstance(found, FigureChoice)
    return {label: figure for label, figure in found.figures if isinstance(figure, Lines)}


def test_a_batch_that_grew_is_drawn_at_its_own_tokens() -> None:
    """Ten iterations of 100 tokens and ten of 300, which take three times as long."""
    steps = tuple(
        AccountStep(at, 4.0, 1.0 if at < 10 else 3.0, tokens=100 if at < 10 else 300, stretch=int(at >= 10))
        for at in range(20)
    )
    evals = (AccountEval(10, 4.0), AccountEval(20, 3.9))
    found = lines(settings={"tokens_per_iter": 100}, steps=steps, evals=evals)
    ends = {label: [each.points[-1][0] for each in figure.series] for label, figure in found.items()}
    assert ends == {"tokens": [4000, 4000], "time": [40.0, 40.0], "iterations": [20, 20]}


def test_perplexities_are_not_drawn_as_losses() -> None:
    steps = tuple(AccountStep(at, 4.0, 1.0) for at in range(1, 1001, 10))
    evals = (AccountEval(500, 60.0), AccountEval(1000, 55.0))
    found = lines(steps=steps, evals=evals, foreign=True)["iterations"]
    assert max(y for series in found.series for _, y in series.points) < 5
