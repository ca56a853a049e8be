"""Runs that overfit, runs that are dead, runs with finished siblings, schedules without a rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.losses import cosine, true_loss, with_losses
from tests.analysis.test_forecast_warnings import data

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.forecast import Forecast, ForecastQuestion, forecast
from nanodyno.analysis.forecast_findings import ends_of, findings_of, lower_of
from nanodyno.analysis.forecast_law import Array
from nanodyno.analysis.forecast_overfit import SeenLoss, risen
from nanodyno.analysis.forecast_plan import curve_of, plan_of
from nanodyno.analysis.forecast_points import Curve
from nanodyno.analysis.forecast_siblings import siblings_of
from nanodyno.errors import NanodynoError

MEASURED = (
    (50, 3.32, 3.25), (100, 2.898, 2.69), (200, 2.747, 2.42), (300, 2.615, 2.15), (400, 2.552, 1.89),
    (450, 2.497, 1.74), (500, 2.508, 1.61), (600, 2.523, 1.41), (700, 2.521, 1.23), (800, 2.629, 1.09),
    (900, 2.676, 0.96), (1000, 2.792, 0.84), (1100, 2.96, 0.73), (1200, 3.11, 0.62), (1300, 3.253, 0.53),
    (1400, 3.394, 0.46), (1500, 3.473, 0.40), (1600, 3.596, 0.36), (1700, 3.662, 0.33), (1800, 3.738, 0.30),
    (1900, 3.821, 0.29), (2000, 3.888, 0.27),
)  # fmt: skip
"""Iteration, val and train loss of a training of our own: 30 kB of text, 68 epochs (docs/log)."""


def overfit(until: int, train: bool = True) -> Account:
    evals = tuple(AccountEval(at, val, own if train else None) for at, val, own in MEASURED if at <= until)
    return replace(with_losses(2000, max_iters=2000), evals=evals, data_vocab_size=256)


OVERFIT = overfit(1000)
SOUND = with_losses(5000)
DEAD = replace(SOUND, evals=(*SOUND.evals[:10], *(AccountEval(at, math.nan) for at in (2200, 2400))))
STUCK = replace(
    SOUND,
    evals=(AccountEval(0, 10.9), AccountEval(200, 7.0), *(AccountEval(at, 11.0) for at in (400, 600, 800))),
)


def asked(account: Account) -> Forecast:
    return forecast(account, ForecastQuestion(), None)


def found(account: Account) -> dict[str, Finding]:
    return {each.code: each for each in findings_of(asked(account), account)}


@pytest.mark.parametrize("until", [900, 1000, 1200, 1500])
def test_overfitting_has_its_minimum_and_an_end_that_the_interval_covers(until: int) -> None:
    made = asked(overfit(until))
    assert made.basis == "overfitting"
    assert made.lowest is not None
    assert (made.lowest.iterations, made.lowest.loss) == (450, 2.497)
    assert made.final.low < 3.888 < made.final.high
    numbers = found(overfit(until))["forecast-overfitting"].numbers
    assert (numbers["iteration"], numbers["best"]) == (450, 2.497)
    assert "warning-diverging" not in found(overfit(until))


def test_a_val_loss_that_rises_with_the_train_loss_is_divergence_and_not_overfitting() -> None:
    rising = overfit(1000)
    both = replace(
        rising, evals=tuple(replace(each, train_loss=each.val_loss - 0.1) for each in rising.evals)
    )
    assert asked(both).basis != "overfitting"
    assert "warning-diverging" in found(both)
    assert asked(overfit(1000, train=False)).basis != "overfitting"
    batches = tuple(AccountStep(at, own) for at, _, own in MEASURED if at <= 1000)
    assert asked(replace(overfit(1000, train=False), steps=batches)).basis == "overfitting"


LEAPT = tuple(AccountEval(at, 4.0 + at / 5000) for at in (5200, 5400, 5600))


def test_a_loss_that_may_be_diverging_recovers_in_the_middle_and_rises_at_the_upper_end() -> None:
    run = replace(SOUND, evals=(*SOUND.evals, *LEAPT))
    made, sound = asked(run), asked(SOUND)
    assert "warning-diverging" in found(run)
    assert made.final.median == pytest.approx(sound.final.median, abs=1e-4)
    assert made.final.low == pytest.approx(sound.final.low, abs=1e-4)
    assert made.final.high > 5.12  # where a straight line from the last three comes
    assert made.raised == pytest.approx(made.final.high - sound.final.high, abs=1e-4)


def test_a_loss_that_rises_from_its_first_evaluation_on_is_forecast_between_its_best_and_its_rise() -> None:
    made = asked(with_losses(5000, loss=lambda at: 3 + 2e-4 * at))
    assert made.final.median == pytest.approx(3.04)
    assert made.final.low < 3.04
    assert made.final.high > 5.0


def test_a_loss_that_rises_because_its_rate_does_is_not_diverging() -> None:
    """A warm-up of 6,000 iterations: 4,000 at rates that rise, of which the last ones bring a rise."""
    rising = replace(SOUND, evals=(*SOUND.evals[:20], *(AccountEval(at, 3.9) for at in (4200, 4400, 4600))))
    slow = replace(rising, settings={**rising.settings, **{"warmup_iters": 6000}})
    assert "warning-diverging" in found(rising)
    assert "warning-diverging" not in found(slow)


def test_the_rise_of_overfitting_is_as_uncertain_as_its_losses_scatter() -> None:
    """A regression's prediction interval: 4 losses 0.03 off their line by turns, and no rise to speak of."""
    at = np.arange(100.0, 900.0, 100.0)
    off = 0.03 * np.array([1, -1, -1, 1] * 2)
    best = SeenLoss(100.0, 2.0)
    made = risen(Curve(at, 2.1 + off), best, np.array([800.0, 900.0]))
    deviation = 0.03 * math.sqrt(4 / 2)
    x = np.array([150.0, 250.0]) / 100
    assert made.spread == pytest.approx(deviation * np.sqrt(1 + 1 / 4 + x**2 / 5), rel=0.01)


