"""`nanodyno import`: the log of another program made into a run."""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for, note_former_names
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.records.imported import AnyRecord


def import_log(  # noqa: PLR0913 - one parameter per option
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A log or the parts of one, and optionally its config."),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the run under runs/ (default: from the first log).")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE|FILE", help="Config it was started with. What that leaves out stays unknown."
        ),
    ] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="GPU that it ran on.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting that the log does not report. Repeatable."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a run that was imported before.")
    ] = False,
    json: Json = False,
) -> None:
    """Import another program's log as a run: nanoGPT, llm.c, modded-nanogpt, Hugging Face Trainer, Lightning,
    litgpt, TensorBoard, CSV.

    Logs of nanochat, autoresearch and build-nanogpt work too.

    So do results that `nanodyno runs --export` wrote.

    nanodyno import train1.log --gpu "RTX 4070" --set n_layer=12

    nanodyno import part1.log part2.log config/train_gpt2.py --name gpt2

    What the log does not report stays unknown. The files themselves are not changed.

    Speeds leave out iterations that took longer because of an evaluation, a checkpoint or compilation.
    """
    from nanodyno.recipes import parse_set
    from nanodyno.records.importers.joining import ImportRequest, import_run
    from nanodyno.report.document import to_json
    from nanodyno.report.importing import import_document, import_page, make_import_display

    request = ImportRequest(
        files=tuple(files),
        folder=RUNS_FOLDER / _name(name, files),
        command=("nanodyno", *sys.argv[1:]),
        config=config,
        gpu=gpu,
        settings=parse_set(set_ or []),
        replace=replace,
    )
    note_former_names([f"--{each}" for each in set_ or []])
    console = console_for(json)
    with make_import_display(console, files) as watch:
        imported = import_run(request, watch)
    if json:
        typer.echo(to_json(import_document(imported)))
    else:
        console.print(import_page(imported, _other_run(imported.folder)))


def _other_run(folder: Path) -> str | None:
    """The newest besides it that is not known to be of other data, to compare it with."""
    from nanodyno.records.store import read_any_record, run_folders

    data = _dataset(read_any_record(folder))
    for other in reversed(run_folders(RUNS_FOLDER)):
        if other == folder:
            continue
        with suppress(NanodynoError):  # a damaged one
            theirs = _dataset(read_any_record(other))
            if data == theirs or None in (data, theirs):
                return other.name
    return None


def _dataset(record: "AnyRecord") -> object:
    from nanodyno.records.imported import ImportedRecord

    return record.settings.get("dataset") if isinstance(record, ImportedRecord) else record.config.dataset


def _name(name: str | None, files: list[Path]) -> str:
    if name is None:
        log = next((path for path in files if path.suffix not in (".py", ".toml", ".yaml", ".yml")), files[0])
        return re.sub(r"[^\w.-]+", "-", log.stem).strip(".-")[:80] or "imported"
    if Path(name).name != name or name in ("", ".", "..") or not name.isprintable() or len(name) > 200:
        raise NanodynoError(f"--name={name!r} must be a plain name", "use letters, digits, - and _")
    return name
