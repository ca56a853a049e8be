"""`nanodyno prepare`: text to verified token shards."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.cli.options import Json, console_for, count_of
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from rich.console import Console

    from nanodyno.data.prepare.runner import Fill
    from nanodyno.report.preparation import PreparationDisplay

DATA_FOLDER = Path("data")


def prepare(  # noqa: PLR0913 - one parameter per option
    source: Annotated[
        str | None,
        typer.Argument(
            help="A dataset on the Hugging Face hub: fineweb-edu/10BT (100BT, 350BT, a dump), fineweb/... or "
            "ORG/NAME. Or a file or folder of .parquet, .jsonl (.gz, .zst) or .txt. Or python, the built-in "
            "corpus."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder (default: data/NAME of the source).")
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(help="gpt2, bytes, or any of tiktoken's encodings, such as o200k_base.")
    ] = "gpt2",
    train_bpe: Annotated[
        int | None,
        typer.Option(min=258, help="Instead, train a tokenizer with this vocabulary size on the source."),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="COUNT", help="Stop after the document that reaches it: 10B, 500M.")
    ] = None,
    text_column: Annotated[str, typer.Option(help="Column or key that holds the text.")] = "text",
    min_score: Annotated[
        float | None, typer.Option(help="Skip rows whose `score` (as in FineWeb-Edu) is lower.")
    ] = None,
    split: Annotated[
        Literal["file", "blank-lines"],
        typer.Option(help="What a document is in .txt files: a file, or the text between blank lines."),
    ] = "file",
    val: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of the documents for validation, chosen by hash.")
    ] = 0.01,
    dedup: Annotated[
        bool | None,
        typer.Option(
            "--dedup/--no-dedup",
            show_default=False,
            help="Skip documents identical to an earlier one (default: for local files only).",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip damaged files and lines, and count them.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the downloaded files.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Tokenizer threads (default: one per core).")
    ] = None,
    shard_tokens: Annotated[
        str, typer.Option(metavar="COUNT", help="Tokens per shard. The document that fills it ends it.")
    ] = "100M",
    also: Annotated[
        Literal["llm.c", "nanogpt"] | None,
        typer.Option(help="Also write the tokens in that program's format, to a folder with its name."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Distribute the files over a Ray cluster (extra `ray`)."),
    ] = None,
    verify: Annotated[
        Path | None, typer.Option(help="Check a prepared folder, and rebuild only what is damaged.")
    ] = None,
    json: Json = False,
) -> None:
    """Turn text into token shards to train on. Repeat the command to continue where it stopped.

    nanodyno prepare fineweb-edu/10BT --tokens 2.5B --out data/edu

    nanodyno prepare texts/ --tokenizer bytes --out data/texts

    nanodyno prepare --verify data/texts
    """
    from nanodyno.data.prepare.request import Choices, Destination, run_preparation, run_verification
    from nanodyno.report.document import to_json
    from nanodyno.report.preparation import (
        make_preparation_display,
        preparation_document,
        preparation_table,
    )

    choices = Choices(
        tokenizer=tokenizer,
        train_bpe=train_bpe,
        text_column=text_column,
        split=split,
        min_score=min_score,
        val=val,
        dedup=dedup,
        tokens=None if tokens is None else count_of(tokens, "--tokens"),
        shard_tokens=count_of(shard_tokens, "--shard-tokens"),
        skip_bad=skip_bad,
    )
    if also is not None and verify is None and val == 0:
        raise NanodynoError(f"--also={also} needs val tokens, and --val=0 makes none", "raise --val")
    console = console_for(json)
    display = make_preparation_display(console)
    place = Destination(_folder(source, out, verify), workers or _cores(), display, _fill(ray, display), keep)
    try:
        if verify is None:
            record = run_preparation(source or "", choices, place)
        else:
            record = run_verification(source, place, skip_bad)
    except KeyboardInterrupt:
        display.close()
        _say_how_to_go_on(place.folder)
        raise
    finally:
        display.close()
    if also is not None:
        _write_also(also, place.folder, console)
    if json:
        typer.echo(to_json(preparation_document(record)))
    else:
        console.print(preparation_table(record))
        if record.val_tokens:
            console.print(
                f"next: nanodyno train gpt2-768 --dataset={_dataset(place.folder)}", highlight=False
            )


def _dataset(folder: Path) -> str:
    """As train takes it: by its name under data/, or by its path."""
    return folder.name if folder.parent == DATA_FOLDER else str(folder)


def _folder(source: str | None, out: Path | None, verify: Path | None) -> Path:
    from nanodyno.data.prepare.request import default_folder

    if verify is not None and out is not None:
        raise NanodynoError("--out and --verify both name a folder", "use one of the two")
    if verify is None and not source:
        raise NanodynoError("there is nothing to prepare", "for example: nanodyno prepare fineweb-edu/10BT")
    return verify or out or default_folder(source or "", DATA_FOLDER)


def _fill(ray: str | None, display: "PreparationDisplay") -> "Fill":
    """Who does the work: the threads of this machine, or a cluster."""
    from functools import partial

    from nanodyno.data.prepare.pipeline import fill
    from nanodyno.records.events import Message

    if ray is None:
        return fill
    from nanodyno.data.prepare.ray import fill_on_ray

    return partial(fill_on_ray, address=ray, tell=lambda text: display(Message(text)))


def _cores() -> int:
    """The cores that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _say_how_to_go_on(folder: Path) -> None:
    typer.echo(f"finished shards in {folder} are kept; the same command continues from there", err=True)


def _write_also(program: Literal["llm.c", "nanogpt"], folder: Path, console: "Console") -> None:
    from nanodyno.data.binformats import write_llmc, write_nanogpt
    from nanodyno.data.shards import open_dataset

    write = write_llmc if program == "llm.c" else write_nanogpt
    written = write(open_dataset(folder), folder / program)
    console.print(f"wrote {len(written)} files in {program}'s format to {folder / program}", highlight=False)
