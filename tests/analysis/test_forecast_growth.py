"""Forecasts of runs whose batch grows: by tokens, told in the run's own iterations."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.analysis.losses import with_losses

from nanodyno.analysis.account import Account, AccountStep
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.forecast import Forecast, ForecastQuestion, forecast
from nanodyno.analysis.forecast_findings import findings_of
from nanodyno.analysis.forecast_plan import IterationTimes, plan_of, schedule_of, schedules_open_to

HALF_WAY = 2000 * 524_288
FLAT = {"schedule": "constant", "min_lr": 6e-4}


def asked(account: Account, pace: IterationTimes | None = None, **question: Any) -> Forecast:
    return forecast(account, ForecastQuestion(**question), pace)


def found(account: Account, **question: Any) -> dict[str, Finding]:
    return {each.code: each for each in findings_of(asked(account, **question), account)}


def grown(until: int, **settings: Any) -> Account:
    """The flat run of `with_losses` told in iterations of twice the tokens from its 2,000th on."""
    plain = with_losses(until, settings=FLAT)
    ramp: dict[str, Any] = {"max_iters": 6000, "batch_ramp": f"{HALF_WAY}:1048576"}
    evals = tuple(
        replace(each, iteration=min(each.iteration, 1000 + each.iteration // 2)) for each in plain.evals
    )
    return replace(plain, settings={**plain.settings, **ramp, **settings}, evals=evals)


def raised(account: Account) -> Account:
    """With the rates that were recorded: of twice the tokens by the root of 2 higher."""
    logged = tuple(
        AccountStep(
            at, learning_rate=6e-4 * (1 if at < 2000 else 2**0.5), tokens=524_288 * (1 + (at >= 2000))
        )
        for at in range(3000)
    )
    return replace(account, steps=logged)


def test_a_batch_that_grows_is_forecast_by_its_tokens() -> None:
    """10,000 iterations of 524,288 are 2,000 of them and 4,000 of twice as many."""
    plain, made = asked(with_losses(4000, settings=FLAT)), asked(grown(4000), IterationTimes(2.0, 10.0, 200))
    assert (made.iterations_done, made.iterations, made.tokens) == (3000, 6000, 10_000 * 524_288)
    assert made.final.median == pytest.approx(plain.final.median, abs=1e-6)
    assert made.band is not None
    assert (made.band.updates[0], made.band.updates[-1]) == (3000, 6000)
    assert made.seconds == pytest.approx(3000 * 4.0 + 3000 * 0.05)
    assert asked(grown(4000), tokens=7000 * 524_288.0).iterations == 4500
    assert asked(grown(4000), IterationTimes(2.0, None, None), hours=1).iterations == 3900
    codes = found(grown(4000), until_loss=plain.final.median + 0.01)
    assert codes["forecast-batch-grows"].numbers == {"tokens_per_iter": 524_288, "tokens": 1_048_576}
    reached = next(each for code, each in codes.items() if code.startswith("target-reached"))
    at = reached.numbers["iterations"]
    assert reached.numbers["tokens"] == (2 * at - 2000) * 524_288  # type: ignore[operator]


def test_rates_that_were_raised_with_the_batch_are_reported_as_before() -> None:
    """The root of 2 in every recorded rate is the batch's, and no rise of the schedule."""
    ramped = raised(grown(4000))
    plan = plan_of(ramped)
    assert plan is not None
    rates = schedule_of(ramped, plan, 10_000).rates
    assert rates[200:] == pytest.approx(np.full(9800, 6e-4))


def test_without_a_plan_what_was_recorded_counts_by_its_tokens() -> None:
    """3,000 iterations of which 1,000 had twice the tokens are 4,000; the rest is open."""
    held, *falling = (each.rates for each in schedules_open_to(raised(grown(4000)), 10_000))
    assert held[1:] == pytest.approx(np.full(9999, 6e-4))
    for rates in falling:
        assert rates[1:4001] == pytest.approx(held[1:4001])
        assert rates[-1] < 1e-5


def test_a_target_that_lies_behind_is_reported_in_the_runs_own_iterations() -> None:
    ramped = grown(4000)
    at = ramped.evals[-1].iteration
    lowest = min(each.val_loss for each in ramped.evals)
    reached = asked(ramped, until_loss=lowest).reached
    assert reached is not None
    assert (at, ramped.evals[-1].val_loss) == (3000, lowest)
    assert (reached.seen_loss, reached.iterations) == (lowest, at)
    assert found(ramped, until_loss=lowest)["target-behind"].numbers["iterations"] == 3000


def test_where_the_noise_decides_the_batch_is_left_as_it_is_and_that_is_said() -> None:
    steps = tuple(AccountStep(at, tokens=524_288 * (1 + (at >= 2000))) for at in range(3000))
    reported = found(replace(grown(4000, batch_ramp="noise"), steps=steps))
    assert reported["forecast-batch-by-noise"].numbers == {"tokens": 1_048_576}
    assert reported["forecast-end"].numbers["tokens"] == 10_000 * 524_288
