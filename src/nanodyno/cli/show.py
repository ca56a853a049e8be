"""`nanodyno show`: one run on one screen."""

from nanodyno.cli.options import (
    RUNS_FOLDER,
    Everything,
    Json,
    Lang,
    RunName,
    console_for,
    language_of,
    print_page,
)
from nanodyno.cli.reporting import FormatOption, Html, Open, Out, ReportOptions, deliver


def show(  # noqa: PLR0913 - one parameter per option
    run: RunName,
    everything: Everything = False,
    html: Html = None,
    opened: Open = False,
    form: FormatOption = None,
    out: Out = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Show one run: its state, losses, speed, memory and settings, and the loss curve.

    nanodyno show gpt2-768-1 --html report.html --open
    """
    import typer

    from nanodyno.analysis.summary import summarise
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.records.store import find_run, read_run
    from nanodyno.report.document import run_document, to_json
    from nanodyno.report.pages.run import run_report
    from nanodyno.report.runs import run_page

    wanted = ReportOptions(html, opened, form, out, lang, json)
    found = read_run(find_run(run, RUNS_FOLDER))
    summary = summarise(found, recall_ceilings(found.record.machine))
    if json:
        typer.echo(to_json(run_document(found, summary)))
    elif not wanted.takes_stdout:
        console, language = console_for(json), language_of(lang)
        print_page(run_page(found, summary, console.width, language, everything), console, language)
    deliver(wanted, lambda language: run_report(found, summary, language))
