"""`nanodyno tune`: the fastest micro-batch and switches for this machine, at the same effective batch."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.cli.options import (
    INTERRUPTED,
    RUNS_FOLDER,
    Everything,
    Json,
    Lang,
    assumed_note,
    bytes_of,
    console_for,
    language_of,
    note_former_names,
    print_page,
    seconds_of,
)
from nanodyno.cli.reporting import FormatOption, Html, Open, Out, ReportOptions, deliver
from nanodyno.cli.tuned_file import how_to_train, refuse_unwritable_toml, toml_text, write_tuned
from nanodyno.errors import NanodynoError, RunFailed

if TYPE_CHECKING:
    from nanodyno.analysis.candidates import TuneRequest
    from nanodyno.analysis.tuning import Tuning
    from nanodyno.experiments.tune import TuneBench
    from nanodyno.inputs import Request
    from nanodyno.messages.language import Language
    from nanodyno.report.page import Page

DEFAULT_BUDGET = "5m"


def tune(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|FILE.toml|FILE.py|RUN",
            help="Config to tune: as for train, or a run. --key=value changes a setting.",
        ),
    ],
    budget: Annotated[
        str,
        typer.Option(metavar="TIME", help="Time for the whole search: 90s, 5m, 1h."),
    ] = DEFAULT_BUDGET,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Emulate a smaller GPU, context included: 12GB is one sold as 12 GB, or 11.2GiB.",
        ),
    ] = None,
    allow: Annotated[
        Literal["different"] | None,
        typer.Option(help="different: also try fp8, bfloat16 moments and a bfloat16 residual stream."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Write the tuned config, for `nanodyno train FILE.toml`."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again instead of reusing an earlier search.")
    ] = False,
    effective_batch: Annotated[
        bool,
        typer.Option(
            "--critical-batch-size",
            help="Instead, recommend tokens per iteration from the gradient noise: of a recorded run, or "
            "of a short training run of a config.",
        ),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Distribute probes over a Ray cluster of equal GPUs: auto or HOST:PORT."
        ),
    ] = None,
    everything: Everything = False,
    html: Html = None,
    opened: Open = False,
    form: FormatOption = None,
    out: Out = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Find the fastest micro-batch and switches for this machine, at the same tokens per iteration.

    nanodyno tune gpt2-768 --write tuned.toml

    nanodyno tune gpt2-768 --memory-limit 12GB --budget 10m

    nanodyno tune demo --device=cpu --budget 1m

    nanodyno tune gpt2-768-1 --critical-batch-size

    Only switches that keep the results (except rounding) are tried. Settings given by --key=value are kept.

    Ctrl-C shows the results so far. The same command continues from there.
    """
    if source.startswith("-"):
        raise NanodynoError(f"a config must come before {source}", "for example: nanodyno tune gpt2-768")
    wanted = ReportOptions(html, opened, form, out, lang, json)
    if effective_batch:
        _refuse_with_effective_batch(memory_limit, allow, write, again, ray)

        from nanodyno.cli.effective import tune_effective_batch

        return tune_effective_batch(source, context.args, budget, wanted)

    from nanodyno.inputs import resolve

    language = language_of(lang, json)
    request = resolve(source, context.args, RUNS_FOLDER)
    note_former_names(request.arguments, request.given.renamed)
    asked = tune_request(
        request,
        budget,
        memory_limit_bytes=None if memory_limit is None else bytes_of(memory_limit, "--memory-limit"),
        allow_different=allow == "different",
        again=again,
    )
    for note in assumed_note(request, language):
        typer.echo(note, err=True)
    if write is not None:
        refuse_unwritable_toml(write)
    tuning = tuned(asked, json, language, ray)
    changes = changes_of(tuning)
    after = with_changes(request, changes)
    if json:
        _print_document(tuning, changes)
    elif not wanted.takes_stdout:
        options = {"--budget": budget, "--memory-limit": memory_limit, "--allow": allow, "--ray": ray}
        how = how_to_train(request, after, options, write)
        _show(tuning, request.name, how, language, everything)
    deliver(wanted, lambda language: _report(tuning, request.name, language))
    if write is not None and tuning.chosen is not None:
        write_tuned(write, toml_text(after.settings, tuning, request.name))
    _end(tuning)
    return None


def _end(tuning: "Tuning") -> None:
    if tuning.interrupted:
        raise typer.Exit(INTERRUPTED)
    if tuning.pick is None:
        raise typer.Exit(1)


def _refuse_with_effective_batch(*others: object) -> None:
    if any(others):
        raise NanodynoError(
            "--critical-batch-size measures gradients, and no speed: --memory-limit, --allow, --write, "
            "--again "
            "and --ray do not apply",
            "leave them out",
        )


