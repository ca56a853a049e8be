"""`nanodyno compare`: what changed between runs, what it did, who is ahead, and what cannot be concluded."""

from typing import Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, Lang, console_for, language_of, print_page
from nanodyno.cli.reporting import Format, Html, Open, Out, Wanted, deliver
from nanodyno.errors import NanodynoError

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN RUN...", help="Names under runs/, or paths of run folders; the first is the reference."
    ),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="The same as --format markdown.")]


def compare(  # noqa: PLR0913 - one parameter per option
    runs: Names,
    html: Html = None,
    opened: Open = False,
    form: Format = None,
    out: Out = None,
    markdown: Markdown = False,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Compare runs: what changed, speed and loss side by side, who is ahead on what, what does not follow.

    nanodyno compare train2 train1 --html report.html --open
    """
    from nanodyno.analysis.conclusions import compared_runs
    from nanodyno.records.store import find_run, read_run
    from nanodyno.report.compare import comparison_document, comparison_page
    from nanodyno.report.document import to_json
    from nanodyno.report.page import to_terminal
    from nanodyno.report.pages.compare import comparison_report

    wanted = Wanted(html, opened, "markdown" if markdown else form, out, lang, json)
    if len(runs) < 2:
        raise NanodynoError("a comparison takes two runs at least", "nanodyno runs lists those there are")
    comparison, findings = compared_runs([read_run(find_run(run, RUNS_FOLDER)) for run in runs])
    if json:
        typer.echo(to_json(comparison_document(comparison, findings)))
    elif not wanted.takes_stdout:
        language = language_of(lang)
        page = to_terminal(comparison_page(comparison, findings, language))
        print_page(page, console_for(json), language)
    deliver(wanted, lambda language: comparison_report(comparison, findings, language))
