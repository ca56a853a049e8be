"""`nanodyno tune --critical-batch-size`: what tokens_per_iter the gradient noise calls for."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from nanodyno.cli.options import (
    INTERRUPTED,
    RUNS_FOLDER,
    console_for,
    language_of,
    note_former_names,
    print_page,
    seconds_of,
)
from nanodyno.cli.reporting import ReportOptions, deliver
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.effective import BatchSizeAdvice
    from nanodyno.config import RunConfig
    from nanodyno.records.types import StepRecord
    from nanodyno.report.effective import NoiseScaleSource


def tune_effective_batch(source: str, arguments: list[str], budget: str, wanted: ReportOptions) -> None:
    """From the records of a run, or from a short training of a config."""
    seconds = seconds_of(budget)
    if seconds is None:
        raise NanodynoError(f"--budget={budget} would train without end", "give it a time, such as 5m")
    found = _of_a_run(source, arguments)
    asked, steps, config, interrupted = found or _of_a_config(source, arguments, seconds)

    from nanodyno.analysis.effective import advise_batch

    advice = advise_batch(steps, config)
    _show(asked, advice, wanted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if advice.critical_batch_range is None:
        raise typer.Exit(1)


def _show(asked: "NoiseScaleSource", advice: "BatchSizeAdvice", wanted: ReportOptions) -> None:
    from nanodyno.report.document import to_json
    from nanodyno.report.effective import effective_document, effective_page
    from nanodyno.report.pages.effective import effective_report

    if wanted.json:
        typer.echo(to_json(effective_document(asked, advice)))
    elif not wanted.takes_stdout:
        console, language = console_for(json=False), language_of(wanted.lang)
        print_page(effective_page(asked, advice, language), console, language)
    deliver(wanted, lambda language: effective_report(asked, advice, language))


def _of_a_run(
    source: str, arguments: list[str]
) -> "tuple[NoiseScaleSource, list[StepRecord], RunConfig, bool] | None":
    from nanodyno.records.store import known_run, read_run
    from nanodyno.report.effective import NoiseScaleSource

    folder = known_run(source, RUNS_FOLDER)
    if folder is None:
        return None
    if arguments:
        raise NanodynoError(
            f"{source} is a finished record, so {' '.join(arguments)} cannot change it",
            "leave that out, or give a recipe or file for a short training",
        )
    run = read_run(folder)
    config, steps = run.own.config, list(run.own_steps)
    asked = NoiseScaleSource(run.name, "records", len(steps), sum(step.tokens for step in steps))
    return asked, steps, config, False


def _of_a_config(
    source: str, arguments: list[str], seconds: float
) -> "tuple[NoiseScaleSource, list[StepRecord], RunConfig, bool]":
    from nanodyno.experiments.effective import measurable, short_training
    from nanodyno.inputs import resolve
    from nanodyno.recipes import override, wants_found_rate
    from nanodyno.report.effective import NoiseScaleSource
    from nanodyno.report.progress import say

    request = resolve(source, arguments, RUNS_FOLDER, takes_runs=False)
    note_former_names(request.arguments, request.given.renamed)
    found, own = wants_found_rate(request.given), request.own.values.get("learning_rate")
    if found and own is not None:
        request = replace(request, given=override(request.given, {"learning_rate": own}))
    config = request.at_any_rate().config
    trained = measurable(config)
    console = console_for(json=True)
    if found:
        say(console, f"learning_rate=auto: this short training run uses {config.learning_rate:g}")
    if trained != config:
        say(
            console,
            f"using micro-batches of {trained.batch_size}, because the noise needs at least two micro-steps",
        )
    steps, interrupted = short_training(trained, seconds, lambda text: say(console, text))
    asked = NoiseScaleSource(request.name, "short-training", len(steps), sum(step.tokens for step in steps))
    return asked, steps, config, interrupted
