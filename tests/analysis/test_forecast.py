"""Questions to a run: where it ends, when, whether it reaches a loss; and what cannot be answered."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.analysis.accounts import AFTER, steps
from tests.analysis.losses import cosine, true_loss, with_losses

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.forecast import Forecast, ForecastQuestion, forecast
from nanodyno.analysis.forecast_findings import as_planned, ends_of, findings_of, lower_of, stretched
from nanodyno.analysis.forecast_plan import IterationTimes, pace_of
from nanodyno.analysis.forecast_size import law_loss, size_law
from nanodyno.errors import NanodynoError

END = float(true_loss(cosine(10_000), np.array([10_000.0]))[0])


def asked(account: Account, pace: IterationTimes | None = None, **question: Any) -> Forecast:
    return forecast(account, ForecastQuestion(**question), pace)


def found(account: Account, **question: Any) -> dict[str, Finding]:
    return {each.code: each for each in findings_of(asked(account, **question), account)}


def test_a_run_is_forecast_to_its_own_end_with_its_tokens() -> None:
    made = asked(with_losses(5000))
    assert made.basis == "curve"
    assert (made.iterations_done, made.iterations) == (5000, 10_000)
    assert made.tokens == 10_000 * 524_288
    assert made.final.median == pytest.approx(END, abs=0.03)
    assert made.final.low < END < made.final.high


def test_a_place_is_named_by_iterations_tokens_or_hours_from_now() -> None:
    run, pace = with_losses(5000), IterationTimes(2.0, 10.0, 100)  # 2.1 s an iteration with its evaluations
    assert asked(run, iterations=7000).iterations == 7000
    assert asked(run, tokens=7000 * 524_288.0).iterations == 7000
    assert asked(run, pace, hours=2.1).iterations == 5000 + 3600
    assert asked(run, pace, iterations=7000).seconds == pytest.approx(2000 * 2.1)


def test_the_rest_of_the_schedule_bends_the_curve() -> None:
    """From the same half of a cosine: held at its peak from there on, the loss ends well above."""
    run = with_losses(5000)
    held = asked(run, changes={"schedule": "constant"}).final.median
    as_planned = asked(run).final.median
    assert held > as_planned + 0.02


def test_a_target_is_reached_where_the_law_says_or_not_with_this_schedule() -> None:
    run = with_losses(5000)
    target = float(true_loss(cosine(10_000), np.array([8000.0]))[0])
    reached = asked(run, until_loss=target).reached
    assert reached is not None
    assert reached.iterations == pytest.approx(8000, rel=0.08)
    end = asked(run).final
    assert "target-reached-perhaps" in found(run, until_loss=end.median + 0.001)
    assert "target-not-reached" in found(run, until_loss=end.median - 0.001)
    assert "target-not-reached" in found(run, until_loss=2.5)


def test_a_target_that_lies_behind_is_reported_from_the_record() -> None:
    """The evaluation at 1,000 iterations is the first that is not above its own loss."""
    target = float(true_loss(cosine(10_000), np.array([1000.0]))[0])
    finding = found(with_losses(5000), until_loss=target)["target-behind"]
    assert finding.numbers == {
        "target": target, "loss": target, "iterations": 1000, "tokens": 524_288_000.0, "seconds": None,
    }  # fmt: skip
    assert not {"target-reached", "target-not-reached"} & found(with_losses(5000), until_loss=target).keys()


def test_of_a_run_that_is_over_nothing_is_expected() -> None:
    """It falls all the way, so that its last loss is its lowest."""
    run = with_losses(10_000)
    missed = found(run, until_loss=2.5)
    assert not {"target-not-reached", "forecast-ended", "forecast-end"} & missed.keys()
    assert missed["forecast-over"].numbers["iterations"] == 10_000
    numbers = missed["target-missed"].numbers
    assert (numbers["iterations"], numbers["iterations_done"]) == (10_000, 10_000)
    assert numbers["loss"] == pytest.approx(END)
    seconds = asked(run, IterationTimes(2.0, 10.0, 100), until_loss=3.5)
    [reached] = [each for each in findings_of(seconds, run) if each.code == "target-behind"]
    assert seconds.reached is not None
    assert seconds.reached.iterations is not None
    assert reached.numbers["seconds"] == pytest.approx(seconds.reached.iterations * 2.1)
    worse = replace(run, name="worse", evals=(*run.evals[:-1], AccountEval(10_000, 9.0)))
    [lower] = lower_of(asked(worse), asked(run))
    assert (lower.code, lower.runs) == ("measured-lower", (run.name, "worse"))


def test_a_target_that_a_log_has_reached_needs_no_end() -> None:
    log = replace(with_losses(5000), settings={"block_size": 1024, "batch_size": 512}, foreign=True)
    assert "target-behind" in found(log, until_loss=4.0)
    with pytest.raises(NanodynoError, match="the end of the run and its learning-rate schedule"):
        found(log, until_loss=2.5)


def test_a_place_that_was_passed_is_reported_from_the_record() -> None:
    made = asked(with_losses(5000), iterations=3000)
    assert made.basis == "ended"
    assert made.final.median == pytest.approx(float(true_loss(cosine(10_000), np.array([3000.0]))[0]))
    assert made.final.low == made.final.high == made.final.median


def test_a_place_between_evaluations_has_the_loss_of_the_last_one_before() -> None:
    assert found(with_losses(5000), iterations=3150)["forecast-ended"].numbers["iterations"] == 3000
    with pytest.raises(NanodynoError, match="no loss was measured by iteration 150"):
        asked(with_losses(5000), iterations=150)


def test_without_a_schedule_the_interval_is_wider_and_says_why() -> None:
    run = replace(with_losses(5000, settings={"decay_lr": None}), foreign=True)
    unknown = replace(run, settings={"max_iters": 10_000, "block_size": 1024, "batch_size": 512})
    made, known = asked(unknown), asked(with_losses(5000))
    assert made.basis == "curve-without-schedule"
    assert made.final.high - made.final.low > 1.5 * (known.final.high - known.final.low)
    assert "forecast-schedule-unknown" in found(unknown)
    with pytest.raises(NanodynoError, match="the end of the run and its learning-rate schedule"):
        asked(replace(unknown, settings={}))
    assert asked(replace(unknown, settings={}), iterations=8000).basis == "curve-without-schedule"


def test_changes_that_tell_the_schedule_or_change_nothing_are_held_against_nothing() -> None:
    run = with_losses(5000)
    nameless = replace(run, settings={}, foreign=True)
    reported = {"learning_rate": 6e-4, "warmup_iters": 100, "lr_decay_iters": 10_000, "max_iters": 10_000}
    assert as_planned(nameless, ForecastQuestion(changes=reported), None) is None
    assert as_planned(run, ForecastQuestion(changes={"max_iters": 10_000}), None) is None
    assert as_planned(run, ForecastQuestion(iterations=8000, changes={"max_iters": 8000}), None) is None
    held = as_planned(run, ForecastQuestion(changes={"schedule": "constant"}), None)
    assert held is not None
    assert held.final == asked(run).final


def test_a_curve_however_short_is_never_overruled_by_the_size() -> None:
    """Batches of 300 iterations and one evaluation, asked about 30,000: the curve answers, and is wide."""
    at = np.arange(100, 300, 5)
    losses = 7.0 - 0.8 * np.log(at / 100)
    batches = tuple(AccountStep(int(x), float(y)) for x, y in zip(at, losses, strict=True))
    run = replace(with_losses(0, max_iters=30_000, steps=batches), evals=(AccountEval(250, 6.3),))
    made = asked(run)
    assert made.basis == "curve"
    assert made.size is not None
    assert made.final.high - made.final.low > 4 * made.size.spread
    many = replace(
        run, evals=tuple(AccountEval(x, 7.0 - 0.8 * math.log(x / 100)) for x in range(120, 300, 20))
    )
    assert asked(many).basis == "curve"


def test_few_points_give_the_answer_of_the_size_labelled_and_wide() -> None:
    run = with_losses(400)
    made = asked(run)
    assert made.basis == "size"
    assert made.final.high - made.final.low > 0.15
    assert {"forecast-by-size", "forecast-few-points"} <= found(run).keys()
    with pytest.raises(NanodynoError, match="too few"):
        asked(replace(run, data_vocab_size=256))
    assert asked(with_losses(400, max_iters=4000)).basis == "curve"  # two losses at a tenth of the run
    assert asked(with_losses(400, max_iters=4001)).basis == "size"


def test_a_size_that_is_known_but_for_biases_is_taken_without_them_and_said() -> None:
    """GPT-2's biases: 12 x 9 x 768 of the matrices and 25 x 768 of the norms are 102,144 of 123,587,328."""
    reported = replace(with_losses(200, settings={"vocab_size": 50304}), shape=None)
    known = replace(reported, reported_parameters=123_587_328.0)
    assert asked(reported).basis == "size"
    assert asked(reported).final == asked(known).final
    said = found(reported)["forecast-without-biases"]
    assert said.numbers["more"] == pytest.approx(102_144 / 123_587_328)
    assert "forecast-without-biases" not in found(known)
    without = {key: value for key, value in reported.settings.items() if key != "vocab_size"}
    with pytest.raises(NanodynoError, match="one evaluation after the warm-up is too little"):
        asked(replace(reported, settings=without))


