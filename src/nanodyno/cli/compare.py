"""`nanodyno compare`: which run is better on what, why, and what cannot be concluded."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import (
    RUNS_FOLDER,
    Everything,
    Json,
    Lang,
    console_for,
    language_of,
    print_page,
)
from nanodyno.cli.reporting import FormatOption, Html, Open, Out, ReportOptions, deliver
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from pathlib import Path

    from nanodyno.analysis.attribution import Attribution
    from nanodyno.analysis.compare import RunComparison
    from nanodyno.analysis.factors import AttributionMetric
    from nanodyno.analysis.findings import Finding
    from nanodyno.messages.language import Language
    from nanodyno.records.store import Run
    from nanodyno.report.page import Section

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN RUN...",
        help="Names under runs/, or paths of run folders; the first is the baseline. a1,a2 b1,b2 compares "
        "repeated runs.",
    ),
]
PAGE_LINES, PAGE_WIDTH = 30, 100
METRICS_OF: "dict[str, tuple[AttributionMetric, ...]]" = {
    "speed": ("tokens_per_second", "achieved_flops_per_second"),
    "val_loss": ("val_loss",),
}
"""What the measurements of an attribution tell."""
Markdown = Annotated[bool, typer.Option("--markdown", help="The same as --format markdown.")]


def compare(  # noqa: PLR0913 - one parameter per option
    runs: Names,
    html: Html = None,
    opened: Open = False,
    form: FormatOption = None,
    out: Out = None,
    markdown: Markdown = False,
    everything: Everything = False,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Compare runs: which is faster, which has the lower loss, why, and what to do next.

    nanodyno compare train2 train1 --html report.html --open
    """
    from nanodyno.analysis.conclusions import compared_runs
    from nanodyno.records.store import other_runs, read_run
    from nanodyno.report.attribute import measured_apart
    from nanodyno.report.attribute_document import attribution_document
    from nanodyno.report.compare import comparison_document, comparison_page
    from nanodyno.report.document import to_json
    from nanodyno.report.page import to_terminal
    from nanodyno.report.pages.compare import comparison_report

    wanted = ReportOptions(html, opened, "markdown" if markdown else form, out, lang, json)
    if len(runs) < 2:
        raise NanodynoError("a comparison needs at least two runs", "`nanodyno runs` lists them")
    groups = [_folders(each) for each in runs]
    folders = [folder for group in groups for folder in group]
    sizes = [len(group) for group in groups] if len(folders) > len(groups) else []
    twice = next((each for each in folders if sizes and folders.count(each) > 1), None)
    if twice:
        raise NanodynoError(f"{twice.name} is named twice", "name each repeated run once")
    found = [read_run(folder) for folder in folders]
    comparison, concluded = compared_runs(
        found, other_runs(RUNS_FOLDER, [run.folder for run in found]), sizes
    )
    compared = {*chain(*comparison.groups)}
    for name in (each.name for each in comparison.accounts if each.name not in compared):
        typer.echo(f"{name} is left out: it is a copy of another run here", err=True)
    apart = attributions(found)
    findings = [each for each in concluded if each.code != "next-measure-apart" or not apart]
    if json:
        document = comparison_document(comparison, findings)
        typer.echo(to_json(document | {"attributions": [attribution_document(each) for each in apart]}))
    elif not wanted.takes_stdout:
        language = language_of(lang)
        if everything:
            whole = comparison_page(comparison, findings, language, apart)
            page = to_terminal([*whole, *measured_apart(apart, language)])
        else:
            page = to_terminal(_first_page(comparison, findings, apart, runs, language))
        print_page(page, console_for(json), language)
    deliver(wanted, lambda language: comparison_report(comparison, findings, language, apart))


def _first_page(
    comparison: "RunComparison",
    findings: "Sequence[Finding]",
    apart: "Sequence[Attribution]",
    runs: "Sequence[str]",
    language: "Language",
) -> "list[Section]":
    """With as many caveats as fit, whatever the width of this terminal."""
    from rich.console import Console

    from nanodyno.report.compare import MOST_CAVEATS, first_page
    from nanodyno.report.page import to_terminal

    command = shlex.join(["nanodyno", "compare", *runs, "--all"])
    paper, page = Console(width=PAGE_WIDTH), []
    for most in range(MOST_CAVEATS, -1, -1):
        page = first_page(comparison, findings, apart, command, language, most)
        if len(paper.render_lines(to_terminal(page))) <= PAGE_LINES:
            break
    return page


def _folders(names: str) -> "list[Path]":
    """Of one run, or of repeated runs with commas between their names."""
    from nanodyno.records.store import find_run

    try:
        return [find_run(names, RUNS_FOLDER)]
    except NanodynoError:
        if "," not in names:
            raise
    found = [find_run(name, RUNS_FOLDER) for name in names.split(",") if name.strip()]
    if not found:
        raise NanodynoError(f"{names!r} names no run", "`nanodyno runs` lists them")
    return found


def attributions(runs: "list[Run]") -> "list[Attribution]":
    """What `nanodyno attribute` has measured of these two, the latest of the speed and of the loss."""
    from nanodyno.analysis.attribution_reading import read_attribution
    from nanodyno.inputs import pair_of_runs
    from nanodyno.records.attribution import attributions_of

    if len(runs) != 2:
        return []
    try:
        pair = pair_of_runs(*runs)
    except NanodynoError:  # settings that nanodyno cannot train with, which another program could
        return []
    latest = {kept[0].metric: kept for kept in attributions_of(pair.before, pair.after)}
    found = [
        replace(
            read_attribution(*kept, pair.names, metric),
            elsewhere=pair.elsewhere,
            unreported=pair.unreported,
            logs_only=pair.logs_only,
        )
        for kind, kept in latest.items()
        for metric in METRICS_OF[kind]
    ]
    return [each for each in found if each.look.made]
