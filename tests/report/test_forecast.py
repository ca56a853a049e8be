"""Forecasts in words: every finding has some, with all of its numbers, and pictures fit the screen."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.analysis.losses import cosine, true_loss, with_losses
from tests.analysis.test_forecast_growth import grown
from tests.analysis.test_forecast_shapes import DEAD, OVERFIT, STUCK, seeds
from tests.analysis.test_forecast_warnings import CASES

from nanodyno.analysis.account import Account
from nanodyno.analysis.findings import OF_FORECASTS, Finding
from nanodyno.analysis.forecast import Forecast, ForecastLoss, ForecastQuestion, forecast
from nanodyno.analysis.forecast_findings import Forecasts, findings_of, lower_of
from nanodyno.analysis.forecast_plan import IterationTimes
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH, LANGUAGES, Language
from nanodyno.report.figures import BandFigure
from nanodyno.report.forecast import answering, forecast_document, forecast_page, picture, sections
from nanodyno.report.page import BulletList, Page, Tile, Tiles
from nanodyno.report.pages.forecast import forecast_report
from nanodyno.report.runs import FIRST_PAGE_LINES

RUN = with_losses(5000)
OVER = with_losses(10_000)
PACE = IterationTimes(2.0, 10.0, 200)


def of(account: Account, question: ForecastQuestion, pace: IterationTimes | None = PACE) -> list[Finding]:
    made = forecast(account, question, pace)
    changed = forecast(account, replace(question, changes={}), pace) if question.changes else None
    return list(findings_of(made, account, changed))


def every_finding() -> list[Finding]:
    one, other = (
        forecast(RUN, ForecastQuestion(), PACE),
        forecast(CASES["diverging"], ForecastQuestion(), PACE),
    )
    over = forecast(OVER, ForecastQuestion(), PACE)
    unknown = replace(RUN, settings={"max_iters": 10_000}, foreign=True)
    spiked = np.array([each.val_loss for each in RUN.evals])
    spiked[15] += 1.0
    found = [
        *of(RUN, ForecastQuestion(until_loss=3.3)),
        *of(RUN, ForecastQuestion(until_loss=3.265, changes={"lr_decay_iters": 20_000})),
        *of(RUN, ForecastQuestion(until_loss=2.5, iterations=20_000), replace(PACE, eval_seconds=None)),
        *of(RUN, ForecastQuestion(iterations=3000)),
        *of(RUN, ForecastQuestion(until_loss=4.0)),
        *of(unknown, ForecastQuestion()),
        *of(replace(with_losses(400, settings={"vocab_size": 50304}), shape=None), ForecastQuestion()),
        *of(replace(RUN, evals=(), steps=CASES["spikes"].steps * 1), ForecastQuestion()),
        *of(with_losses(5000, loss=lambda _: spiked), ForecastQuestion()),
        *of(grown(4000), ForecastQuestion()),
        *of(with_losses(400), ForecastQuestion()),
        *of(with_losses(800), ForecastQuestion(iterations=8800)),
        *of(replace(with_losses(800), data_vocab_size=256), ForecastQuestion(iterations=8800)),
        *of(OVERFIT, ForecastQuestion()),
        *of(DEAD, ForecastQuestion()),
        *of(replace(DEAD, evals=DEAD.evals[-2:]), ForecastQuestion()),
        *of(STUCK, ForecastQuestion()),
        *findings_of(seeds(), RUN),
        *of(with_losses(5000, loss=lambda at: np.where(at == 4400, np.nan, spiked)), ForecastQuestion()),
        *of(grown(4000, batch_ramp="noise"), ForecastQuestion()),
        *(finding for account in CASES.values() for finding in of(account, ForecastQuestion())),
        *lower_of(one, replace(other, name="other", expected=replace(other.final, median=9.0))),
        *lower_of(one, replace(one, name="twin"), rough=True),
        *of(OVER, ForecastQuestion(until_loss=2.5)),
        *lower_of(over, replace(over, name="worse", expected=ForecastLoss(9.0, 9.0, 9.0))),
        *lower_of(over, replace(over, name="twin")),
        Finding("ends-on-other-data", "caution", ("one", "other")),
    ]
    middle = forecast(RUN, ForecastQuestion(), None).final
    return [*found, *of(RUN, ForecastQuestion(until_loss=middle.median + 0.001))]


FOUND = every_finding()


def test_every_code_is_found_in_some_run_and_has_words() -> None:
    assert {each.code for each in FOUND if each.code in OF_FORECASTS} == OF_FORECASTS.keys()


@pytest.mark.parametrize("finding", FOUND, ids=lambda each: each.code)
def test_words_leave_no_placeholder_and_no_raw_number(finding: Finding) -> None:
    text = words(finding)
    assert "{" not in text
    assert not re.search(r"\bNone\b(?! of)", text)
    assert not re.search(r"\d\.\d{6}", text)
    assert words(finding).endswith(".")


def test_a_target_that_is_missed_by_a_hair_is_not_reported_as_the_same_number() -> None:
    numbers = {"target": 3.26, "loss": 3.26004, "iterations": 9}
    reported = words(Finding("target-not-reached", "fact", ("a",), numbers))
    places = {"run": "a", "target": "3.260", "loss": "3.26004", "iterations": "9"}
    assert reported == ENGLISH.say("finding.target-not-reached", **places)


def test_the_answer_comes_first_and_what_stands_against_it_after() -> None:
    found = of(RUN, ForecastQuestion(until_loss=2.5, iterations=20_000))
    answer, caveats = sections(found)
    assert (answer.title, caveats.title) == (None, ENGLISH.say("common.section.caveats"))
    assert answering(found)[0].code == "forecast-end"
    assert answer.parts == tuple(words(each) for each in answering(found))
    (bullets,) = caveats.parts
    assert isinstance(bullets, BulletList)
    assert len(bullets.sentences) == len(found) - len(answer.parts) > 0


def lines_of(page: object, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(page)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda each: each.code)
def test_the_first_page_fits_and_names_the_way_to_the_rest(language: Language) -> None:
    made = forecast(RUN, ForecastQuestion(), PACE)
    few = Forecasts((RUN,), (made,), findings_of(made, RUN))
    warnings = [each for each in FOUND if each.code.startswith("warning")]
    many = replace(few, findings=(*few.findings, *warnings, *warnings))
    more = language.say("forecast.more", runs="run")
    assert len(lines_of(forecast_page(few, 100, language))) <= FIRST_PAGE_LINES
    page = lines_of(forecast_page(many, 100, language))
    assert len(page) <= FIRST_PAGE_LINES
    assert more in page[-1]
    assert more not in "\n".join(lines_of(forecast_page(many, 100, language, everything=True)))


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda each: each.code)
def test_the_first_page_of_two_runs_keeps_five_cautions(language: Language) -> None:
    """The ends, which the comparison names already, and dots of the picture go first."""
    accounts = RUN, replace(RUN, name="other")
    made = tuple(forecast(each, ForecastQuestion(), PACE) for each in accounts)
    cautions = [each for each in FOUND if each.code.startswith("warning")][:6]
    ends = [finding for each, run in zip(made, accounts, strict=True) for finding in findings_of(each, run)]
    both = Forecasts(accounts, made, (*lower_of(*made, rough=True), *ends, *cautions))
    page = lines_of(forecast_page(both, 100, language))
    text = "".join("".join(page).split())
    assert len(page) <= FIRST_PAGE_LINES
    rough = [each for each in both.findings if each.code == "ends-rough"]
    for each in [*rough, *cautions[:4]]:
        assert "".join(words(each, language).split()) in text
    assert "".join(words(cautions[4], language).split()) not in text
    assert language.say("forecast.more", runs="run other") in page[-1]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_picture_keeps_to_its_width_and_shows_the_public_run(width: int) -> None:
    drawn = picture([forecast(RUN, ForecastQuestion(), None)], [RUN], width).plain
    assert "llm.c 124M (FineWeb)" in drawn
    assert max(len(line) for line in drawn.splitlines()[1:]) <= width


def test_a_document_has_the_promised_keys() -> None:
    made = forecast(RUN, ForecastQuestion(), PACE)
    document = forecast_document(Forecasts((RUN,), (made,), findings_of(made, RUN)))
    assert set(document["final_val_loss"]) == {"value", "low", "high", "n"}
    assert document["eta_seconds"] == pytest.approx(5000 * 2.05)
    assert document["tokens"] == 10_000 * 524_288
    assert len(document["band"]["median"]) == len(document["band"]["updates"])
    two = Forecasts((RUN, RUN), (made, made), ())
    assert [each["run"] for each in forecast_document(two)["runs"]] == ["run", "run"]


def test_a_run_of_few_losses_is_drawn_without_a_band() -> None:
    few = with_losses(400)
    assert (
        ENGLISH.say("forecast.picture.expected")
        not in picture([forecast(few, ForecastQuestion(), None)], [few], 80).plain
    )


def _made(account: Account) -> Forecast:
    return forecast(account, ForecastQuestion(), None)


def report(account: Account, question: ForecastQuestion) -> Page:
    made = forecast(account, question, PACE)
    return forecast_report(Forecasts((account,), (made,), findings_of(made, account)), ENGLISH)


def test_a_page_to_open_has_a_band_where_there_is_one_and_calls_it_expected() -> None:
    answer, losses, *_ = report(RUN, ForecastQuestion(until_loss=3.3)).sections
    (tiles,) = [part for part in answer.parts if isinstance(part, Tiles)]
    assert [tile.label for tile in tiles.tiles] == [
        ENGLISH.say(each) for each in ("common.expected-val-loss", "common.tokens", "forecast.tile.time-left")
    ]
    (band,) = losses.parts
    assert isinstance(band, BandFigure)
    assert band.target == 3.3
    assert band.measured.points[-1][0] == 5000
    assert band.median.points[-1][0] == 10_000
    assert [each.label for each in band.beside] == ["llm.c 124M (FineWeb)"]


def test_a_page_of_a_place_that_was_passed_shows_what_was_measured() -> None:
    answer, losses, *_ = report(RUN, ForecastQuestion(iterations=3000)).sections
    (tiles,) = [part for part in answer.parts if isinstance(part, Tiles)]
    assert tiles.tiles[0] == Tile(ENGLISH.say("common.val-loss"), f"{RUN.evals[14].val_loss:.3f}")
    assert not any(isinstance(part, BandFigure) for part in losses.parts)


def test_a_target_far_off_is_left_out_of_the_picture() -> None:
    (band,) = report(RUN, ForecastQuestion(until_loss=1.0)).sections[1].parts
    assert isinstance(band, BandFigure)
    assert band.target is None


def test_two_runs_are_drawn_on_common_axes() -> None:
    other = replace(with_losses(5000, loss=lambda at: true_loss(cosine(10_000), at) - 0.1), name="b")
    drawn = picture([_made(RUN), _made(other)], [RUN, other], 100).plain
    assert f"run: {ENGLISH.say('forecast.picture.measured')}" in drawn
    assert f"b: {ENGLISH.say('forecast.picture.expected')}" in drawn
