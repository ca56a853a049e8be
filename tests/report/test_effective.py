"""The page of `tune --critical-batch-size`."""

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console, RenderableType
from tests.plan_words import says

from nanodyno.analysis.effective import BatchSizeAdvice
from nanodyno.analysis.noise_scale import Heading, NoiseScalePoint
from nanodyno.config.ramp import Ramp
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.noise import NoiseScale
from nanodyno.report.effective import NoiseScaleSource, effective_page
from nanodyno.report.html.document import to_html
from nanodyno.report.jekyll import document
from nanodyno.report.noise import noise_scale_words, unsettled_words
from nanodyno.report.pages.effective import effective_report
from nanodyno.report.words import with_ramp

ASKED = NoiseScaleSource("mine", "records", 300, 19_660_800)
SETTLED = BatchSizeAdvice(
    "large",
    NoiseScale(40_000.0, 30_000.0, 55_000.0, 200),
    65_536,
    (10_000.0, 40_000.0),
    16_384,
    8,
    2.64,
    tuple(
        NoiseScalePoint(10e6 * 2**n, 5.0 - n, NoiseScale(1e4 * 2**n, 9e3 * 2**n, 12e3 * 2**n, 48))
        for n in (0, 1)
    ),
    Heading(0.5, 262_144_000, 80_000.0, 60_000.0, 110_000.0, 4),
    ((99_000_000, 32_768),),
)
"""Made-up numbers, a row of each kind."""
UNSETTLED = BatchSizeAdvice(
    "not-settled", NoiseScale(None, 9_000.0, None, 40), 4096, None, None, None, None, (), None, ()
)
NOW = datetime(2026, 11, 16, tzinfo=UTC)
SILENT = BatchSizeAdvice("not-measured", None, 4096, None, None, None, None, (), None, ())


def shown(page: RenderableType, width: int = 120) -> str:
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    screen.print(page)
    assert isinstance(screen.file, io.StringIO)
    return " ".join(screen.file.getvalue().split())


def test_a_page_of_a_settled_run_says_what_serves_and_where_it_heads() -> None:
    """Every row is there, and what is fitted is called so."""
    text = shown(effective_page(ASKED, SETTLED))
    assert says(text, "batch.title.from-records", name="mine", seen="300 iterations, 19.7M tokens")
    assert says(text, "batch.advice.too-large", low="10,000", high="40,000", has="65,536")
    assert says(text, "batch.token-cost", has="65,536", times="2.64")
    assert says(text, "batch.settings-to-try", settings="--tokens_per_iter=16384 --batch_size=8")
    ahead = {"tokens": "80.0k", "low": "60.0k", "high": "110.0k", "seen": "262.1M", "points": "4"}
    assert says(text, "batch.trend.expected", **ahead)
    assert "--batch_ramp=99000000:32768" in text
    assert "20.0M 4.000 20.0k 18.0k to 24.0k" in text
    assert not says(text, "batch.noise.before-decay")
    decayed = shown(effective_page(ASKED, replace(SETTLED, decayed_at=1250)))
    assert says(decayed, "batch.noise.before-decay", iteration="1,250")


@pytest.mark.parametrize("scale", [NoiseScale(120.0, 60.0, 400.0, 31), NoiseScale(-125.0, 0.0, 90.0, 200)])
def test_too_few_iterations_and_a_number_below_zero_are_no_noise_scale(scale: NoiseScale) -> None:
    measured = ENGLISH.say_plural("batch.noise.measured-iterations", scale.samples)
    assert noise_scale_words(scale) == ENGLISH.say("batch.noise.not-known-yet", measured=measured)


def test_what_is_not_known_is_said_without_advice() -> None:
    text = shown(effective_page(ASKED, UNSETTLED))
    assert says(text, "batch.noise.not-known", measured="40 measured iterations")
    assert says(text, "batch.noise.at-least", tokens="9.00k")
    assert says(text, "batch.advice.none-yet", why=ENGLISH.say("batch.unsettled.no-upper-end"))
    assert ENGLISH.say("batch.row.settings-to-try") not in text
    wide = replace(UNSETTLED, scale=NoiseScale(9e3, 4e3, 20e3, 40))
    assert says(shown(effective_page(ASKED, wide)), "batch.unsettled.interval-too-wide", times="4")
    assert says(shown(effective_page(ASKED, SILENT)), "batch.not-measured.one-micro-step")
    none_done = shown(effective_page(ASKED, replace(SILENT, lack="no-iteration")))
    assert says(none_done, "batch.not-measured.no-iteration")
    none_recorded = shown(effective_page(ASKED, replace(SILENT, lack="no-sample")))
    assert says(none_recorded, "batch.not-measured.no-sample")


def test_where_it_heads_is_not_reported_of_too_few_stretches_nor_at_the_end() -> None:
    few = replace(SETTLED, heading=None)
    assert says(shown(effective_page(ASKED, few)), "batch.trend.not-known")
    ended = replace(few, points=SETTLED.points * 2)
    assert says(shown(effective_page(ASKED, ended)), "batch.trend.run-ended")


def test_a_scale_without_an_upper_end_is_about_so_much() -> None:
    assert noise_scale_words(NoiseScale(5e3, 2e3, None, 32)) == (
        "about 5.00k tokens (32 measured iterations); at least 2.00k tokens"
    )
    assert noise_scale_words(NoiseScale(5e3, None, None, 50)) == "about 5.00k tokens (50 measured iterations)"
    assert unsettled_words(NoiseScale(5e3, None, None, 2)) == (
        ENGLISH.say("batch.unsettled.too-few", number="32")
    )


def test_an_interval_that_is_far_wider_than_the_others_runs_out_of_the_picture() -> None:
    """Points from 10k to 30k, and as much as a quarter of 20k around them; it ends at 60k."""
    wide_one = NoiseScalePoint(40e6, 3.0, NoiseScale(3e4, 16e3, 60e3, 48))
    page = effective_report(ASKED, replace(SETTLED, points=(*SETTLED.points, wide_one)), LANGUAGES["en"])
    wide, slim = to_html(page, LANGUAGES["en"], NOW).split("<svg")[1:]
    assert [each.count('class="arrow') for each in (wide, slim)] == [1, 1]


@pytest.mark.parametrize("advice", [SETTLED, UNSETTLED, SILENT], ids=lambda each: each.verdict)
def test_the_page_to_open_has_the_rows_and_a_picture_where_there_is_a_course(advice: BatchSizeAdvice) -> None:
    page = effective_report(ASKED, advice, LANGUAGES["en"])
    assert "Gradient noise of mine" in document(page, "markdown", LANGUAGES["en"], NOW)
    assert ("<svg" in to_html(page, LANGUAGES["en"], NOW)) == (len(advice.points) > 1)


def test_a_ramp_is_reported_after_the_batch() -> None:
    assert with_ramp("8 x 64", Ramp(512)) == "8 x 64"
    step = ENGLISH.say("batch.ramp.step", size="1,024", since="20.0M")
    assert with_ramp("8 x 64", Ramp(512, ((20_000_000, 1024),))) == (
        ENGLISH.say("batch.ramp.growing", batch="8 x 64", steps=step)
    )
    assert with_ramp("8 x 64", Ramp(512, most=8192)) == (
        ENGLISH.say("batch.ramp.by-noise", batch="8 x 64", most="8,192")
    )