def tune_request(
    request: "Request",
    budget: str = DEFAULT_BUDGET,
    *,
    memory_limit_bytes: int | None = None,
    allow_different: bool = False,
    held: frozenset[str] | None = None,
    again: bool = False,
) -> "TuneRequest":
    """A search over a request's config; `held` settings stay as they are, by default all that were typed."""
    from nanodyno.analysis.candidates import TuneRequest

    seconds = seconds_of(budget)
    if seconds is None:
        raise NanodynoError("--budget=off would search without end", "give --budget a time, such as 5m")
    return TuneRequest(
        config=request.config,
        vocab_size=request.vocabulary.model,
        budget_seconds=seconds,
        memory_limit_bytes=memory_limit_bytes,
        allow_different=allow_different,
        held=(frozenset(request.typed) if held is None else held) - {"batch_size"},
        again=again,
        notes=request.vocabulary.notes,
    )


def tuned(
    asked: "TuneRequest", json: bool, language: "Language | None" = None, ray: str | None = None
) -> "Tuning":
    """Searches with a display, which is in English where no language is given."""
    from nanodyno.experiments.tune import tune as search
    from nanodyno.messages.language import ENGLISH
    from nanodyno.report.tuning import make_tune_display

    console = console_for(json or not sys.stdout.isatty())
    display = make_tune_display(console, asked.budget_seconds, language or ENGLISH)
    try:
        return search(asked, display, bench_for(ray))
    finally:
        display.close()


def tuned_for_training(request: "Request", json: bool) -> "Request":
    """The request with what an earlier search found here, or a search now; either is reported."""
    from nanodyno.analysis.tuning import rows_of
    from nanodyno.experiments.tune import recall, tuned_settings
    from nanodyno.report.progress import say
    from nanodyno.report.tune import verdict_lines

    asked, console = tune_request(request), console_for(json=True)
    known, whence = recall(asked, bench_for(None)), " by an earlier search"
    if known is None:
        say(
            console,
            f"no tuning of this config is known on this machine: first a search, {DEFAULT_BUDGET} at most",
        )
        tuning = tuned(asked, json)
        for line, style in verdict_lines(tuning, rows_of(tuning)):
            say(console, line, style)
        if tuning.interrupted:
            raise typer.Exit(INTERRUPTED)
        if tuning.chosen is None:
            raise RunFailed("tune found nothing to train with", "leave --tune out, or see `nanodyno tune`")
        known, whence = tuning.chosen.config, ""
    changes = tuned_settings(asked.config, known)
    words = " ".join(f"--{key}={value}" for key, value in changes.items()) or "as it is"
    say(console, f"tuned for this machine{whence}: {words}")
    return with_changes(request, changes)


def with_changes(request: "Request", changes: dict[str, object]) -> "Request":
    """Tokens per iteration and per evaluation stay, though they may have been given in micro-batches."""
    config = request.config
    kept: dict[str, object] = {"tokens_per_iter": config.tokens_per_iter}
    if config.eval_iters is not None:
        kept["eval_tokens"] = config.eval_tokens
    return request.changed(changes | kept)


def changes_of(tuning: "Tuning | None") -> dict[str, object]:
    """The settings that a search chose; none where there was no time to find out."""
    from nanodyno.experiments.tune import tuned_settings

    if tuning is None or tuning.chosen is None:
        return {}
    return tuned_settings(tuning.asked, tuning.chosen.config)


def bench_for(ray: str | None) -> "TuneBench | None":
    if ray is None:
        return None
    from nanodyno.experiments.cluster import ray_bench

    return ray_bench(ray)


def _print_document(tuning: "Tuning", changes: dict[str, object]) -> None:
    from nanodyno.report.document import to_json
    from nanodyno.report.tune import tune_document

    typer.echo(to_json(tune_document(tuning, changes)))


def _show(tuning: "Tuning", name: str, how: str, language: "Language", everything: bool) -> None:
    """The command on a line of its own, however long: it is to be copied."""
    from nanodyno.report.tune import tune_body, tune_head

    console = console_for(json=False)
    print_page(tune_head(tuning, name, language, everything), console, language)
    if tuning.chosen is not None:
        words = language.say("tune.next.train-command", command=how)
        console.print(words, highlight=False, markup=False, soft_wrap=True)
    print_page(tune_body(tuning, console.width, language, everything), console, language)


def _report(tuning: "Tuning", name: str, language: "Language") -> "Page":
    from nanodyno.report.pages.tune import tune_report

    return tune_report(tuning, name, language)
