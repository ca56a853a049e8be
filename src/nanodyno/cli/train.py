"""`nanodyno train`: a run from a recipe, a TOML file or a nanoGPT config; or one gone on with."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.cli.options import INTERRUPTED, RUNS_FOLDER, Json, console_for, seconds_of, time_of
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nanodyno.config import RunConfig
    from nanodyno.inputs import Request
    from nanodyno.records.store import Run
    from nanodyno.records.types import StopReason
    from nanodyno.report.progress import LogStyle
    from nanodyno.train.job import TrainingJob


def _show_keys(asked: bool) -> None:
    if not asked:
        return
    from nanodyno.report.keys import keys_table

    console_for(json=False).print(keys_table())
    raise typer.Exit


def train(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE|FILE.toml|FILE.py",
            help="A recipe (demo, gpt2-384, gpt2-768, best-1h, best-8h, best-weekend, speedrun-124m), a TOML "
            "file, or a nanoGPT config, which is read and never executed.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run. Its folder is runs/NAME.")] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Resume this run, a name under runs/ or a path, bit for bit."),
    ] = None,
    max_hours: Annotated[
        float | None,
        typer.Option(min=0.0, help="Save and stop after this process has run for so many hours."),
    ] = None,
    stop_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Save and stop at 07:30, or at 2026-11-16T07:30, local time."),
    ] = None,
    autosave: Annotated[
        str, typer.Option(metavar="TIME", help="Save this often, besides at evaluations; off for never.")
    ] = "15m",
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="First find the fastest micro-batch and switches for this machine, unless they are known.",
        ),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Train in the background; `nanodyno runs --watch` shows it.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Start even if the predicted memory does not fit.")
    ] = False,
    log: Annotated[
        Literal["auto", "plain", "full", "nanogpt"],
        typer.Option(
            help="auto: live on a terminal, else short lines; plain: short lines; full: all numbers; "
            "nanogpt: nanoGPT's own format."
        ),
    ] = "auto",
    json: Json = False,
    keys: Annotated[
        bool,
        typer.Option("--keys", callback=_show_keys, is_eager=True, help="List every --key and exit."),
    ] = False,
) -> None:
    """Train a GPT. Change any setting with --key=value, by nanoGPT's names.

    nanodyno train demo --max_iters=50

    nanodyno train gpt2-768 --batch_size=4 --tokens_per_iter=524288 --dataset=edu

    nanodyno train config/train_gpt2.py --compile=False

    nanodyno train best-8h --dataset=edu

    A run that was stopped or killed resumes from its last checkpoint: repeat the command, or use

    nanodyno train --resume gpt2-768-1

    Ctrl-C or `kill` finishes the iteration and saves. With several GPUs:

    torchrun --nproc_per_node=2 -m nanodyno train ...
    """
    del keys
    request = _request(source, resume, context.args)
    chosen = _choice_note(request)
    if tune:
        request = _tuned(request, resume, json)

    from nanodyno.cli.rates import with_found_rate
    from nanodyno.train.job import TrainingJob
    from nanodyno.train.processes import is_first
    from nanodyno.train.stops import Limits

    request, found = with_found_rate(request)
    config = request.config
    limits = Limits(
        max_seconds=None if max_hours is None else max_hours * 3600,
        stop_at=None if stop_at is None else time_of(stop_at),
        autosave_seconds=seconds_of(autosave),
    )
    notes = (*chosen, *found, *_without_effect(request))
    if resume and name is not None:
        raise NanodynoError("--resume and --name both name a run", "use one of the two")
    folder = run_folder(config, name, request.name) if resume or is_first() else Path()
    if detach:
        from nanodyno.cli.detach import train_in_background

        return train_in_background(folder, sys.argv[1:], json)
    job = TrainingJob(
        config, folder.name, folder, ("nanodyno", *sys.argv[1:]), notes, limits=limits, force=force
    )
    if is_first():
        return _train(job, log, json)
    from nanodyno.train.runner import run_training

    run_training(job, lambda _: None)
    return None


def _without_effect(request: "Request") -> "Iterator[str]":
    from nanodyno.config.idle import idle_settings
    from nanodyno.recipes import former_names
    from nanodyno.report.idle import idle_notes, renamed_notes
    from nanodyno.train.processes import launched_count

    yield from (f"accepted and ignored: {key}" for key in request.settings.ignored)
    yield from renamed_notes((*request.settings.renamed, *former_names(request.arguments)))
    yield from idle_notes(idle_settings(request.config, request.settings.assumed, launched_count()))


def _request(source: str | None, resume: str | None, arguments: list[str]) -> "Request":
    from nanodyno.inputs import resolve, resolve_resumed

    if resume:
        return resolve_resumed(resume, source, arguments, RUNS_FOLDER)
    if source is None or source.startswith("-"):
        raise NanodynoError(
            f"the recipe or file must come before {source or 'everything else'}",
            "for example: nanodyno train demo --max_iters=50",
        )
    request = resolve(source, arguments, RUNS_FOLDER, takes_runs=False)
    if request.given.hours is None:
        return request
    from nanodyno.train.processes import launched

    if launched():
        raise NanodynoError(
            f"{request.name} is made for one GPU, and this is one of several processes",
            "start it without torchrun, or put its settings in a file of your own",
        )
    return request


def _choice_note(request: "Request") -> tuple[str, ...]:
    """What was chosen for the GPU at hand, to be noted in the run."""
    if request.choice is None:
        return ()
    from nanodyno.report.sizing import choice_note

    return (choice_note(request.choice, request.name, request.target.name),)


def _tuned(request: "Request", resume: str | None, json: bool) -> "Request":
    from nanodyno.cli.tune import tuned_for_training
    from nanodyno.train.processes import launched

    if resume is not None:
        raise NanodynoError(
            "--resume and --tune exclude each other: a run resumes with its own settings",
            "use one of the two",
        )
    if launched():
        raise NanodynoError(
            "--tune works with one process only",
            "tune first: nanodyno tune CONFIG --write tuned.toml; then train that",
        )
    return tuned_for_training(request, json)


def _train(job: "TrainingJob", log: "LogStyle", json: bool) -> None:
    """Trains and shows; a look at a saved run, which records nothing, comes with what it just saw."""
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.records.events import RunEvent
    from nanodyno.records.lock import remove_if_unused
    from nanodyno.records.store import RUN_FILE, read_run
    from nanodyno.records.types import EvalRecord
    from nanodyno.report.progress import make_display
    from nanodyno.train.runner import run_training

    console = console_for(json)
    display = make_display(log, console, recall_ceilings)
    evals: list[EvalRecord] = []

    def watch(event: RunEvent) -> None:
        if isinstance(event, EvalRecord):
            evals.append(event)
        with suppress(
            OSError
        ):  # a terminal that went away, a log on a full disk: the run outlives its reader
            display(event)

    try:
        reason = run_training(job, watch)
    except KeyboardInterrupt:
        display.close()
        console_for(json=True).print(_where_it_stands(job.folder), highlight=False, markup=False)
        raise
    finally:
        display.close()
        remove_if_unused(job.folder)
    if not (job.folder / RUN_FILE).exists():  # stopped before there was anything to keep
        raise typer.Exit(INTERRUPTED if reason == "interrupted" else 0)
    run = read_run(job.folder)
    _show(replace(run, evals=tuple(evals)) if job.config.eval_only else run, reason, log, json)


def _show(run: "Run", reason: "StopReason", log: "LogStyle", json: bool) -> None:
    from nanodyno.analysis.summary import summarise
    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.report.document import run_document, to_json
    from nanodyno.report.runs import run_page

    summary = summarise(run, recall_ceilings(run.record.machine))
    if json:
        typer.echo(to_json(run_document(run, summary)))
    if reason == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if not json and log != "nanogpt":
        console = console_for(json)
        console.print()
        console.print(run_page(run, summary, console.width))


def run_folder(config: "RunConfig", name: str | None, recipe: str) -> Path:
    """out_dir as in nanoGPT, else runs/NAME, else the recipe's name and a number.

    Without a name, the run that the same settings have left unfinished is resumed.
    """
    if config.out_dir is not None:
        if name is not None and RUNS_FOLDER / name != Path(config.out_dir):
            raise NanodynoError("--name and --out_dir both name a folder", "use one of the two")
        return Path(config.out_dir)
    if name is not None:
        if Path(name).name != name or name in ("", ".", ".."):
            raise NanodynoError(f"--name={name} must be a plain name", "for a path use --out_dir")
        return RUNS_FOLDER / name
    if config.init_from == "resume":
        raise NanodynoError("init_from=resume, but which run?", "name it with --name or --out_dir")
    from nanodyno.records.writer import claim_folder
    from nanodyno.train.resuming import unfinished

    return unfinished(RUNS_FOLDER, recipe, config) or claim_folder(RUNS_FOLDER / recipe)


def _where_it_stands(folder: Path) -> str:
    """What a stop at once leaves behind, and how to go on."""
    from nanodyno.analysis.state import saved_iteration
    from nanodyno.records.store import RUN_FILE, read_history

    if not (folder / RUN_FILE).exists():
        return "nothing was recorded yet"
    saved = saved_iteration(read_history(folder))
    where = f"its checkpoint at iteration {saved}" if saved else "its start, because nothing was saved yet"
    return f"the records are in {folder}; the same command resumes from {where}"
