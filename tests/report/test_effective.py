"""The page of `tune --effective-batch`."""

import io

from rich.console import Console

from nanodyno.analysis.effective import Advice
from nanodyno.analysis.noise_scale import Heading, Point
from nanodyno.noise import NoiseScale
from nanodyno.report.effective import Asked, effective_page


def test_a_page_of_a_settled_run_says_what_serves_and_where_it_heads() -> None:
    """A page of made-up numbers: every row is there, and what is fitted is called so."""
    scale = NoiseScale(40_000.0, 30_000.0, 55_000.0, 200)
    points = tuple(
        Point(10e6 * 2**n, 5.0 - n, NoiseScale(1e4 * 2**n, 9e3 * 2**n, 12e3 * 2**n, 48)) for n in (0, 1)
    )
    advice = Advice(
        "large", scale, 65_536, (10_000.0, 40_000.0), 16_384, 8, 2.64, points,
        Heading(0.5, 262_144_000, 80_000.0, 60_000.0, 110_000.0, 4), ((99_000_000, 32_768),),
    )  # fmt: skip
    screen = Console(file=io.StringIO(), width=120, color_system=None)
    screen.print(effective_page(Asked("mine", "records", 300, 19_660_800), advice))
    assert isinstance(screen.file, io.StringIO)
    text = " ".join(screen.file.getvalue().split())
    assert "10,000 to 40,000 tokens per iteration; 65,536 is larger" in text
    assert "by theory 65,536 takes 2.64 times the fewest to a loss" in text
    assert "--tokens_per_iter=16384 --batch_size=8, the learning rate by the root of the change" in text
    assert "80.0k tokens (60.0k to 110.0k) at 262.1M tokens" in text
    assert "(fitted to 4 stretches, not measured)" in text
    assert "--batch_ramp=99000000:32768" in text
    assert "20.0M 4.000 20.0k 18.0k to 24.0k" in text
