"""What stands on the pages of plan, tune, show and the demo, and in which order."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.accounts import AFTER, BEFORE, account
from tests.report.html.static import Checked

from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.analysis.sizing import choose_size
from nanodyno.analysis.summary import summarise
from nanodyno.analysis.tuning import Tuning
from nanodyno.config import build_config
from nanodyno.costs.plan import PlanRequest, make_plan
from nanodyno.costs.target import Target, named_target
from nanodyno.experiments.tune import tune
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.recipes import load_settings
from nanodyno.records.store import Run
from nanodyno.report.figures import Bars, Figure, Intervals, Lines, Stacks
from nanodyno.report.html.document import to_html
from nanodyno.report.page import BulletList, FigureChoice, Folded, Page, Table, Tiles
from nanodyno.report.pages.compare import comparison_report
from nanodyno.report.pages.demo import demo_report
from nanodyno.report.pages.plan import plan_report
from nanodyno.report.pages.run import run_report
from nanodyno.report.pages.tune import tune_report
from nanodyno.report.plan_facts import PlanSource

GIB = 2**30
WHY = ENGLISH.say("tune.section.reasons")


def figures(page: Page, kind: type[Any]) -> list[Any]:
    parts = [part for section in page.sections for part in section.parts]
    all_of: list[Figure] = []
    for part in parts:
        all_of += [figure for _, figure in part.figures] if isinstance(part, FigureChoice) else []
        all_of += [part] if isinstance(part, Lines | Intervals | Bars | Stacks) else []
    return [each for each in all_of if isinstance(each, kind)]


def text(page: Page) -> str:
    found = Checked(to_html(page, ENGLISH, datetime(2026, 1, 1, tzinfo=UTC)))
    assert found.faults == []
    return found.text


def titles(page: Page) -> list[str | None]:
    return [section.title for section in page.sections]


@pytest.fixture
def tuning(tunings: Any, tmp_path: Path) -> Tuning:
    return tune(tunings.request(tunings.config(), 400.0), bench=tunings.stopwatch().bench(tmp_path))


def plan_of(target: Target, **settings: Any) -> Page:
    config = build_config({"batch_size": 8, "tokens_per_iter": 524_288, **settings})
    return plan_report(make_plan(config, 50304, 50257, target, PlanRequest()), PlanSource("gpt2"), ENGLISH)


def test_a_plan_answers_whether_it_fits_and_shows_its_memory() -> None:
    page = plan_of(named_target("RTX 3060 12GB", None))
    answer = page.sections[0].parts[0]
    assert isinstance(answer, str)
    assert answer.startswith("Does it fit? Yes: ")
    (stacks,) = figures(page, Stacks)
    (parts,) = figures(page, Bars)
    (asked,) = [row for row in stacks.rows if row.chosen]
    assert asked.label == "8"
    assert sum(asked.sizes) == sum(row.values[0] for row in parts.rows)
    assert stacks.limit_words == "limit 11.64 GiB"
    assert ENGLISH.say("plan.tile.tokens-per-second") in text(page)
    assert all(row.low < row.value < row.high for row in figures(page, Intervals)[0].rows)


def test_a_plan_that_does_not_fit_says_what_would() -> None:
    page = plan_of(named_target("RTX 3060 12GB", None), batch_size=64, kernels="autograd")
    assert "Does it fit? No: " in text(page)
    assert ENGLISH.say("plan.advice.title") in titles(page)
    (speed,) = figures(page, Intervals)
    assert any("does not fit" in row.words for row in speed.rows)


def test_a_plan_without_a_gpu_has_no_picture_of_speed() -> None:
    page = plan_of(Target(None, None, None))
    assert figures(page, Intervals) == []
    assert ENGLISH.say("plan.picture.no-gpu") in text(page)
    assert "Does it fit?" not in text(page)


def test_a_tuning_shows_speed_with_intervals_memory_beside_and_where_the_time_went(tuning: Tuning) -> None:
    page = tune_report(tuning, "gpt2", ENGLISH)
    (speed,) = figures(page, Intervals)
    assert [row.label for row in speed.rows] == ["2", "4", "8"]
    (chosen,) = [row for row in speed.rows if row.chosen]
    assert (chosen.label, chosen.value, chosen.beside) == ("8", pytest.approx(16_384), 8 * GIB)
    assert chosen.low is not None
    (time,) = figures(page, Bars)
    assert time.groups == ("8 x 2", "4 x 4")
    shares = {row.label: row.values for row in time.rows}
    assert shares["matmul"] == pytest.approx((0.95, 0.95))
    assert shares["idle"] == pytest.approx((0.05, 0.05))
    (table,) = [part for section in page.sections for part in section.parts if isinstance(part, Table)]
    assert ENGLISH.say("tune.table.chosen-row", micro_batch="8 x 2") in [row[0] for row in table.rows]
    (why,) = [part for section in page.sections if section.title == WHY for part in section.parts]
    assert isinstance(why, BulletList)
    assert len(why.behind) == len(why.sentences)
    answer = page.sections[0].parts[0]
    assert isinstance(answer, str)
    assert [each for each in ("8 x 2", "16,384 tok/s", "8.00 GiB") if each not in answer] == []
    assert "16,384 tok/s" in text(page)


def test_a_tuning_of_nothing_has_sentences_in_place_of_pictures(tunings: Any, tmp_path: Path) -> None:
    nothing = tunings.stopwatch(lambda config: tunings.failed(config, "died"))
    page = tune_report(
        tune(tunings.request(tunings.config(), 400.0), bench=nothing.bench(tmp_path)), "gpt2", ENGLISH
    )
    assert figures(page, object) == []
    assert ENGLISH.say("tune.picture.nothing-measured") in text(page)
    assert ENGLISH.say("tune.picture.time-not-measured") in text(page)


def test_a_run_shows_its_curve_and_where_its_time_went(
    run: Callable[..., Run], step: Any, evaluation: Any, save: Any
) -> None:
    steps = [step(number, loss=6.0 - number / 10, data_seconds=0.4) for number in range(20)]
    found = run(steps, [evaluation(0), evaluation(20, val_loss=4.1)], history=[save(20)])
    page = run_report(found, summarise(found), ENGLISH)
    curves = figures(page, Lines)
    assert [curve.title for curve in curves] == ["Loss over tokens", "Loss over time", "Loss over iterations"]
    train, val = curves[2].series
    assert train.points[0] == (1.0, 6.0)
    assert val.points == ((20.0, 4.1),)  # without the untrained one
    (time,) = figures(page, Bars)
    assert [(row.label, row.values[0]) for row in time.rows] == [
        ("training", pytest.approx(72.0)),
        ("waiting for data", pytest.approx(8.0)),
        ("evaluation", pytest.approx(20.0)),
        ("checkpointing", pytest.approx(2.0)),
    ]
    assert "4.1000" in text(page)


@pytest.mark.parametrize("code", ["ar", "fr", "hi", "ja", "zh-Hant"])
def test_the_titles_of_a_runs_facts_are_in_the_language_of_its_page(
    run: Callable[..., Run], code: str
) -> None:
    found, language = run(), LANGUAGES[code]
    page = run_report(found, summarise(found), language)
    (facts,) = [part for section in page.sections for part in section.parts if isinstance(part, Table)]
    reported = [row[0] for row in facts.rows]
    assert language.say("show.row.progress") in reported
    assert not {"state", "progress", "data"} & set(reported)


def test_a_recipes_plan_begins_with_what_was_chosen_and_shows_the_loss_it_expects() -> None:
    target = named_target("RTX 4070", None)
    choice = choose_size(load_settings("best-8h"), target, 50304, 50257)
    plan = make_plan(choice.chosen.config, 50304, 50257, target, PlanRequest())
    page = plan_report(plan, PlanSource("best", choice=choice), ENGLISH)
    answer, tiles = page.sections[0].parts
    assert isinstance(tiles, Tiles)
    assert isinstance(answer, str)
    assert answer.startswith("10 layers of 640 for 8 h: ")
    assert choice.expected is not None
    assert (tiles.tiles[-1].label, tiles.tiles[-1].value) == (
        ENGLISH.say("common.expected-val-loss"),
        f"{choice.expected.median:.2f}",
    )


def test_a_run_that_has_just_begun_has_no_empty_pictures(run: Callable[..., Run]) -> None:
    found = run()
    page = run_report(found, summarise(found), ENGLISH)
    assert figures(page, object) == []
    assert ENGLISH.say("losses.none-known") in text(page)


def test_runs_keep_their_colour_in_every_picture_of_a_comparison() -> None:
    comparison = compare([with_found_shape(each) for each in (BEFORE, AFTER)])
    page = comparison_report(comparison, conclusions(comparison), ENGLISH)
    speed, _ = figures(page, Intervals)
    assert {row.label: row.colour for row in speed.rows} == {"train2": 0, "train1": 1}
    over_tokens, *_ = figures(page, Lines)
    assert {each.label: each.colour for each in over_tokens.series if each.label} == {
        "train2": 0,
        "train1": 1,
    }
    train2 = over_tokens.series[1]
    assert train2.points == ((500 * 524_288, 5.5328), (1000 * 524_288, 4.4593))


def test_memory_is_drawn_where_it_was_measured() -> None:
    comparison = compare([account("a", peak_allocated_bytes=3 * GIB), account("b")])
    page = comparison_report(comparison, conclusions(comparison), ENGLISH)
    *_, memory = figures(page, Intervals)
    assert [(row.label, row.words) for row in memory.rows] == [("a", "3.00 GiB")]


def test_the_demo_shows_what_it_wrote_and_what_it_tuned(tuning: Tuning) -> None:
    comparison = compare([account("a"), account("b", settings={"n_embd": 384})])
    page = demo_report(comparison, conclusions(comparison), tuning, ("a", "def f(): ..."), ENGLISH)
    assert titles(page)[:4] == ["a and b", ENGLISH.say("demo.sample.title", name="a"), "micro-batch", "speed"]
    assert "def f(): ..." in text(page)
    untuned = demo_report(comparison, conclusions(comparison), None, ("a", "def f(): ..."), ENGLISH)
    assert "micro-batch" not in titles(untuned)
    assert isinstance(untuned.sections[-1].parts[0], Folded)
