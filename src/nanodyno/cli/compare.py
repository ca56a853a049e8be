"""`nanodyno compare`: what changed between runs, what it did, who is ahead, and what cannot be concluded."""

from typing import Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for
from nanodyno.errors import NanodynoError

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN RUN...", help="Names under runs/, or paths of run folders; the first is the reference."
    ),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="The page as Markdown on stdout.")]


def compare(runs: Names, markdown: Markdown = False, json: Json = False) -> None:
    """Compare runs: what changed, speed and loss side by side, who is ahead on what, what does not follow."""
    from nanodyno.analysis.account import account_of
    from nanodyno.analysis.audit import with_found_shape
    from nanodyno.analysis.compare import compare as compared
    from nanodyno.analysis.compare import named_apart
    from nanodyno.analysis.conclusions import conclusions
    from nanodyno.analysis.forecast_findings import ends_of
    from nanodyno.records.store import find_run, read_run
    from nanodyno.report.compare import comparison_document, comparison_page
    from nanodyno.report.document import to_json
    from nanodyno.report.forecast import ends_section
    from nanodyno.report.page import to_markdown, to_terminal

    if len(runs) < 2:
        raise NanodynoError("a comparison takes two runs at least", "nanodyno runs lists those there are")
    accounts = [with_found_shape(account_of(read_run(find_run(run, RUNS_FOLDER)))) for run in runs]
    comparison = compared(named_apart(accounts))
    findings, ends = conclusions(comparison), ends_of(comparison.accounts)
    page = [*comparison_page(comparison, findings), *ends_section(ends)]
    if json:
        typer.echo(to_json(comparison_document(comparison, [*findings, *ends])))
    elif markdown:
        typer.echo(to_markdown(page), nl=False)
    else:
        console_for(json).print(to_terminal(page))
