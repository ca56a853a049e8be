"""What a card measured of the case, made into documentation without one: a made-up card measures here."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nanodyno.analysis.factors import ALIKE, VOCABULARY, design_of
from nanodyno.analysis.moves import moves_speed
from nanodyno.config import PLACES, RunConfig
from nanodyno.data.resolve import vocabulary_of
from nanodyno.experiments.attribute import Inquiry, attribute
from nanodyno.inputs import Pair, pair_of_runs, resolve_pair
from nanodyno.messages.language import LANGUAGES
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.store import read_run

ROOT = Path(__file__).parents[2]
CASE = ROOT / "examples"
SECONDS = {(384, 16): 0.4, (768, 16): 0.8, (384, 8): 0.5, (768, 8): 0.9}


@pytest.fixture(scope="module")
def pages(benchmark_module: Callable[[str], ModuleType]) -> Any:
    return benchmark_module("attribute_pages")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    folders = [tmp_path / name for name in ("train2", "train1")]
    for folder in folders:
        import_run(ImportRequest((CASE / f"{folder.name}.log",), folder))
    return pair_of_runs(*map(read_run, folders))


@pytest.fixture
def measured(pair: Pair, tunings: Any, tmp_path: Path) -> Path:
    """The file that a made-up H200 leaves, which has no noise at all."""

    def answer(config: RunConfig) -> Any:
        return tunings.repetition(config, SECONDS[config.n_embd, config.batch_size], 2**30)

    bench = tunings.stopwatch(answer).bench(tmp_path / "measured", tunings.place(usable_gib=140.0))
    attribute(Inquiry(pair.before, pair.after, pair.names), bench=bench)
    (file,) = (tmp_path / "measured").glob("*/*.jsonl")
    return file


def test_the_logs_of_the_case_have_the_combinations_of_the_recipes_for_whatever_moves_the_speed(
    pair: Pair,
) -> None:
    recipes = resolve_pair("gpt2-384", "gpt2-768", (), Path("runs"))
    designs = [design_of(each.before, each.after, "tokens_per_second") for each in (pair, recipes)]
    for combination in range(4):
        logged, ours = (design.config(combination) for design in designs)
        assert isinstance(logged, RunConfig)
        assert isinstance(ours, RunConfig)
        apart = {
            key
            for key in RunConfig.model_fields
            if getattr(logged, key) != getattr(ours, key)
            if moves_speed(key, getattr(logged, key), getattr(ours, key))
        }
        assert apart <= ALIKE | PLACES | set(VOCABULARY)
        assert vocabulary_of(logged).model == vocabulary_of(ours).model


def test_each_figure_stands_beside_nanogpts(pages: Any, measured: Path) -> None:
    """Ours by SECONDS: 524,288 tokens in 0.4 s; the width halves it, then the micro-batch takes a ninth.

    nanoGPT's: 499,630 / 1,025,188 = 0.487 and 463,292 / 574,632 = 0.806, whose geometric mean is 0.627.
    """
    tokens, work = pages.read(measured, ("train2", "train1"))
    rows = {row.what: (row.ours, row.theirs) for row in pages.rows(tokens)}
    assert rows["n_embd=384, batch_size=16"] == ("1,310,720 tok/s", "1,025,188 tok/s")
    assert rows["n_embd, made first"] == ("-50.0%", "-51.3%")
    assert rows["batch_size, made last"] == ("-11.1%", "-7.3%")
    assert rows["n_embd, its part"] == ("-47.3%", "-37.3%")
    counted = {row.what: row.theirs for row in pages.rows(work)}
    # a token of 768 is 2.937 times the work of one of 384: 0.627 * 2.937
    assert counted["n_embd, its part"] == "+84.2%"
    assert "batch_size, made first" not in pages.table(work, [*pages.rows(tokens)])


def test_the_report_of_the_case_has_the_attribution_of_another_machine_in_it(
    pages: Any, measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(pages, "LANGUAGES", {code: LANGUAGES[code] for code in ("en", "fr")})
    docs = tmp_path / "docs"
    (docs / "reports").mkdir(parents=True)
    pages.document(measured, pages.read(measured, pages.RUNS), docs)
    assert "(attribute-work.svg)" in capsys.readouterr().out
    assert {each.name for each in docs.glob("*.svg")} == {"attribute-tokens.svg", "attribute-work.svg"}
    report = (docs / "reports" / "case-en.html").read_text("utf-8")
    assert LANGUAGES["en"].say("attribute.parts.title").lower() in report.lower()
    assert "NVIDIA H200" in report
    assert LANGUAGES["fr"].say("common.tokens-per-second") in (docs / "reports" / "case-fr.html").read_text(
        "utf-8"
    )


def test_the_ablation_of_the_recipe_is_reported_as_it_was_measured(
    pages: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parts in docs/modern.md, and its picture, are those of the kept file."""
    kept, picture = ROOT / "benchmarks" / "ablation_h200.jsonl", tmp_path / "parts.svg"
    (found,) = pages.read(kept, ("plain", "speedrun-124m"))
    reported = (ROOT / "docs" / "modern.md").read_text(encoding="utf-8")
    for effect in (*found.look.effects.parts, found.look.effects.total):
        low, high = effect.interval.low, effect.interval.high
        assert f"{effect.interval.value:+.4f}" in reported
        assert f"{low:+.4f} to {high:+.4f}" in reported
    names = ["--names", "plain", "speedrun-124m"]
    monkeypatch.setattr("sys.argv", ["attribute_pages.py", str(kept), *names, "--svg", str(picture)])
    pages.main()
    assert "5.1319 to 3.8750" in capsys.readouterr().out
    assert picture.read_text() == (ROOT / "docs" / "modern-parts-h200.svg").read_text()