def test_losses_below_0_are_refused() -> None:
    with pytest.raises(NanodynoError, match="below 0"):
        asked(with_losses(5000, loss=lambda at: 1.0 - at / 4000))


def fast(name: str, until: int, rate: float) -> Account:
    """A small set of data learned by heart: the loss falls by e every `rate` iterations."""
    return with_losses(
        until,
        every=25,
        max_iters=1000,
        name=name,
        loss=lambda at: 4.2 * np.exp(-at / rate) + 0.001,
        settings={"warmup_iters": 10},
    )


def is_above_zero(made: Forecast) -> bool:
    band = made.band
    assert band is not None
    whole = bool(np.all((band.low >= 0) & (band.low <= band.median) & (band.median <= band.high)))
    return whole and bool(np.all(band.median > 0)) and made.final.low < made.final.median < made.final.high


@pytest.mark.parametrize("rate", [40, 80, 120, 160])
@pytest.mark.parametrize("until", [200, 300, 500, 900])
def test_a_loss_that_falls_towards_0_is_forecast_above_it_and_within_its_interval(
    until: int, rate: float
) -> None:
    made = asked(fast("run", until, rate))
    assert is_above_zero(made)
    assert np.all(np.diff(made.band.median if made.band else []) <= 0)
    unknown = replace(fast("run", until, rate), settings={"max_iters": 1000}, foreign=True)
    assert asked(unknown).basis == "curve-without-schedule"
    assert is_above_zero(asked(unknown))


def test_a_fall_to_0_ends_between_0_and_the_latest_loss() -> None:
    """A straight line that is at 0.3 halfway would end at -3.6."""
    straight = with_losses(
        500, every=25, max_iters=1000, loss=lambda at: 4.2 - 3.9 * at / 500, settings={"warmup_iters": 10}
    )
    made = asked(straight)
    assert is_above_zero(made)
    assert 0 == made.final.low < made.final.median < 0.3 < made.final.high < 0.6


