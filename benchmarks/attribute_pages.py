"""What attribute measured on a card, read where there is none: as text, and as documentation of the case.

    python benchmarks/attribute_pages.py FILE.jsonl [--names BEFORE AFTER] [--svg FILE]
    python benchmarks/attribute_pages.py case.jsonl docs

FILE.jsonl is what attribute keeps of a question, as benchmarks/attribute_card.sh brings it back. The first
prints what the command shows, of the tokens and of the work or of the loss, and draws the tokens or the loss
as docs/modern-parts-h200.svg has it. The second, for the two logs in examples, writes
docs/attribute-tokens.svg, docs/attribute-work.svg and docs/reports/case-LANG.html with the attribution in it,
and prints a piece of docs/attribute.md: each figure beside nanoGPT's, with a column of reasons, which are to
be filled in by hand.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.attribution_reading import read_attribution
from nanodyno.analysis.effects import Effect
from nanodyno.analysis.factors import AttributionMetric
from nanodyno.analysis.shapley import Combination, shapley, step, value
from nanodyno.costs.flops import flops_per_token
from nanodyno.messages.language import LANGUAGES
from nanodyno.messages.numbers import change_words, interval_words, settings_words, value_words
from nanodyno.records.attribution import kept_in, pair_folder
from nanodyno.report.attribute import METRICS, attribution_page
from nanodyno.report.attribute_picture import PICTURED, waterfall_figure
from nanodyno.report.html.drawing import svg_file

RATES: tuple[AttributionMetric, ...] = ("tokens_per_second", "achieved_flops_per_second")
CASE = Path(__file__).parents[1] / "examples"
RUNS = ("train2", "train1")
WIDTH = 110
NANOGPT = {(384, 16): 1_025_188.0, (768, 16): 499_630.0, (384, 8): 574_632.0, (768, 8): 463_292.0}
"""Tokens/s of nanoGPT, compiled, on one H200 (torch 2.11.0+cu130), by n_embd and batch_size; one run each."""


def read(path: Path, names: tuple[str, str]) -> list[Attribution]:
    question, lines = kept_in(path)
    metrics: tuple[AttributionMetric, ...] = ("val_loss",) if question.metric == "val_loss" else RATES
    return [read_attribution(question, lines, names, metric) for metric in metrics]


def show(found: Attribution) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(attribution_page(found, WIDTH))
    console.print()


def draw(found: Attribution, picture: Path) -> None:
    picture.write_text(svg_file(waterfall_figure(found, LANGUAGES["en"])), encoding="utf-8")


@dataclass(frozen=True)
class Row:
    what: str
    ours: str
    interval: str
    theirs: str


def rows(found: Attribution) -> Iterator[Row]:
    """Corners, the steps of both orders, and the parts."""
    theirs = _theirs(found)
    for combination, known in found.combinations.items():
        own = found.value(combination)
        assert own is not None
        summary = known.summary
        rate = summary.tokens_per_second if summary else None
        spread = "" if rate is None or rate.high is None else f"±{(rate.high / rate.value - 1) * 100:.1f}%"
        words = (
            value_words(own, found.metric),
            spread,
            value_words(math.exp(theirs[combination]), found.metric),
        )
        yield Row(settings_words(found.design.settings(combination)), *words)
    steps = found.look.effects.steps
    for (combination, factor), effect in sorted(steps.items(), key=lambda each: (each[0][1], each[0][0])):
        name = found.design.factors[factor].name
        place = "first" if combination == 0 else "last"
        yield _effect_row(found, f"{name}, made {place}", effect, value(step(combination, factor), theirs))
    for factor, effect in enumerate(found.look.effects.parts):
        theirs_part = value(shapley(len(found.design.factors), factor), theirs)
        yield _effect_row(found, f"{found.design.factors[factor].name}, its part", effect, theirs_part)


def _theirs(found: Attribution) -> dict[Combination, float]:
    """nanoGPT's corners on the same scale; work is counted as ours is, not by nanoGPT's formula."""
    logs: dict[Combination, float] = {}
    for combination, known in found.combinations.items():
        assert known.config is not None
        assert known.measured is not None
        rate = NANOGPT[known.config.n_embd, known.config.batch_size]
        setup = known.measured.setup
        work = flops_per_token(known.config.model_shape(setup.vocab_size), setup.data_vocab_size)
        logs[combination] = math.log(rate * (work if found.metric == "achieved_flops_per_second" else 1))
    return logs


def _effect_row(found: Attribution, what: str, effect: Effect, theirs: float) -> Row:
    low, high = effect.interval.low, effect.interval.high
    assert low is not None
    assert high is not None
    return Row(
        what,
        change_words(found.change(effect.interval.value), found.metric),
        interval_words(found.change(low), found.change(high), found.metric),
        change_words(found.change(theirs), found.metric),
    )


def table(found: Attribution, reported: Collection[Row] = ()) -> str:
    """Without what another table tells: a micro-batch moves both rates alike."""
    heads = [METRICS[found.metric], "nanodyno", "", "nanoGPT", "why they differ"]
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [row.what, row.ours, row.interval, row.theirs, "?"] for row in rows(found) if row not in reported
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def document(path: Path, found: list[Attribution], docs: Path) -> None:
    tokens, work = found
    for name, each in (("tokens", tokens), ("work", work)):
        draw(each, docs / f"attribute-{name}.svg")
    print(f"![{PICTURED[tokens.metric]}](attribute-tokens.svg)\n\n{table(tokens)}\n")
    print(f"![{PICTURED[work.metric]}](attribute-work.svg)\n\n{table(work, [*rows(tokens)])}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _keep(path, place / "cache" / "nanodyno" / "attribute")
        environment = os.environ | {"XDG_CACHE_HOME": str(place / "cache")}
        for run in RUNS:
            _nanodyno(["import", str(CASE / f"{run}.log"), "--name", run], place, environment)
        reported = json.loads(_nanodyno(["compare", *RUNS, "--json"], place, environment))
        if not reported["attributions"]:
            sys.exit(f"{path} was not measured of the two runs of examples: compare does not find it")
        for code in LANGUAGES:
            page = docs.absolute() / "reports" / f"case-{code}.html"
            _nanodyno(["compare", *RUNS, "--lang", code, "--html", str(page)], place, environment)


def _keep(path: Path, cache: Path) -> None:
    """Where compare looks for it on this machine."""
    question, _ = kept_in(path)
    folder = pair_folder(question.before, question.after, cache)
    folder.mkdir(parents=True)
    shutil.copy(path, folder / f"{question.digest}.jsonl")


def _nanodyno(arguments: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", "nanodyno", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--names", nargs=2, default=RUNS)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("docs", type=Path, nargs="?")
    given = parser.parse_args()
    found = read(given.file, (given.names[0], given.names[1]))
    if given.docs is not None:
        document(given.file, found, given.docs)
        return
    if given.svg is not None:
        draw(found[0], given.svg)
    for each in found:
        show(each)


if __name__ == "__main__":
    main()