@pytest.mark.parametrize(
    ("vocab_size", "known"), [(50_304, True), (50_257, True), (65, False), (65_536, False)]
)
def test_the_size_law_is_of_gpt_2s_tokenizer(vocab_size: int, known: bool) -> None:
    account = replace(with_losses(400, settings={"vocab_size": vocab_size}), data_vocab_size=None)
    assert (size_law(account, 20e9) is not None) == known


def test_the_size_law_stands_at_the_public_run_and_falls_with_size_and_tokens() -> None:
    """Twice the tokens take off what the published B / D^b does; the level is that run's."""
    tokens = 19_560 * 524_288
    assert law_loss(124_475_904, tokens) == pytest.approx(3.2722)
    fallen = 2085.43 / tokens**0.3658 - 2085.43 / (2 * tokens) ** 0.3658
    assert law_loss(124_475_904, 2 * tokens) == pytest.approx(3.2722 - fallen)
    edu = size_law(with_losses(400, settings={"dataset": "data/fineweb-edu"}), 20e9)
    assert edu is not None
    assert edu.median == pytest.approx(2.998, abs=0.03)  # a third party's run of 20B tokens


def test_the_cases_second_run_to_10_billion_tokens_is_wider_than_the_notes_promise() -> None:
    """The note: a perplexity of 21 to 23. One loss at iteration 500 supports no such figure."""
    known = replace(AFTER, settings={**AFTER.settings, "dataset": "fineweb-edu"})
    made = asked(with_found_shape(known), pace_of(AFTER), tokens=10e9)
    assert made.basis == "size"
    assert made.iterations == 19_074
    low, high = math.exp(made.final.low), math.exp(made.final.high)
    assert low < 21 < 23 < high
    assert high - low > 2 * (23 - 21)
    assert made.seconds == pytest.approx((19_074 - 810) * 9.34, rel=1e-3)


