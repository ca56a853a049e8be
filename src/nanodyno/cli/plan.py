"""`nanodyno plan`: before running, on any GPU: does it fit, how fast, how long, what it costs."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import (
    RUNS_FOLDER,
    Everything,
    Json,
    Lang,
    assumed_note,
    bytes_of,
    console_for,
    count_of,
    language_of,
    print_page,
    watts_of,
)
from nanodyno.cli.reporting import FormatOption, Html, Open, Out, ReportOptions, deliver
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nanodyno.inputs import Request
    from nanodyno.messages.language import Language

MOST_HOURS = 1e6
LEAST_POWER, MOST_POWER = 0.25, 1.3
"""Shares of its own power that a GPU can be limited to, generously."""


def plan(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE|FILE.toml|FILE.py|RUN",
            help="Config to plan: as for train, or a run. --key=value changes a setting.",
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of any GPU, owned or not (default: the one in this machine)."
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="GPU memory for training, with the CUDA context. 8GB is what a GPU sold as 8 GB shows. 8GiB "
            "is 8 GiB. Works with and without --gpu.",
        ),
    ] = None,
    power_limit: Annotated[
        str | None,
        typer.Option(metavar="WATTS", help="Power limit of the GPU: 150 (default: the one it is sold with)."),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="Training tokens: 10B, 300M, 2.5e9 (default: from the config's max_iters)."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            min=0.0,
            max=MOST_HOURS,
            help="Training time. Predicts how many tokens fit in it.",
        ),
    ] = None,
    price_kwh: Annotated[float | None, typer.Option(min=0.0, help="Price of a kilowatt-hour.")] = None,
    price_hour: Annotated[float | None, typer.Option(min=0.0, help="Rent of the GPU per hour.")] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Results and ceilings of such a GPU, from `runs --export` and `doctor --export`.",
        ),
    ] = None,
    gpus: Annotated[bool, typer.Option("--gpus", help="List every GPU that --gpu knows, and exit.")] = False,
    html: Html = None,
    opened: Open = False,
    everything: Everything = False,
    form: FormatOption = None,
    out: Out = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Predict before training: whether it fits, how fast it is, how long it takes and what it costs.

    nanodyno plan gpt2-768 --gpu "RTX 3060 12GB"

    nanodyno plan gpt2-768 --batch_size=32 --gpu H200 --memory-limit 12GB --tokens 10B --price-kwh 0.30

    nanodyno plan gpt2-768 --gpu "RTX 4070" --hours 48

    nanodyno plan best-8h --gpu "RTX 4070"

    nanodyno plan gpt2-768 --gpu "RTX 4070" --measured their-result.json

    nanodyno plan --gpus

    The table compares micro-batches at the same batch size in tokens.

    Nothing is trained. For the GPU in this machine, predictions use what `nanodyno doctor` measured.

    Speed, hours, energy and money have 80% prediction intervals. The page says what they rest on.
    """
    language = language_of(lang, json)
    if gpus:
        return _show_gpus(json, language)
    if source is None or source.startswith("-"):
        raise NanodynoError(
            f"a config must come before {source or 'the options'}",
            "for example: nanodyno plan gpt2-768 --gpu H200",
        )
    wanted = ReportOptions(html, opened, form, out, lang, json)
    _refuse_contradictions(tokens, hours)
    _refuse_endless({"--price-kwh": price_kwh, "--price-hour": price_hour})
    limit = None if memory_limit is None else bytes_of(memory_limit, "--memory-limit")

    from nanodyno.analysis.rates import Begun, lengths_for
    from nanodyno.costs.plan import PlanRequest, make_plan
    from nanodyno.inputs import resolve
    from nanodyno.recipes import changed, wants_found_rate
    from nanodyno.report.pages.plan import plan_report
    from nanodyno.report.plan import plan_document, plan_page, short_page
    from nanodyno.report.plan_facts import PlanSource

    watts = None if power_limit is None else watts_of(power_limit, "--power-limit")
    asked = resolve(source, context.args, RUNS_FOLDER, gpu=gpu, memory_limit_bytes=limit)
    if watts is not None:
        asked = _with_power_limit(asked, watts)
    if measured is not None:
        asked = _with_measured(asked, measured)
    asked, hours = _of_that_length(asked, tokens, hours)
    request = asked.at_any_rate()
    config, vocabulary = request.config, request.vocabulary
    number = None if tokens is None else count_of(tokens, "--tokens")
    ahead = PlanRequest(number, hours, price_kwh, price_hour)
    planned = make_plan(config, vocabulary.model, vocabulary.data, request.target, ahead)
    notes = (
        *assumed_note(request, language),
        *_without_effect(request, language),
        *_of_data(request, None if request.choice is None else planned.bill.tokens, language),
    )
    shown = PlanSource(
        name=request.name,
        changed=changed(asked.own, asked.given),
        warmup_iters=config.warmup_iters,
        notes=notes,
        ramp=config.ramp,
        choice=request.choice,
        config=config,
        range_test=Begun(lengths_for(planned.bill.max_iters)) if wants_found_rate(asked.given) else None,
    )
    if json:
        from nanodyno.report.document import to_json

        typer.echo(to_json(plan_document(planned, shown)))
        for note in notes:
            typer.echo(note, err=True)
    elif not wanted.takes_stdout:
        console = console_for(json)
        page = (plan_page if everything else short_page)(planned, shown, console.width, language)
        print_page(page, console, language)
    deliver(wanted, lambda language: plan_report(planned, shown, language))
    return None


