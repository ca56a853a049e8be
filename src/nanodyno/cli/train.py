"""`nanodyno train`: a run from a recipe, a TOML file or a nanoGPT config."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.cli.options import RUNS_FOLDER, Json, console_for
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from rich.console import Console

    from nanodyno.config import RunConfig
    from nanodyno.records.store import Run
    from nanodyno.report.progress import LogStyle
    from nanodyno.train.runner import Job


def _show_keys(asked: bool) -> None:
    if not asked:
        return
    from nanodyno.report.keys import keys_table

    console_for(json=False).print(keys_table())
    raise typer.Exit


def train(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|FILE.toml|FILE.py",
            help="A recipe (demo, gpt2-384, gpt2-768), a TOML file, or a nanoGPT config, which is read and "
            "never executed.",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Name of the run; its folder is runs/NAME.")] = None,
    log: Annotated[
        Literal["auto", "plain", "nanogpt"],
        typer.Option(help="auto: live on a terminal, else plain lines; nanogpt: nanoGPT's own format."),
    ] = "auto",
    json: Json = False,
    keys: Annotated[
        bool,
        typer.Option("--keys", callback=_show_keys, is_eager=True, help="List every --key and exit."),
    ] = False,
) -> None:
    """Train a GPT. Any setting is changed with --key=value, under nanoGPT's names.

    nanodyno train demo --max_iters=50

    nanodyno train gpt2-768 --batch_size=4 --tokens_per_iter=524288 --dataset=data/fineweb-edu

    nanodyno train config/train_gpt2.py --compile=False
    """
    del keys
    if source.startswith("-"):
        raise NanodynoError(
            f"the recipe or file comes before {source}", "for example: nanodyno train demo --max_iters=50"
        )
    from nanodyno.config import build_config
    from nanodyno.recipes import load_settings, override, parse_overrides

    settings = override(load_settings(source), parse_overrides(context.args))
    config = build_config(settings.values)
    folder = run_folder(config, name, settings.name)
    notes = tuple(f"accepted and ignored: {key}" for key in settings.ignored)

    from nanodyno.train.runner import Job

    job = Job(config, folder.name, folder, ("nanodyno", *sys.argv[1:]), notes)
    _show(_train(job, log, console_for(json)), log, json)


def _train(job: "Job", log: "LogStyle", console: "Console") -> "Run":
    """Trains and reads back; a look at a saved run, which records nothing, comes with what it just saw."""
    from nanodyno.records.events import Event
    from nanodyno.records.store import read_run
    from nanodyno.records.types import EvalRecord
    from nanodyno.report.progress import make_display
    from nanodyno.train.runner import run_training

    display = make_display(log, console)
    evals: list[EvalRecord] = []

    def watch(event: Event) -> None:
        if isinstance(event, EvalRecord):
            evals.append(event)
        display(event)

    try:
        run_training(job, watch)
    except KeyboardInterrupt:
        display.close()
        console_for(json=True).print(_where_it_stands(job.folder), highlight=False, markup=False)
        raise
    finally:
        display.close()
    run = read_run(job.folder)
    return replace(run, evals=tuple(evals)) if job.config.eval_only else run


def _show(run: "Run", log: "LogStyle", json: bool) -> None:
    from nanodyno.analysis.summary import summarise
    from nanodyno.report.document import run_document, to_json
    from nanodyno.report.runs import run_page

    summary = summarise(run)
    if json:
        typer.echo(to_json(run_document(run, summary)))
    elif log != "nanogpt":
        console = console_for(json)
        console.print()
        console.print(run_page(run, summary, console.width))


def run_folder(config: "RunConfig", name: str | None, recipe: str) -> Path:
    """out_dir as in nanoGPT, else runs/NAME, else the recipe's name and the next free number."""
    if config.out_dir is not None:
        if name is not None and RUNS_FOLDER / name != Path(config.out_dir):
            raise NanodynoError("--name and --out_dir name two folders", "give one of them")
        return Path(config.out_dir)
    if name is not None:
        if Path(name).name != name or name in ("", ".", ".."):
            raise NanodynoError(f"--name={name} is not a plain name", "for a path use --out_dir")
        return RUNS_FOLDER / name
    if config.init_from == "resume":
        raise NanodynoError("init_from=resume, but which run?", "name it with --name or --out_dir")
    return next_folder(recipe)


def next_folder(stem: str) -> Path:
    number = 1
    while (RUNS_FOLDER / f"{stem}-{number}").exists():
        number += 1
    return RUNS_FOLDER / f"{stem}-{number}"


def _where_it_stands(folder: Path) -> str:
    """What Ctrl-C leaves behind, and how to go on."""
    from nanodyno.records.store import CHECKPOINTS_FOLDER, RUN_FILE
    from nanodyno.train import checkpoint

    if not (folder / RUN_FILE).exists():
        return "nothing was recorded yet"
    try:
        saved = checkpoint.newest(folder / CHECKPOINTS_FOLDER)
    except NanodynoError:
        return f"the records are in {folder}; no checkpoint was saved yet, so there is nothing to go on from"
    return (
        f"the records are in {folder}; to go on from its checkpoint at iteration {saved.progress.iteration}, "
        f"give the same command with --out_dir={folder} --init_from=resume"
    )
