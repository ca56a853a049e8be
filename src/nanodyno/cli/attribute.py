"""`nanodyno attribute`: the effect of each change between two configs, by measuring combinations."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.cli.options import (
    INTERRUPTED,
    RUNS_FOLDER,
    Everything,
    Json,
    Lang,
    bytes_of,
    console_for,
    language_of,
    note_former_names,
    print_page,
    seconds_of,
)
from nanodyno.cli.reporting import FormatOption, Html, Open, Out, ReportOptions, deliver
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.attribution import Attribution
    from nanodyno.experiments.attribute import Inquiry
    from nanodyno.experiments.tune import TuneBench
    from nanodyno.messages.language import Language
    from nanodyno.report.page import Page

FEWEST_STEPS = 500
_OF = "A recipe, a TOML file, a nanoGPT config or a run, with its own settings after commas"


def attribute(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE[,key=value...]", help=f"{_OF}.")],
    after: Annotated[str, typer.Argument(metavar="AFTER[,key=value...]", help=f"{_OF}.")],
    metric: Annotated[
        Literal["tokens_per_second", "achieved_flops_per_second", "val_loss"],
        typer.Option(help="What to attribute. The first two share their measurements; val_loss trains."),
    ] = "tokens_per_second",
    precision: Annotated[
        float | None,
        typer.Option(min=0.0005, max=0.5, help="Target half-width of each 95% CI: 0.02 is 2%, or 0.02 nats."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time limit (default: 15m, or 2h for val_loss). Repeat to continue."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY,KEY", help="Treat these changes as one. Repeatable."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Keep this setting as in BEFORE. Repeatable."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Emulate a smaller GPU, context included: 12GB is one sold as 12 GB, or 11.2GiB.",
        ),
    ] = None,
    make_fit: Annotated[
        bool, typer.Option("--make-fit", help="Measure all combinations with a switch that makes them fit.")
    ] = False,
    equal: Annotated[
        Literal["tokens", "time"],
        typer.Option(help="With val_loss: train all for equal tokens or equal time."),
    ] = "tokens",
    steps: Annotated[
        int, typer.Option(min=1, help="With val_loss: fewest iterations per combination.")
    ] = FEWEST_STEPS,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again instead of reusing an earlier command.")
    ] = False,
    everything: Everything = False,
    html: Html = None,
    opened: Open = False,
    form: FormatOption = None,
    out: Out = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Measure the effect of each change between two configs, with 95% CIs and reasons.

    nanodyno attribute gpt2-384 gpt2-768 --html report.html --open

    nanodyno attribute train2 train1 --metric achieved_flops_per_second

    nanodyno attribute gpt2-768 gpt2-768,batch_size=16,compile=False --kernels=autograd --memory-limit 12GB

    nanodyno attribute demo demo,n_embd=256,learning_rate=1e-3 --metric val_loss --device=cpu

    All combinations of the settings that differ are measured. Those that cannot affect the metric are only
    reported. --key=value after the two configs applies to both.

    Ctrl-C shows the results so far. The same command continues from there.
    """
    from nanodyno.config import present_name
    from nanodyno.experiments.attribute import Inquiry
    from nanodyno.inputs import resolve_pair

    wanted = ReportOptions(html, opened, form, out, lang, json)
    pair = resolve_pair(before, after, context.args, RUNS_FOLDER)
    own = (f"--{each}" for typed in (before, after) for each in typed.split(",")[1:])
    note_former_names((*context.args, *own))
    seconds = None if budget is None else seconds_of(budget)
    if budget is not None and seconds is None:
        raise NanodynoError("--budget=off would measure without end", "give --budget a time, such as 10m")
    inquiry = Inquiry(
        before=pair.before,
        after=pair.after,
        names=pair.names,
        metric=metric,
        precision=precision,
        budget_seconds=seconds,
        memory_limit_bytes=None if memory_limit is None else bytes_of(memory_limit, "--memory-limit"),
        groups=tuple(tuple(map(present_name, each.split(","))) for each in group or ()),
        ignored=tuple(present_name(key) for each in ignore or () for key in each.split(",")),
        make_fit=make_fit,
        again=again,
        equal=equal,
        steps=steps,
        elsewhere=pair.elsewhere,
        unreported=pair.unreported,
        logs_only=pair.logs_only,
    )
    language = language_of(lang, json)
    found = attributed(inquiry, json, language)
    if json:
        _print_document(found)
    elif not wanted.takes_stdout:
        _show(found, language, everything)
    deliver(wanted, lambda language: _report(found, language))
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not found.look.made:
        raise typer.Exit(1)


def attributed(inquiry: "Inquiry", json: bool, language: "Language") -> "Attribution":
    """Measures with a display."""
    from nanodyno.experiments.attribute import attribute as measure
    from nanodyno.report.attributing import make_attribute_display

    console = console_for(json or not sys.stdout.isatty())
    display = make_attribute_display(console, inquiry.seconds, language)
    try:
        return measure(inquiry, display, bench())
    finally:
        display.close()


def bench() -> "TuneBench | None":
    """With what to measure: this machine."""
    return None


def _print_document(found: "Attribution") -> None:
    from nanodyno.report.attribute_document import attribution_document
    from nanodyno.report.document import to_json

    typer.echo(to_json(attribution_document(found)))


def _show(found: "Attribution", language: "Language", everything: bool) -> None:
    from nanodyno.report.attribute import attribution_page

    console = console_for(json=False)
    print_page(attribution_page(found, console.width, language, everything), console, language)


def _report(found: "Attribution", language: "Language") -> "Page":
    from nanodyno.report.pages.attribute import attribution_report

    return attribution_report(found, language)
