"""`nanodyno forecast`: the final loss of a run, the time left, and when it reaches a target loss."""

from typing import Annotated

import typer

from nanodyno.cli.options import (
    RUNS_FOLDER,
    Everything,
    Json,
    Lang,
    console_for,
    count_of,
    language_of,
    note_former_names,
    print_page,
)
from nanodyno.cli.reporting import FormatOption, Html, Open, Out, ReportOptions, deliver
from nanodyno.errors import NanodynoError

MOST_HOURS = 1e6


def forecast(  # noqa: PLR0913 - one parameter per option
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN [RUN]", help="A name under runs/, or the path of a run folder."),
    ],
    tokens: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Forecast the loss after this many tokens: 10B, 300M."),
    ] = None,
    iters: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Forecast the loss at this iteration.")
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS", min=0.0, max=MOST_HOURS, help="Forecast the loss this many hours from now."
        ),
    ] = None,
    until_loss: Annotated[
        float | None, typer.Option(metavar="LOSS", min=0.0, help="Forecast when it reaches this loss.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the schedule from here on: lr_decay_iters, min_lr, ..."
        ),
    ] = None,
    siblings: Annotated[
        bool,
        typer.Option(help="Use finished runs of the same recipe under runs/ to narrow the forecast."),
    ] = True,
    everything: Everything = False,
    html: Html = None,
    opened: Open = False,
    form: FormatOption = None,
    out: Out = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Forecast the final loss of a run with an 80% interval, the time left, and when it reaches a target.

    nanodyno forecast gpt2-768-1

    nanodyno forecast gpt2-768-1 --until-loss 3.3

    nanodyno forecast gpt2-768-1 --tokens 10B --set lr_decay_iters=19073

    nanodyno forecast small large --hours 12 --html report.html --open

    The curve so far is extrapolated along the rest of the learning-rate schedule.

    Finished runs of the same model, data and schedule narrow the forecast.

    A run without a curve gets a rough forecast from its model size, data and tokens, marked as such.
    """
    from nanodyno.analysis.account_reading import account_of
    from nanodyno.analysis.forecast import ForecastQuestion
    from nanodyno.analysis.forecast_findings import forecasts_of
    from nanodyno.recipes import parse_set
    from nanodyno.records.store import find_run, other_runs, read_run
    from nanodyno.report.document import to_json
    from nanodyno.report.forecast import forecast_document, forecast_page
    from nanodyno.report.pages.forecast import forecast_report

    wanted = ReportOptions(html, opened, form, out, lang, json)
    _refuse_contradictions(runs, {"--tokens": tokens, "--iters": iters, "--hours": hours})
    number = None if tokens is None else float(count_of(tokens, "--tokens"))
    note_former_names([f"--{each}" for each in set_ or []])
    question = ForecastQuestion(number, iters, hours, until_loss, parse_set(set_ or []))
    folders = [find_run(run, RUNS_FOLDER) for run in runs]
    others = [account_of(each) for each in other_runs(RUNS_FOLDER, folders)] if siblings else None
    made = forecasts_of([read_run(folder) for folder in folders], question, others)
    if json:
        typer.echo(to_json(forecast_document(made)))
    elif not wanted.takes_stdout:
        console, language = console_for(json), language_of(lang)
        print_page(forecast_page(made, console.width, language, everything), console, language)
    deliver(wanted, lambda language: forecast_report(made, language))


def _refuse_contradictions(runs: list[str], places: dict[str, object]) -> None:
    if len(runs) > 2:
        raise NanodynoError("a forecast takes one or two runs", "name at most two")
    reported = [option for option, value in places.items() if value is not None]
    if len(reported) > 1:
        raise NanodynoError(f"{' and '.join(reported)} exclude each other", "use one of them")
    if places["--hours"] == 0:
        raise NanodynoError("--hours=0 leaves no time to train", "for example 48, or 0.5")