def test_beside_siblings_and_after_a_leap_a_forecast_is_above_0_too() -> None:
    run, other = fast("run", 300, 400), fast("other", 1000, 400)
    lower = replace(run, evals=tuple(replace(each, val_loss=each.val_loss - 1.9) for each in run.evals))
    made = forecast(lower, ForecastQuestion(), None, siblings=siblings_of(lower, [other]))
    assert made.basis == "siblings"
    assert is_above_zero(made)
    best = SeenLoss(300.0, 0.05)
    leap = Curve(np.arange(300.0, 1300.0, 200.0), np.array([0.05, 10.0, 0.1, 0.1, 0.1]))
    after = risen(leap, best, np.array([2000.0]))
    assert 0 <= after.low[0] < after.median[0] < after.high[0]


def test_data_that_will_be_repeated_raise_the_upper_end_alone() -> None:
    """5.24 billion tokens of 100 million are 52.4 epochs: 0.8 nats an e-fold beyond four, half ahead."""
    fresh, often = asked(SOUND), asked(replace(SOUND, data=data(100_000_000)))
    assert often.final.high - fresh.final.high == pytest.approx(0.8 * 0.5 * math.log(52.4288 / 4))
    assert (often.final.low, often.final.median) == (fresh.final.low, fresh.final.median)
    few = asked(replace(SOUND, data=data(2_000_000_000)))
    assert few.final == fresh.final  # 2.6 epochs


def test_a_dead_run_has_no_forecast_but_its_last_good_loss() -> None:
    made = asked(DEAD)
    assert (made.basis, made.expected, made.band) == ("dead", None, None)
    numbers = found(DEAD)["forecast-dead"].numbers
    assert (numbers["iteration"], numbers["good_iteration"]) == (2200, 2000)
    assert numbers["best"] == SOUND.evals[9].val_loss
    assert not {"forecast-end", "forecast-over", "forecast-ended", "forecast-time"} & found(DEAD).keys()
    whole = replace(DEAD, evals=(*DEAD.evals, AccountEval(10_000, math.nan)))
    assert asked(whole).expected is None
    assert lower_of(made, asked(SOUND)) == ()
    assert ends_of([DEAD, SOUND]) == ()


def test_batches_tell_of_a_death_between_evaluations_and_of_a_recovery() -> None:
    """As a nanoGPT log that is NaN from iteration 110 on, whose last evaluation was at 0."""
    steps = tuple(AccountStep(at, 2.495 if at < 110 else math.nan) for at in range(0, 300, 10))
    log = replace(SOUND, evals=(AccountEval(0, 4.3),), steps=steps)
    numbers = found(log)["forecast-dead"].numbers
    assert (numbers["iteration"], numbers["good_iteration"], numbers["best"]) == (110, 100, 2.495)
    padded = replace(SOUND, steps=tuple(AccountStep(at, math.nan) for at in range(0, 4000, 10)))
    assert asked(padded).basis == "curve"


def test_a_run_above_its_untrained_loss_is_dead_and_a_slow_start_is_not() -> None:
    numbers = found(STUCK)["forecast-stuck"].numbers
    assert (numbers["iteration"], numbers["untrained"]) == (400, 10.9)
    assert asked(replace(STUCK, evals=STUCK.evals[:-1])).dead is None
    assert asked(replace(STUCK, evals=STUCK.evals[1:])).dead is not None  # ln 50,257 is 10.82


FINE_TUNED = (3.0, 3.02, 3.05, 3.1, 3.15, 3.22, 3.3, 3.39, 3.5)


def fine_tuned(train_slope: float, vocabulary: int | None) -> Account:
    """Val losses that rise from the first update on; the train loss changes by so much at each evaluation."""
    evals = tuple(AccountEval(50 * at, val, 2.9 + train_slope * at) for at, val in enumerate(FINE_TUNED))
    run = with_losses(400, max_iters=1000, settings={"warmup_iters": 10})
    return replace(run, evals=evals, data_vocab_size=vocabulary)


def test_the_first_loss_of_a_fine_tuning_is_not_that_of_an_untrained_model() -> None:
    diverging = fine_tuned(0.05, 50_257)
    assert asked(diverging).dead is None
    assert "warning-diverging" in found(diverging)
    assert asked(fine_tuned(0.05, None)).dead is None  # nor where the vocabulary is not known
    assert asked(fine_tuned(0.05, 20)).dead is not None  # ln 20 is 3.00


