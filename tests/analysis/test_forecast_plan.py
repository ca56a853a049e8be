"""The rates of a run: as recorded, as planned, and as far as a log tells them."""

from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.losses import cosine, true_loss, with_losses

from nanodyno.analysis.account import AccountStep
from nanodyno.analysis.forecast import ForecastQuestion, forecast
from nanodyno.analysis.forecast_law import Schedule
from nanodyno.analysis.forecast_plan import plan_of, schedule_of, schedules_open_to
from nanodyno.schedule import learning_rate_at


def test_rates_that_were_logged_count_where_the_plan_is_not_known() -> None:
    """A rate that was held so far: a curve that fell under it leaves less open than one of any schedule."""
    rates = np.full(10_000, 3e-4)
    run = with_losses(5000, loss=lambda at: true_loss(Schedule(rates), at))
    bare = replace(run, settings={"max_iters": 10_000}, foreign=True)
    logged = replace(bare, steps=tuple(AccountStep(at, learning_rate=3e-4) for at in range(0, 5000, 10)))
    ways = schedules_open_to(logged, 10_000)
    assert all(each.rates[:5000] == pytest.approx(rates[:5000]) for each in ways)
    assert [float(each.rates[-1]) for each in ways] == pytest.approx([3e-4, 0, 0], abs=1e-6)
    wide, narrow = (forecast(each, ForecastQuestion(), None).final for each in (bare, logged))
    assert narrow.high - narrow.low < wide.high - wide.low
    for way in ways:
        assert narrow.low < float(true_loss(way, np.array([10_000.0]))[0]) < narrow.high


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd", "constant"])
def test_rates_of_long_plans_are_those_of_each_iteration(schedule: str) -> None:
    """Of 400,000 iterations a quarter is worked out, and each turn."""
    changes = {"max_iters": 400_000, "lr_decay_iters": 360_000, "warmup_iters": 777, "schedule": schedule}
    run = with_losses(5000)
    plan = plan_of(run, changes)
    assert plan is not None
    rates = schedule_of(run, plan, 400_000).rates
    at = np.concatenate([np.arange(5001, 400_000, 997), [776, 777, 778, 288_000, 288_001, 360_000, 360_001]])
    every = [learning_rate_at(plan, int(each)) for each in at]
    assert rates[at] == pytest.approx(np.array(every), abs=1e-12)


def test_a_peak_that_is_told_of_a_log_without_rates_is_that_of_before_too() -> None:
    """Held at 6e-4 from here on: not a thousandth of the nominal peak that stood for the unknown one."""
    run = with_losses(5000)
    bare = {key: value for key, value in run.settings.items() if key not in ("learning_rate", "min_lr")}
    log = replace(run, settings=bare, foreign=True)
    plan = plan_of(log, {"learning_rate": 6e-4, "min_lr": 6e-4})
    assert plan is not None
    rates = schedule_of(log, plan, 10_000, plan_of(log)).rates
    assert rates[200] == pytest.approx(6e-4, rel=0.01)
    assert rates[9000] == pytest.approx(6e-4)


def test_before_the_first_logged_rate_it_climbs_where_no_warm_up_is_reported() -> None:
    logged = tuple(AccountStep(at, learning_rate=3e-4) for at in range(999, 5000, 10))
    run = replace(with_losses(5000, steps=logged), settings={}, foreign=True)
    reported = {"schedule": "wsd", "max_iters": 10_000}
    for warmup, rate in ((0, 1.5e-4), (100, 3e-4)):
        plan = plan_of(run, {**reported, "warmup_iters": warmup})
        assert plan is not None
        assert schedule_of(run, plan, 10_000).rates[499] == pytest.approx(rate)


def test_the_peak_of_logged_rates_need_not_be_reported() -> None:
    logged = tuple(AccountStep(at, learning_rate=min(at / 100, 1) * 3e-4) for at in range(0, 5000, 10))
    run = replace(with_losses(5000, steps=logged), settings={}, foreign=True)
    assert plan_of(run) is None
    plan = plan_of(run, {"schedule": "wsd", "max_iters": 10_000})
    assert plan is not None
    assert (plan.learning_rate, plan.lr_decay_iters) == (3e-4, 10_000)


def test_recorded_rates_count_more_than_planned_ones() -> None:
    """A run that was taken up again with a tenth of the rate from iteration 2,000 on."""
    logged = tuple(AccountStep(at, learning_rate=6e-4 if at < 2000 else 6e-5) for at in range(0, 3000, 10))
    run = with_losses(3000, steps=logged)
    plan = plan_of(run)
    assert plan is not None
    rates = schedule_of(run, plan, 10_000).rates
    assert (rates[1500], rates[2500]) == (6e-4, 6e-5)
    assert rates[5000] == pytest.approx(cosine(10_000).rates[5000], rel=1e-2)


def test_what_was_is_not_changed_by_what_is_asked_about() -> None:
    """With lr_decay_iters=20000 the rates of the first 5,000 iterations stay those of 10,000."""
    run = with_losses(5000)
    plan = plan_of(run, {"lr_decay_iters": 20_000})
    assert plan is not None
    rates = schedule_of(run, plan, 20_000, plan_of(run)).rates
    assert rates[:5000] == pytest.approx(cosine(10_000).rates[:5000], rel=1e-2)
    assert rates[5000] > 1.3 * rates[4999]
