"""`nanodyno demo`: two small runs on the embedded corpus, compared, on any machine and offline."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import INTERRUPTED, RUNS_FOLDER, Json, Lang, console_for, language_of, print_page
from nanodyno.cli.reporting import Html, Open, ReportOptions, deliver
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from nanodyno.analysis.attribution import Attribution
    from nanodyno.analysis.summary import Summary
    from nanodyno.analysis.tuning import Tuning
    from nanodyno.config import RunConfig
    from nanodyno.inputs import Request
    from nanodyno.messages.language import Language
    from nanodyno.records.store import Run
    from nanodyno.report.page import Page

REPORT = RUNS_FOLDER / "demo.html"
WIDTHS = {"demo-narrow": 128, "demo-wide": 256}
TUNE_BUDGET = "45s"
HELD = frozenset({"compile", "kernels"})
"""Not tried in the demo: compiling takes longer than all of it."""
ATTRIBUTE_SECONDS = 60.0
SAMPLE_TOKENS = 240
PROMPT = "def "
COMPARED_SECTIONS = 3
"""Of the page of `compare`: the answer, what changed, side by side."""


def demo(  # noqa: PLR0913 - one parameter per option
    max_iters: Annotated[
        int | None, typer.Option(min=1, help="Iterations per run. Fewer are quicker and learn less.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    tune: Annotated[
        bool, typer.Option(help="First find the fastest micro-batch for this machine, in under a minute.")
    ] = True,
    attribute: Annotated[
        bool,
        typer.Option(
            "--attribute", help="Also measure how each of two changes affects the speed, in another minute."
        ),
    ] = False,
    html: Html = None,
    opened: Open = False,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Tune a small GPT for this machine, train it and a wider one on Python's source code, and compare them.

    It needs no GPU, no network and no data, and takes a few minutes on two CPU cores.
    """
    from nanodyno.analysis.conclusions import compared_runs
    from nanodyno.cli.tune import changes_of, with_changes
    from nanodyno.records.store import CHECKPOINTS_FOLDER
    from nanodyno.report.compare import comparison_document
    from nanodyno.report.document import run_document, to_json
    from nanodyno.train.sampling import Dials, sample_text

    wanted = ReportOptions(html, opened, lang=lang, json=json)
    console, language = console_for(json), language_of(lang, json)
    console.print(
        language.say("demo.header"),
        style="bold",
    )
    requests = _requests(device)
    narrow, wide = requests.values()
    tuning = _tuned(narrow, json, console, language) if tune else None
    tuned = changes_of(tuning)
    length = {} if max_iters is None else {"max_iters": max_iters}
    configs = {stem: with_changes(each, tuned | length).config for stem, each in requests.items()}
    results = [_train(stem, folder, configs[stem], console) for stem, folder in _folders(configs).items()]
    better = min(results, key=lambda result: _val_loss(result[1]))[0]
    dials = Dials(PROMPT, SAMPLE_TOKENS, temperature=0.7, top_k=40, seed=1337)
    text = PROMPT + "".join(sample_text(better.folder / CHECKPOINTS_FOLDER, dials, device))
    apart = _attributed((narrow, wide), json, console, language) if attribute else None
    if json:
        from nanodyno.report.attribute_document import attribution_document

        document = {
            "tuned": tuned,
            "runs": [run_document(run, summary) for run, summary in results],
            "better": better.name,
            "sample": text,
            "comparison": comparison_document(*compared_runs([run for run, _ in results])),
        }
        reported = {} if apart is None else {"attribution": attribution_document(apart)}
        typer.echo(to_json(document | reported))
    else:
        _show(results, better, text, console, language)
        if apart is not None:
            from nanodyno.report.attribute import attribution_page

            console.print()
            page = attribution_page(apart, console.width, language, everything=False)
            print_page(page, console, language)
    runs = [run for run, _ in results]
    deliver(
        replace(wanted, html=html or REPORT),
        lambda language: _report(runs, tuning, apart, (better.name, text), language),
    )


def _report(
    runs: "list[Run]",
    tuning: "Tuning | None",
    apart: "Attribution | None",
    written: tuple[str, str],
    language: "Language",
) -> "Page":
    from nanodyno.analysis.conclusions import compared_runs
    from nanodyno.report.pages.demo import demo_report

    attributions = () if apart is None else (apart,)
    return demo_report(*compared_runs(runs), tuning, written, language, attributions)


def _requests(device: str) -> "dict[str, Request]":
    from nanodyno.inputs import resolve

    small = resolve("demo", [f"--device={device}"], RUNS_FOLDER, takes_runs=False)
    return {stem: small.changed({"n_embd": width}) for stem, width in WIDTHS.items()}