@pytest.mark.parametrize("vocabulary", [20, 50_257])
def test_a_val_loss_above_the_first_one_while_the_train_loss_falls_is_overfitting(vocabulary: int) -> None:
    made = asked(fine_tuned(-0.1, vocabulary))
    assert (made.basis, made.dead) == ("overfitting", None)
    assert made.final.median > 3.5


def test_a_schedule_is_known_by_its_shape_without_a_rate() -> None:
    shape = {"max_iters": 10_000, "lr_decay_iters": 10_000, "warmup_iters": 100, "block_size": 1024}
    log = replace(SOUND, settings=shape, foreign=True)
    plan = plan_of(log)
    assert plan is not None
    assert (plan.learning_rate, plan.min_lr, plan.schedule) == (1.0, 0.1, "cosine")
    made, known = asked(log), asked(SOUND)
    assert made.basis == "curve"
    assert made.final.median == pytest.approx(known.final.median)
    assert made.final.high == pytest.approx(known.final.high)
    tenth = plan_of(replace(log, settings=shape | {"min_lr": 6e-5}))
    assert tenth is not None
    assert tenth.learning_rate == pytest.approx(6e-4)
    wsd = plan_of(replace(log, settings={"max_iters": 10_000, "wsd_decay_fraction": 0.4}))
    assert wsd is not None
    assert wsd.schedule == "wsd"


def test_an_end_that_is_given_is_known() -> None:
    log = replace(SOUND, settings={"block_size": 1024}, foreign=True)
    made = forecast(log, ForecastQuestion(changes={"max_iters": 10_000}), None)
    assert (made.basis, made.iterations) == ("curve-without-schedule", 10_000)


def odd(at: Array) -> Array:
    """A recipe whose decay brings three times what the prior expects."""
    late = np.clip((at - 6000) / 4000, 0, 1)
    return true_loss(cosine(10_000), at) - 0.3 * late**2


def seed(name: str, until: int, shift: float = 0.0, **settings: float) -> Account:
    return with_losses(
        until,
        name=name,
        loss=lambda at: odd(at) + shift,
        settings={"beta2": 0.95, "weight_decay": 0.1} | settings,
    )


def seeds() -> Forecast:
    run = seed("run", 5000)
    others = [seed("one", 10_000, 0.01), seed("two", 10_000, -0.02)]
    return forecast(run, ForecastQuestion(), None, siblings=siblings_of(run, others))


def test_finished_siblings_tell_what_no_prior_does() -> None:
    end = float(odd(np.array([10_000.0]))[0])
    alone, beside = asked(seed("run", 5000)), seeds()
    assert beside.basis == "siblings"
    assert beside.siblings == ("one", "two")
    assert abs(alone.final.median - end) > 0.1
    assert abs(beside.final.median - end) < 0.01
    assert beside.final.low < end < beside.final.high


def test_siblings_are_finished_runs_of_the_same_recipe() -> None:
    run = seed("run", 5000)
    names = [
        each.name
        for each in siblings_of(
            run,
            [
                seed("seed", 10_000, seed=2),
                seed("rate", 10_000, learning_rate=3e-4, min_lr=3e-5),
                seed("run", 10_000),
                seed("unfinished", 9000),
                replace(seed("other data", 10_000), settings={**run.settings, **{"dataset": "code"}}),
                replace(seed("larger", 10_000), settings={**run.settings, **{"n_embd": 1024}}),
                replace(seed("held", 10_000), settings={**run.settings, **{"schedule": "constant"}}),
                replace(
                    seed("two changes", 10_000),
                    settings={**run.settings, **{"beta2": 0.9, "weight_decay": 0.3}},
                ),
                replace(seed("dead", 10_000), evals=DEAD.evals),
            ],
        )
    ]
    assert names == ["seed", "rate"]


def test_a_curve_is_one_of_updates_and_losses() -> None:
    assert len(curve_of(OVERFIT).updates) == len(OVERFIT.evals)
