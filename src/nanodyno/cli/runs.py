"""`nanodyno runs`: what there is."""

from pathlib import Path

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for


def runs(json: Json = False) -> None:
    """List the runs under runs/ and in this folder (out_dir), oldest first: state, size, loss, speed."""
    import typer

    from nanodyno.analysis.summary import summarise
    from nanodyno.errors import NanodynoError
    from nanodyno.records.store import read_run, run_folders
    from nanodyno.report.document import run_document, to_json
    from nanodyno.report.runs import runs_table

    console = console_for(json)
    found, unreadable = [], []
    for folder in [*run_folders(RUNS_FOLDER), *run_folders(Path())]:
        try:
            run = read_run(folder)
        except NanodynoError as error:
            unreadable.append(error.message)
            continue
        found.append((run, summarise(run)))
    if json:
        typer.echo(to_json([run_document(run, summary) for run, summary in found]))
    elif found:
        console.print(runs_table(found, console.width))
    else:
        console.print(f"no runs under {RUNS_FOLDER}/ yet: `nanodyno demo` makes two in a few minutes")
    for message in unreadable:
        typer.echo(f"skipped: {message}", err=True)
