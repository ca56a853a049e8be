"""Whole pages in every language: what a sentence was forgotten in is English, or has English marks."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType
from tests.analysis.accounts import AFTER, BEFORE
from tests.report.test_effective import ASKED, SETTLED, SILENT, UNSETTLED
from tests.report.test_forecast import FOUND

from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.budget import Budget
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.analysis.moves import kind_of, moves_loss, moves_speed
from nanodyno.analysis.probes import reading_of
from nanodyno.analysis.sizing import choose_size
from nanodyno.analysis.summary import summarise
from nanodyno.config import SETTINGS, build_config
from nanodyno.config.ramp import Ramp
from nanodyno.costs.plan import PlanRequest, make_plan
from nanodyno.costs.target import GIB, named_target
from nanodyno.experiments.tune import tune
from nanodyno.messages.language import ENGLISH, LANGUAGES, Language
from nanodyno.recipes import load_settings
from nanodyno.report.attribute import attribution_page, measured_apart
from nanodyno.report.compare import comparison_page
from nanodyno.report.compare_tables import MOVES
from nanodyno.report.doctor import doctor_page
from nanodyno.report.effective import effective_page
from nanodyno.report.forecast import sections
from nanodyno.report.page import to_terminal
from nanodyno.report.plan import plan_page
from nanodyno.report.plan_facts import PlanSource
from nanodyno.report.probes import probes_page
from nanodyno.report.runs import run_page, runs_table
from nanodyno.report.sizing import data_notes, refused_note
from nanodyno.report.tune import tune_page

ENGLISH_ONLY = re.compile(
    r"\b(the|of|and|is|are|was|with|without|not|that|which|per|it|its|at|by|no|yes|from|has|than|this|here)\b"
)
NAMED = re.compile(
    r"Linux-\S+|Python \S+|2\.13\S*|(?:torch|CUDA|cuDNN|Triton|capability|pilote) [\d.]+", re.MULTILINE
)
WIDTH = 200
GROWING = Ramp(524_288, ((10**9, 1_048_576),))
Pages = Callable[[Language], list[str]]


def shown(page: RenderableType, width: int = WIDTH) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(page)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture
def pages(
    checkup: Callable[..., Any],
    tunings: Any,
    attributions: Any,
    run: Callable[..., Any],
    tmp_path: Path,
) -> Pages:
    comparison = compare((with_found_shape(BEFORE), with_found_shape(AFTER)))
    tuning = tune(tunings.request(tunings.config(), 400.0), bench=tunings.stopwatch().bench(tmp_path))
    config = build_config({"batch_size": 64, "tokens_per_iter": 524_288, "recompute": "none"})
    target = named_target("RTX 3060 12GB", None)
    plan = make_plan(config, 50304, 50257, target, PlanRequest(price_kwh=0.3, price_hour=0.5))
    small = named_target("H200", 6 * GIB)
    choice = choose_size(replace(load_settings("best-8h"), hours=48), small, 50304, 50257)
    sized = make_plan(choice.chosen.config, 50304, 50257, small, PlanRequest())
    foreign = replace(choice, known_tokenizer=False)
    measured = {"a": tunings.repetition(tunings.config(), 1.0, 2**30, 0.4)}
    reading = reading_of(measured, Budget(looks=(1,)), "a", 0.01)
    trained = run()
    summary = summarise(trained)
    surface = attributions.surface(too_large=((256, 4),))
    asked = attributions.inquiry(names=("train2", "train1"))
    attributed = [
        attributions.measure(asked, tmp_path / "whole")[0],
        attributions.measure(asked, tmp_path / "gappy", surface)[0],
    ]

    def make(language: Language) -> list[str]:
        return [
            shown(to_terminal(comparison_page(comparison, conclusions(comparison), language))),
            shown(to_terminal(sections(FOUND, language))),
            shown(tune_page(tuning, "gpt2", WIDTH, language)),
            *(shown(effective_page(ASKED, each, language)) for each in (SETTLED, UNSETTLED, SILENT)),
            shown(plan_page(plan, PlanSource("gpt2", ramp=GROWING), WIDTH, language)),
            shown(plan_page(sized, PlanSource("best", choice=choice), WIDTH, language)),
            shown(plan_page(sized, PlanSource("best", choice=foreign), WIDTH, language)),
            "\n".join(data_notes("edu", 50257, 10**6, 10**8, language)),
            "\n".join(data_notes("python", None, 10**6, 10**8, language, estimated=True)),
            refused_note("...", language),
            *(shown(attribution_page(each, WIDTH, language)) for each in attributed),
            shown(to_terminal(measured_apart(attributed[:1], language))),
            shown(doctor_page(checkup(), language)),
            shown(probes_page(measured, reading, WIDTH, language)),
            shown(run_page(trained, summary, WIDTH, language)),
            shown(runs_table([(trained, summary)], WIDTH, language)),
        ]

    return make


@pytest.mark.parametrize(
    "language", [each for each in LANGUAGES.values() if each is not ENGLISH], ids=lambda each: each.code
)
def test_no_page_has_english_in_it(pages: Pages, language: Language) -> None:
    for page in pages(language):
        assert ENGLISH_ONLY.findall(re.sub(r"`[^`]*`", "", page)) == [], page


def test_french_pages_have_decimal_commas(pages: Pages) -> None:
    """But where a number is a name: a version, a compute capability."""
    for page in pages(LANGUAGES["fr"]):
        assert re.findall(r"\d\.\d", NAMED.sub("", page)) == [], page


@pytest.mark.parametrize("code", ["ja", "zh-Hant"])
def test_wide_letters_leave_no_line_wider_than_the_window(pages: Pages, code: str) -> None:
    for page in pages(LANGUAGES[code]):
        assert max(cell_len(line) for line in page.splitlines()) <= WIDTH


def test_what_the_answer_says_can_move_the_speed_the_table_does_not_leave_alone() -> None:
    for key in SETTINGS:
        for values in ((0.0, 1.0), (0.5, 0.6)):  # there or not, and how much
            moved, left = (ENGLISH.say(id) if id else "" for id in MOVES[kind_of(key, *values)])
            speed, loss = moves_speed(key, *values), moves_loss(key, *values)
            assert not speed or "speed" not in left
            assert speed or "speed" not in moved
            assert not loss or "loss" not in left
            assert loss or "loss" not in moved
    assert MOVES["batch"][0] == "compare.moves.batch"