def _with_power_limit(request: "Request", watts: float) -> "Request":
    """Refuse what no such GPU can be set to."""
    gpu = request.target.gpu
    if gpu is None:
        raise NanodynoError(
            "--power-limit is about a GPU in the table, and there is none", "name one with --gpu"
        )
    least, most = LEAST_POWER * gpu.tdp_watts, MOST_POWER * gpu.tdp_watts
    if not least <= watts <= most:
        raise NanodynoError(
            f"--power-limit={watts:g} is not a limit for a {gpu.label} of {gpu.tdp_watts:g} W",
            f"give {math.ceil(least)} to {math.floor(most)} W",
        )
    return replace(request, power_limit_watts=watts)


def _with_measured(request: "Request", path: Path) -> "Request":
    """Take what was measured of the GPU that the plan is for. Files passed over are named on stderr."""
    from nanodyno.analysis.known_speeds import measurements_of
    from nanodyno.records.measured import read_measured

    target = request.target
    if target.name is None:
        raise NanodynoError("--measured is about a GPU, and there is none", "name one with --gpu")
    files = read_measured(path)
    found = measurements_of(files)
    for message in files.damaged:
        typer.echo(f"note: passed over: {message}", err=True)
    for name in found.unused:
        typer.echo(f"note: passed over: {name} has no speed to compare (see docs/result.md)", err=True)
    if not found.include(target):
        known = ", ".join(found.gpus) or "no GPU"
        raise NanodynoError(
            f"{path} has no measurement of {target.name}",
            f"it has: {known}. Leave --measured out, or add one",
        )
    return replace(request, measured=found)


def _without_effect(request: "Request", language: "Language") -> "Iterator[str]":
    from nanodyno.config.idle import idle_settings
    from nanodyno.recipes import former_names
    from nanodyno.report.idle import idle_notes, renamed_notes

    renamed = (*request.settings.renamed, *former_names(request.arguments))
    yield from renamed_notes(renamed, language)
    yield from idle_notes(idle_settings(request.config, request.settings.assumed), language)


def _of_data(request: "Request", reported_for: int | None, language: "Language") -> "Iterator[str]":
    from nanodyno.report.sizing import data_notes, refused_note

    vocabulary = request.vocabulary
    there, refused = vocabulary.train_tokens, vocabulary.refused
    if refused is not None:
        yield refused_note(refused, language)
    assumed = vocabulary.data if vocabulary.assumed and refused is None else None
    dataset = request.config.dataset
    yield from data_notes(dataset, assumed, there, reported_for, language, vocabulary.estimated)


def _show_gpus(json: bool, language: "Language") -> None:
    from nanodyno.hardware.gpus import all_gpus
    from nanodyno.report.document import to_json
    from nanodyno.report.gpus import gpus_document, gpus_table

    if json:
        typer.echo(to_json(gpus_document(all_gpus())))
    else:
        print_page(gpus_table(all_gpus(), language), console_for(json), language)


def _refuse_contradictions(tokens: str | None, hours: float | None) -> None:
    if tokens is not None and hours is not None:
        raise NanodynoError("--tokens and --hours both set the length of training", "use one of the two")
    if hours == 0:
        raise NanodynoError("--hours=0 leaves no time to train", "for example 48, or 0.5")


def _of_that_length(
    request: "Request", tokens: str | None, hours: float | None
) -> "tuple[Request, float | None]":
    """A recipe for so many hours is made for those that are asked for."""
    given = request.given
    if given.hours is None:
        return request, hours
    if tokens is not None:
        raise NanodynoError(
            f"{request.name} has a time budget, which sets the number of tokens",
            "use --hours instead of --tokens",
        )
    from nanodyno.recipes.settings import hours_of

    made_for = given.hours if hours is None else hours_of(hours)
    return replace(request, given=replace(given, hours=made_for)), None


def _refuse_endless(prices: dict[str, float | None]) -> None:
    for option, price in prices.items():
        if price is not None and not math.isfinite(price):
            raise NanodynoError(f"{option}={price} is not a price", "for example 0.30")
