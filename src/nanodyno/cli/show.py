"""`nanodyno show`: one run on one screen."""

from nanodyno.cli.options import RUNS_FOLDER, Json, Lang, RunName, console_for, language_of, print_page


def show(run: RunName, lang: Lang = None, json: Json = False) -> None:
    """Show one run: how it stands and what to do, model, machine, speed with its interval, losses, curve."""
    import typer

    from nanodyno.analysis.summary import summarise
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.records.store import find_run, read_run
    from nanodyno.report.document import run_document, to_json
    from nanodyno.report.runs import run_page

    found = read_run(find_run(run, RUNS_FOLDER))
    summary = summarise(found, recall_ceilings(found.record.machine))
    if json:
        typer.echo(to_json(run_document(found, summary)))
        return
    console = console_for(json)
    language = language_of(lang)
    print_page(run_page(found, summary, console.width, language), console, language)