def test_a_log_without_evaluations_is_forecast_by_its_training_loss() -> None:
    at = np.arange(100, 5000, 20)
    losses = true_loss(cosine(10_000), at.astype(float))
    run = with_losses(0, steps=tuple(AccountStep(int(x), float(y)) for x, y in zip(at, losses, strict=True)))
    made = asked(run)
    assert made.of_train
    assert made.final.median == pytest.approx(END, abs=0.03)
    assert "forecast-of-train-loss" in found(run)


def test_beyond_the_schedule_is_said() -> None:
    assert "forecast-beyond-schedule" in found(with_losses(5000), iterations=20_000)
    assert "forecast-beyond-schedule" not in found(with_losses(5000))


def test_of_two_the_one_that_ends_lower_is_named_with_the_probability_of_two_normals() -> None:
    """Medians 3.0 and 3.1, standard deviations 0.06 and 0.08: one joint deviation apart, 84.13%."""
    one, other = (replace(asked(with_losses(5000)), name=name) for name in "ab")
    z = 1.2816
    one = replace(one, expected=replace(one.final, median=3.0, low=3.0 - z * 0.06, high=3.0 + z * 0.06))
    other = replace(other, expected=replace(other.final, median=3.1, low=3.1 - z * 0.08, high=3.1 + z * 0.08))
    for pair in ((one, other), (other, one)):
        (finding,) = lower_of(*pair)
        assert (finding.code, finding.runs) == ("ends-lower", ("a", "b"))
        assert finding.numbers["probability"] == pytest.approx(0.8413, abs=1e-4)
    assert lower_of(one, replace(one, name="b"))[0].code == "ends-alike"
    assert lower_of(one, other, rough=True)[1].code == "ends-rough"


