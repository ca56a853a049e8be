"""`nanodyno runs`: the table of runs, the leaderboard, and the export of one result."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nanodyno.records.result import ResultRecord


def runs(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Only these, by name or path.", show_default=False),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the table up to date, with the time left, until Ctrl-C.")
    ] = False,
    leaderboard: Annotated[
        bool,
        typer.Option("--leaderboard", help="Rank the runs by val loss at equal tokens, by speed and by MFU."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write one run's result as a small JSON file for `nanodyno import`."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the runs under runs/ and in this folder (out_dir), oldest first: state, size, loss, speed.

    A run is running, done, stopped (as by Ctrl-C), failed (see `nanodyno show RUN`) or died (was killed).

    `nanodyno train --resume RUN` resumes it.

    nanodyno runs --export result.json RUN writes what others need to compare with it, without paths.
    """
    _refuse_both({"--watch": watch, "--leaderboard": leaderboard, "--export": export is not None})
    if watch and json:
        raise NanodynoError(
            "--watch and --json exclude each other",
            "in a script, repeat `nanodyno runs --json`",
        )
    if export is not None:
        _export(export, names or [], json)
        return
    folders = _folders(names or [])
    if leaderboard:
        unreadable = _leaderboard(folders(), json)
    else:
        unreadable = _document(folders()) if json else _table(folders, watch)
    for message in unreadable:
        typer.echo(f"skipped: {message}", err=True)


def _refuse_both(options: dict[str, bool]) -> None:
    given = [name for name, is_given in options.items() if is_given]
    if len(given) > 1:
        raise NanodynoError(f"{given[0]} and {given[1]} exclude each other", "use one at a time")


def _table(folders: "Callable[[], list[Path]]", watch: bool) -> tuple[str, ...]:
    from nanodyno.report.listing import Listing
    from nanodyno.report.watch import keep_showing, listed_table

    console, listing = console_for(json=False), Listing(folders)
    if watch:
        keep_showing(listing, console)
        return ()
    listed = listing.read()
    console.print(listed_table(listed, console.width))
    return listed.unreadable


def _document(folders: "Sequence[Path]") -> tuple[str, ...]:
    from nanodyno.analysis.summary import summarise
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.records.store import read_run
    from nanodyno.report.document import run_document, to_json

    documents, unreadable = [], []
    for folder in folders:
        try:
            run = read_run(folder)
        except NanodynoError as error:
            unreadable.append(error.message)
        else:
            documents.append(run_document(run, summarise(run, recall_ceilings(run.record.machine))))
    typer.echo(to_json(documents))
    return tuple(unreadable)


def _leaderboard(folders: "Sequence[Path]", json: bool) -> tuple[str, ...]:
    from nanodyno.analysis.account_reading import account_of
    from nanodyno.analysis.audit import with_found_shape
    from nanodyno.analysis.leaderboard import leaderboard, standing_of
    from nanodyno.records.store import read_run
    from nanodyno.report.document import to_json
    from nanodyno.report.leaderboard import leaderboard_document, leaderboard_page
    from nanodyno.report.page import to_terminal
    from nanodyno.report.watch import NO_RUNS

    standings, unreadable = [], []
    for folder in folders:
        try:
            standings.append(standing_of(with_found_shape(account_of(read_run(folder)))))
        except NanodynoError as error:
            unreadable.append(error.message)
    found = leaderboard(standings)
    if json:
        typer.echo(to_json(leaderboard_document(found)))
    else:
        page = to_terminal(leaderboard_page(found)) if standings else NO_RUNS
        console_for(json).print(page, highlight=False)
    return tuple(unreadable)


def _export(path: Path, names: "Sequence[str]", json: bool) -> None:
    from nanodyno.records.files import write_whole
    from nanodyno.records.result import is_result, result_text
    from nanodyno.report.document import to_json
    from nanodyno.report.exporting import export_document, export_words

    if len(names) != 1:
        raise NanodynoError(
            "--export writes the result of one run", f"name it: nanodyno runs --export {path} RUN"
        )
    if path.exists() and not is_result(path):
        raise NanodynoError(f"{path} exists and is not a result of nanodyno", "choose another file")
    result = _result(names[0])
    text = result_text(result)
    try:
        write_whole(path, text)
    except OSError as error:
        raise NanodynoError(f"cannot write {path}: {error.strerror}") from error
    if json:
        typer.echo(to_json(export_document(result, str(path), len(text.encode()))))
    else:
        words = export_words(result, str(path), len(text.encode()))
        console_for(json).print(words, highlight=False, markup=False, soft_wrap=True)


def _result(name: str) -> "ResultRecord":
    from nanodyno.analysis.result import result_of
    from nanodyno.analysis.summary import summarise
    from nanodyno.records.store import find_run, read_run

    run = read_run(find_run(name, RUNS_FOLDER))
    if not run.steps and not run.evals:
        raise NanodynoError(f"{run.name} has no iterations yet, so there is nothing to export")
    return result_of(run, summarise(run))


def _folders(names: "Sequence[str]") -> "Callable[[], list[Path]]":
    from nanodyno.records.store import find_run, run_folders

    if names:
        return lambda: [find_run(name, RUNS_FOLDER) for name in names]
    return lambda: [*run_folders(RUNS_FOLDER), *run_folders(Path())]
