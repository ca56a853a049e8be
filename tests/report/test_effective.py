"""The page of `tune --critical-batch-size`."""

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console, RenderableType

from nanodyno.analysis.effective import BatchSizeAdvice
from nanodyno.analysis.noise_scale import Heading, NoiseScalePoint
from nanodyno.config.ramp import Ramp
from nanodyno.messages.language import LANGUAGES
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
    assert "Gradient noise of mine, by its records: 300 iterations, 19.7M tokens" in text
    assert "10,000 to 40,000 tokens per iteration; 65,536 is larger" in text
    assert "by theory 65,536 takes 2.64 times the fewest to a loss" in text
    assert "--tokens_per_iter=16384 --batch_size=8, the learning rate by the root of the change" in text
    assert "80.0k tokens (60.0k to 110.0k) at 262.1M tokens" in text
    assert "(fitted to 4 stretches, not measured)" in text
    assert "--batch_ramp=99000000:32768" in text
    assert "20.0M 4.000 20.0k 18.0k to 24.0k" in text
    assert "measured until" not in text
    decayed = shown(effective_page(ASKED, replace(SETTLED, decayed_at=1250)))
    assert "measured until iteration 1,250, when the learning rate fell below half of its peak" in decayed


@pytest.mark.parametrize("scale", [NoiseScale(120.0, 60.0, 400.0, 31), NoiseScale(-125.0, 0.0, 90.0, 200)])
def test_too_few_iterations_and_a_number_below_zero_are_no_noise_scale(scale: NoiseScale) -> None:
    assert noise_scale_words(scale) == f"not known yet ({scale.samples} measured iterations)"


def test_what_is_not_known_is_said_without_advice() -> None:
    text = shown(effective_page(ASKED, UNSETTLED))
    assert "not known (40 measured iterations): the noise drowns the signal; at least 9.00k tokens" in text
    assert "none: it has not settled: the signal cannot be told from zero, so it has no upper end" in text
    assert "train it longer, or with a larger --tokens_per_iter" in text
    assert "try" not in text
    wide = replace(UNSETTLED, scale=NoiseScale(9e3, 4e3, 20e3, 40))
    assert "interval is more than 4 times the lower" in shown(effective_page(ASKED, wide))
    assert "there is one micro-step per iteration" in shown(effective_page(ASKED, SILENT))
    assert "no iteration was done" in shown(effective_page(ASKED, replace(SILENT, lack="no-iteration")))
    assert "no iteration told of it" in shown(effective_page(ASKED, replace(SILENT, lack="no-sample")))


def test_where_it_heads_is_not_reported_of_too_few_stretches_nor_at_the_end() -> None:
    few = replace(SETTLED, heading=None)
    assert "it takes four settled stretches; --batch_ramp=noise" in shown(effective_page(ASKED, few))
    ended = replace(few, points=SETTLED.points * 2)
    assert "nowhere: the run has come to its end" in shown(effective_page(ASKED, ended))


def test_a_scale_without_an_upper_end_is_about_so_much() -> None:
    assert noise_scale_words(NoiseScale(5e3, 2e3, None, 32)) == (
        "about 5.00k tokens (32 measured iterations); at least 2.00k tokens"
    )
    assert noise_scale_words(NoiseScale(5e3, None, None, 50)) == "about 5.00k tokens (50 measured iterations)"
    assert unsettled_words(NoiseScale(5e3, None, None, 2)).endswith("which takes 32 measured iterations")


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
    assert with_ramp("8 x 64", Ramp(512, ((20_000_000, 1024),))) == (
        "8 x 64, growing to 1,024 from 20.0M tokens on"
    )
    assert with_ramp("8 x 64", Ramp(512, most=8192)) == (
        "8 x 64, doubling with the measured noise up to 8,192"
    )