def test_a_comparison_tells_ends_of_unfinished_runs_on_the_same_data_only() -> None:
    better = with_losses(5000, name="b", loss=lambda at: true_loss(cosine(10_000), at) - 0.2)
    (finding,) = ends_of([with_losses(5000, name="a"), better])
    assert (finding.code, finding.runs) == ("ends-lower", ("b", "a"))
    assert ends_of([with_losses(10_000, name="a"), with_losses(10_000, name="b")]) == ()
    assert ends_of([with_losses(400, name="a"), better]) == ()
    assert ends_of([with_losses(5000, settings={"dataset": "other"}), better]) == ()


def test_a_schedule_is_stretched_to_the_place_that_is_asked_about() -> None:
    question = stretched(with_losses(5000), ForecastQuestion(iterations=20_000), None)
    assert question.changes == {"max_iters": 20_000, "lr_decay_iters": 20_000}


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"n_embd": 4}, "--set n_embd"), ({"schedule": "sawtooth"}, "schedule=sawtooth"),
     ({"lr_decay_iters": -1}, "lr_decay_iters=-1"), ({"min_lr": math.nan}, "min_lr=nan"),
     ({"max_iters": 0}, "max_iters=0"), ({"wsd_decay_fraction": 2}, "wsd_decay_fraction=2"),
     ({"learning_rate": 0}, "learning_rate=0"), ({"decay_lr": 1}, "decay_lr=1")],
)  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(NanodynoError, match=words):
        asked(with_losses(5000), changes=changes)


def test_tokens_and_hours_need_to_be_known() -> None:
    nameless = replace(with_losses(5000), settings={"max_iters": 10_000}, foreign=True)
    with pytest.raises(NanodynoError, match="tokens per iteration"):
        asked(nameless, tokens=1e9)
    with pytest.raises(NanodynoError, match="speed is unknown"):
        asked(with_losses(5000), hours=3)
    with pytest.raises(NanodynoError, match="iterations cannot be forecast"):
        asked(with_losses(5000), tokens=1e17)


def test_evaluations_in_a_logs_times_are_part_of_the_pace() -> None:
    """Every hundredth iteration took 60 s more than the usual 1 s: 1.6 s an iteration."""
    slow = tuple(AccountStep(at, 5.0, 61.0, steady=False) for at in (100, 200, 300))
    run = replace(with_losses(5000, every=100, steps=(*steps(1.0), *slow)), foreign=True)
    pace = pace_of(run)
    assert pace is not None
    assert pace.seconds_between(5000, 6000, None) == pytest.approx(1600, rel=1e-3)
    assert pace_of(replace(run, steps=())) is None


def test_a_loss_that_rises_is_warned_of_and_forecast_with_it() -> None:
    rising = with_losses(
        5000, loss=lambda at: true_loss(cosine(10_000), at) + np.where(at > 4000, (at - 4000) / 5000, 0)
    )
    codes = found(rising)
    assert "warning-diverging" in codes
    assert "forecast-end" in codes


def test_a_nan_is_counted_and_left_out() -> None:
    run = with_losses(5000)
    spoiled = replace(run, evals=(*run.evals[:-3], AccountEval(4500, math.nan), *run.evals[-3:]))
    assert found(spoiled)["warning-not-finite"].numbers["count"] == 1
    assert asked(spoiled).final.median == pytest.approx(asked(run).final.median, abs=0.002)
