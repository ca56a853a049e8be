"""Forecasts beyond five times a curve: wider, drawn to the size law, and up to there as they were."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.analysis.losses import with_losses

from nanodyno.analysis.account import Account
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.forecast import Forecast, ForecastQuestion, forecast
from nanodyno.analysis.forecast_far import OFF_LAW, WIDENING, WIDENING_ALONE, beyond, reach_of
from nanodyno.analysis.forecast_findings import Forecasts, findings_of, forecasts_of
from nanodyno.analysis.forecast_fit import Prediction
from nanodyno.analysis.forecast_points import Curve
from nanodyno.analysis.forecast_size import LAW_BETA, SizeLaw
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.store import read_run

EXAMPLES = Path(__file__).parents[2] / "examples"
CURVE = Prediction(
    np.array([1000.0, 4000.0, 20_000.0]), np.array([4.0, 3.0, 2.0]), np.array([0.1, 0.3, 0.5]), 0
)
FAR = math.log(4)
"""E-folds from five times a reach of 1,000 to 20,000."""


def asked(account: Account, iterations: int) -> Forecast:
    return forecast(account, ForecastQuestion(iterations=iterations), None)


def codes(made: Forecast, account: Account) -> dict[str, Finding]:
    return {each.code: each for each in findings_of(made, account)}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Forecasts]:
    """The two logs of `examples/`, imported."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("train1", "train2"):
        import_run(ImportRequest((EXAMPLES / f"{name}.log",), folder / name))

    def made(*names: str, tokens: float) -> Forecasts:
        return forecasts_of([read_run(folder / name) for name in names], ForecastQuestion(tokens=tokens))

    return made


def test_without_a_size_a_spread_grows_with_the_distance_and_no_median_moves() -> None:
    wide = beyond(CURVE, 1000, None)
    assert wide.median == pytest.approx(CURVE.median)
    assert wide.spread == pytest.approx([0.1, 0.3, 0.5 * (1 + WIDENING_ALONE * FAR)])


def test_curve_and_size_are_weighed_by_precision() -> None:
    """From ten times on the law counts whole."""
    made = beyond(CURVE, 1000, SizeLaw(3.4, 0.1, "fineweb"))
    own = (0.5 * (1 + WIDENING * FAR)) ** -2
    law = 1 / (0.1**2 + (OFF_LAW * FAR) ** 2)
    assert made.median[-1] == pytest.approx((2 * own + 3.4 * law) / (own + law))
    assert made.spread[-1] == pytest.approx((own + law) ** -0.5)
    assert made.spread[0] == pytest.approx(0.1)
    moved = made.median - CURVE.median
    assert moved[0] / moved[-1] == pytest.approx(0.1 / 0.5)
    assert (np.diff(made.median) < 0).all()


@pytest.mark.parametrize("size", [None, SizeLaw(3.4, 0.1, "fineweb")])
def test_nothing_changes_up_to_five_times_and_little_right_after(size: SizeLaw | None) -> None:
    assert beyond(CURVE, 4000, size) is CURVE
    after = beyond(CURVE, 3999, size)
    assert after.median == pytest.approx(CURVE.median, abs=0.02)
    assert after.spread == pytest.approx(CURVE.spread, abs=0.01)


@pytest.mark.parametrize(
    ("done", "end", "loss"),
    [
        (2000, 10_000, (3.2419946856076383, 3.2181170562868826, 3.265872314928394)),
        (2000, 10_999, None),
        (1000, 5000, (3.383610474621723, 3.317135107011557, 3.4500858422318887)),
        (800, 4000, (3.443560165777878, 3.395934245125682, 3.4911860864300737)),
        (5000, 10_000, (3.2491697939598736, 3.238668192161793, 3.2596713957579544)),
        (8000, 10_000, (3.2517766179084324, 3.248243868897808, 3.255309366919057)),
    ],
)
def test_forecasts_up_to_five_times_are_those_of_before(
    done: int, end: int, loss: tuple[float, float, float] | None
) -> None:
    """The numbers of 2026-11-18. A loss every 200 iterations: at 2,000 the next is not there until 2,200."""
    made = asked(with_losses(done), end)
    assert made.far is None
    if loss is not None:
        assert (made.final.median, made.final.low, made.final.high) == pytest.approx(loss, rel=1e-9)


def test_a_curve_reaches_to_where_its_next_loss_would_be() -> None:
    curve = Curve(np.array([100.0, 300.0]), np.array([5.0, 4.0]))
    assert reach_of(curve, 300) == 500
    assert reach_of(curve, 700) == 701
    steps = replace(curve, train_updates=np.array([295.0, 300.0]), train_losses=np.array([4.1, 4.0]))
    assert reach_of(steps, 300) == 305


def test_what_a_run_is_ahead_of_the_law_shrinks_as_its_tokens_do() -> None:
    then, now = SizeLaw(3.3, 0.1, "fineweb"), SizeLaw(3.8, 0.1, "fineweb")
    assert then.beside(now, 3.5, 8).median == pytest.approx(3.3 - 0.3 * 8**-LAW_BETA)
    assert then.beside(now, 6.0, 8) == then


def test_a_far_forecast_says_what_it_leans_on_or_that_it_leans_on_nothing() -> None:
    run = with_losses(800)
    made = asked(run, 8800)
    said = codes(made, run)["forecast-far-by-size"].numbers
    assert made.far is not None
    assert made.far.size is not None
    assert said == {"times": 11.0, "tried": 5, "loss": made.far.size.median}
    foreign = replace(run, data_vocab_size=256)
    alone = asked(foreign, 8800)
    assert codes(alone, foreign)["forecast-far"].numbers == {"times": 11.0, "tried": 5}
    assert alone.final.spread > made.final.spread


def test_the_cases_small_model_ends_where_models_of_its_size_do(case: Callable[..., Forecasts]) -> None:
    """40.6M parameters after 10B tokens of FineWeb-Edu end near 3.4; the curve alone came to 2.13."""
    (made,) = case("train2", tokens=10e9).forecasts
    assert made.final.low < 3.2
    assert made.final.high > 3.6
    assert made.final.median > 2.9
    assert made.band is not None
    assert (np.diff(made.band.median) < 1e-9).all()
    (half,) = case("train2", tokens=5e9).forecasts
    assert made.final.median < half.final.median < 3.8


def test_of_two_the_small_model_is_not_called_lower_far_away(case: Callable[..., Forecasts]) -> None:
    found = case("train2", "train1", tokens=10e9).findings
    (lower,) = (each for each in found if each.code in ("ends-lower", "ends-alike"))
    assert lower.code == "ends-alike" or lower.runs[0] == "train1"