def _tuned(request: "Request", json: bool, console: "Console", language: "Language") -> "Tuning | None":
    from nanodyno.analysis.tuning import curve_of, rows_of
    from nanodyno.cli.tune import tune_request, tuned
    from nanodyno.report.tune import tune_table, verdict_lines

    first = language.say("demo.tune.start", budget=TUNE_BUDGET)
    console.print(first)
    try:
        tuning = tuned(tune_request(request, TUNE_BUDGET, held=HELD), json, language)
    except NanodynoError as error:
        said = language.say("demo.tune.skipped", reason=error.message)
        console.print(said, highlight=False, markup=False)
        return None
    if tuning.interrupted:
        raise typer.Exit(INTERRUPTED)
    rows, chosen = rows_of(tuning), tuning.chosen
    name = None if chosen is None else chosen.name
    print_page(tune_table(curve_of(rows, name), name, console.width, language), console, language)
    for line, style in verdict_lines(tuning, rows, language):
        console.print(line, style=style, highlight=False, markup=False)
    console.print()
    return tuning


def _attributed(
    requests: "tuple[Request, Request]", json: bool, console: "Console", language: "Language"
) -> "Attribution":
    """Twice the width and half the micro-batch, at the same tokens per iteration."""
    from nanodyno.cli.attribute import attributed
    from nanodyno.experiments.attribute import Inquiry
    from nanodyno.messages.quantities import clock

    narrow, wide = requests
    before = narrow.config
    changes = {"batch_size": before.batch_size // 2, "tokens_per_iter": before.tokens_per_iter}
    after = wide.changed(changes).config
    words = language.say(
        "demo.attribute.start",
        budget=clock(ATTRIBUTE_SECONDS, language),
    )
    console.print(words, highlight=False)
    stems = tuple(WIDTHS)
    names = stems[0], f"{stems[1]},batch_size={after.batch_size}"
    found = attributed(Inquiry(before, after, names, budget_seconds=ATTRIBUTE_SECONDS), json, language)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)
    return found


def _folders(configs: "dict[str, RunConfig]") -> "dict[str, Path | None]":
    """Where a demo that was interrupted goes on, with what it had finished; None for a new run."""
    from nanodyno.train.resuming import of_the_same_settings, unfinished

    left = {stem: unfinished(RUNS_FOLDER, stem, config) for stem, config in configs.items()}
    if not any(left.values()):
        return left
    newest = {
        stem: next(of_the_same_settings(RUNS_FOLDER, stem, config), None) for stem, config in configs.items()
    }
    return {stem: folder or (run.folder if (run := newest[stem]) else None) for stem, folder in left.items()}


def _train(
    stem: str, folder: "Path | None", config: "RunConfig", console: "Console"
) -> "tuple[Run, Summary]":
    from nanodyno.analysis.summary import summarise
    from nanodyno.records.lock import remove_if_unused
    from nanodyno.records.store import read_run
    from nanodyno.records.writer import claim_folder
    from nanodyno.report.progress import make_display
    from nanodyno.train.job import TrainingJob
    from nanodyno.train.runner import run_training

    folder = folder or claim_folder(RUNS_FOLDER / stem)
    display = make_display("auto", console)
    try:
        reason = run_training(TrainingJob(config, folder.name, folder, ("nanodyno", *sys.argv[1:])), display)
    finally:
        display.close()
        remove_if_unused(folder)
    if reason != "finished":
        raise typer.Exit(INTERRUPTED if reason == "interrupted" else 0)
    run = read_run(folder)
    return run, summarise(run)


def _val_loss(summary: "Summary") -> float:
    return summary.last_val.loss if summary.last_val else float("inf")


def _show(
    results: "list[tuple[Run, Summary]]", better: "Run", text: str, console: "Console", language: "Language"
) -> None:
    from rich.panel import Panel
    from rich.text import Text

    from nanodyno.analysis.conclusions import compared_runs
    from nanodyno.report.compare import comparison_page
    from nanodyno.report.page import to_terminal
    from nanodyno.report.runs import loss_plot, runs_table

    runs = [run for run, _ in results]
    console.print()
    print_page(runs_table(results, console.width, language), console, language)
    console.print()
    console.print(loss_plot(runs, console.width, language))
    console.print()
    title = language.say("demo.sample.title", name=better.name)
    console.print(Panel(Text(text), title=title, title_align="left"))
    console.print()
    page = comparison_page(*compared_runs(runs), language)[:COMPARED_SECTIONS]
    print_page(to_terminal(page), console, language)
    console.print()
    hints = (
        language.say("demo.next.compare", names=" ".join(run.name for run in runs)),
        language.say("demo.next.show-runs", name=better.name),
        language.say(
            "demo.next.train-longer",
            folder=str(RUNS_FOLDER),
        ),
    )
    console.print("\n".join(hints), highlight=False)
