"""Smoothed training losses: the line through them, its standard error, and what is decided from them."""

import math
from typing import Any

import pytest
from tests.analysis.accounts import account

from nanodyno.analysis.account import Account, AccountStep
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.analysis.train_losses import smoothed, train_losses_at_equal_time

METRIC = "train_loss_at_equal_seconds"


def points(at: float = 100.0, scatter: float = 0.1) -> list[tuple[float, float]]:
    """On 5 - 2 ln(t / at), a step of 0.05 apart; the scatter is even around the place and sums to nothing."""
    signs = {1: 1, 2: -1, 3: -1, 4: 1}
    places = [number for number in range(-4, 5) if number]
    return [
        (at * math.exp(0.05 * number), 5.0 - 2.0 * 0.05 * number + scatter * signs[abs(number)])
        for number in places
    ]


def losing(name: str, loss: float, seconds: float = 1.0, **changes: Any) -> Account:
    steps = tuple(
        AccountStep(at, loss + (0.1 if at % 2 else -0.1), seconds * (1 + 0.001 * (at % 3 - 1)))
        for at in range(200)
    )
    return account(name, steps=steps, **{"evals": (), **changes})


def test_the_value_is_that_of_the_line_and_its_error_follows_from_the_scatter() -> None:
    """Eight residuals of 0.1: variance 0.08 / 6, over eight losses, whose mean place is the place itself."""
    found = smoothed(points(), 100.0)
    assert found is not None
    assert found.loss == pytest.approx(5.0)
    assert found.slope == pytest.approx(-2.0)
    assert found.noise == pytest.approx(math.sqrt(0.08 / 6 / 8))


def test_only_losses_near_the_place_count() -> None:
    assert smoothed([*points(), (10.0, 9.0), (1000.0, 1.0)], 100.0) == smoothed(points(), 100.0)
    assert smoothed(points()[:-1], 100.0) is None


def test_it_is_read_where_the_slower_run_ended_and_not_of_a_run_without_losses() -> None:
    found = train_losses_at_equal_time([losing("a", 5.0), losing("b", 4.0, seconds=0.5)])
    assert found is not None
    assert found.at == pytest.approx(100.0, rel=1e-3)
    assert {name: loss.loss for name, loss in found.losses.items()} == pytest.approx(
        {"a": 5.0, "b": 4.0}, abs=0.05
    )
    mute = account("b", steps=(), evals=())
    assert train_losses_at_equal_time([losing("a", 5.0), mute]) is None


def test_val_losses_that_meet_go_before_training_losses() -> None:
    both = [losing("a", 5.0), losing("b", 4.0, settings={"learning_rate": 1e-3})]
    assert METRIC in {each.metric for each in compare(both).decisions}
    evaluated = [account("a"), account("b", settings={"learning_rate": 1e-3})]
    found = {each.metric for each in compare(evaluated).decisions}
    assert "val_loss_at_equal_seconds" in found
    assert METRIC not in found


@pytest.mark.parametrize(
    ("gap", "call"), [(-1.0, "better"), (1.0, "worse"), (0.001, "no-significant-difference")]
)
def test_models_of_different_size_have_a_loss_per_hour_too(gap: float, call: str) -> None:
    """Of 20 and 21 losses that scatter by 0.1, and 5% of speed along the curve: some hundredths."""
    both = [losing("a", 5.0), losing("b", 5.0 + gap, settings={"n_layer": 24, "learning_rate": 1e-3})]
    comparison = compare(both)
    decision = comparison.decision(METRIC, "b")
    assert decision is not None
    assert decision.call == call
    assert decision.effect is not None
    assert decision.effect.low is not None
    assert decision.effect.low < gap + 0.03
    assert comparison.winners.get(METRIC) == {"better": "b", "worse": "a"}.get(call)
    (said,) = [each for each in conclusions(comparison) if each.code == "losses-at-equal-time"]
    assert said.numbers["call"] == call


def test_losses_that_are_not_comparable_have_no_winner_and_no_sentence() -> None:
    other = losing("b", 4.0, settings={"dataset": "openwebtext"})
    comparison = compare([losing("a", 5.0), other])
    decision = comparison.decision(METRIC, "b")
    assert decision is not None
    assert (decision.call, decision.reason) == ("not-comparable", "other-data")
    assert METRIC not in comparison.winners
    assert "losses-at-equal-time" not in {each.code for each in conclusions(comparison)}
