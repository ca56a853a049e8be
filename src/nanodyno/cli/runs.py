"""`nanodyno runs`: what there is."""

from pathlib import Path
from typing import Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for
from nanodyno.errors import NanodynoError


def runs(
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the table up to date, with the time left, until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """List the runs under runs/ and in this folder (out_dir), oldest first: state, size, loss, speed.

    A run is running, done, stopped (by Ctrl-C, say), failed (`nanodyno show` tells why) or died (was killed).

    `nanodyno train --resume RUN` goes on with it.
    """
    if watch and json:
        raise NanodynoError(
            "--watch shows a table again and again, and --json is one document",
            "leave one of them out; a script can ask `nanodyno runs --json` as often as it likes",
        )
    unreadable = _document() if json else _table(watch)
    for message in unreadable:
        typer.echo(f"skipped: {message}", err=True)


def _table(watch: bool) -> tuple[str, ...]:
    from nanodyno.report.listing import Listing
    from nanodyno.report.watch import keep_showing, listed_table

    console, listing = console_for(json=False), Listing(_folders)
    if watch:
        keep_showing(listing, console)
        return ()
    listed = listing.read()
    console.print(listed_table(listed, console.width))
    return listed.unreadable


def _document() -> tuple[str, ...]:
    from nanodyno.analysis.summary import summarise
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.records.store import read_run
    from nanodyno.report.document import run_document, to_json

    documents, unreadable = [], []
    for folder in _folders():
        try:
            run = read_run(folder)
        except NanodynoError as error:
            unreadable.append(error.message)
        else:
            documents.append(run_document(run, summarise(run, recall_ceilings(run.record.machine))))
    typer.echo(to_json(documents))
    return tuple(unreadable)


def _folders() -> list[Path]:
    from nanodyno.records.store import run_folders

    return [*run_folders(RUNS_FOLDER), *run_folders(Path())]
