"""`nanodyno compare`: what changed between runs, what it did, who is ahead, and what cannot be concluded."""

from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.attribution import Attribution
    from nanodyno.analysis.factors import Metric
    from nanodyno.records.store import Run

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN RUN...", help="Names under runs/, or paths of run folders; the first is the reference."
    ),
]
METRICS_OF: "dict[str, tuple[Metric, ...]]" = {
    "speed": ("tokens_per_second", "flops_per_second"),
    "val_loss": ("val_loss",),
}
"""What the measurements of an attribution tell."""
Markdown = Annotated[bool, typer.Option("--markdown", help="The page as Markdown on stdout.")]


def compare(runs: Names, markdown: Markdown = False, json: Json = False) -> None:
    """Compare runs: what changed, speed and loss side by side, who is ahead on what, what does not follow."""
    from nanodyno.analysis.account import account_of
    from nanodyno.analysis.audit import with_found_shape
    from nanodyno.analysis.compare import compare as compared
    from nanodyno.analysis.compare import named_apart
    from nanodyno.analysis.conclusions import conclusions
    from nanodyno.records.store import find_run, read_run
    from nanodyno.report.attribute import attribution_document, embedded_sections
    from nanodyno.report.compare import comparison_document, comparison_page
    from nanodyno.report.document import to_json
    from nanodyno.report.page import to_markdown, to_terminal

    if len(runs) < 2:
        raise NanodynoError("a comparison takes two runs at least", "nanodyno runs lists those there are")
    found = [read_run(find_run(run, RUNS_FOLDER)) for run in runs]
    comparison = compared(named_apart([with_found_shape(account_of(run)) for run in found]))
    apart = attributions(found)
    findings = [each for each in conclusions(comparison) if each.code != "next-measure-apart" or not apart]
    if json:
        document = comparison_document(comparison, findings)
        typer.echo(to_json(document | {"attributions": [attribution_document(each) for each in apart]}))
        return
    page = comparison_page(comparison, findings)
    work = next((each for each in apart if each.metric == "flops_per_second"), None)
    for each in apart:
        if each is not work:
            page += embedded_sections(each, work if each.metric == "tokens_per_second" else None)
    if markdown:
        typer.echo(to_markdown(page), nl=False)
    else:
        console_for(json).print(to_terminal(page))


def attributions(runs: "list[Run]") -> "list[Attribution]":
    """What `nanodyno attribute` has measured of these two, the latest of the speed and of the loss."""
    from nanodyno.analysis.attribution_reading import read_attribution
    from nanodyno.cli.pairs import pair_of_runs
    from nanodyno.records.attribution import attributions_of

    if len(runs) != 2:
        return []
    try:
        pair = pair_of_runs(*runs)
    except NanodynoError:  # settings that nanodyno cannot train with, which another program could
        return []
    latest = {kept[0].metric: kept for kept in attributions_of(pair.before, pair.after)}
    found = [
        read_attribution(*kept, pair.names, metric)
        for kind, kept in latest.items()
        for metric in METRICS_OF[kind]
    ]
    return [each for each in found if each.look.made]
