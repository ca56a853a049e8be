"""`nanodyno forecast`: where a run will end, when, and what it takes to reach a loss."""

from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.importing import settings_of
from nanodyno.cli.options import RUNS_FOLDER, Json, console_for, count_of
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.forecast import Question

MOST_HOURS = 1e6


def forecast(  # noqa: PLR0913 - one parameter per option
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN [RUN]", help="A name under runs/, or the path of a run folder."),
    ],
    tokens: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Where it stands after so many: 10B, 300M.")
    ] = None,
    iters: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Where it stands at this iteration.")
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(metavar="HOURS", min=0.0, max=MOST_HOURS, help="Where it stands in so many from now."),
    ] = None,
    until_loss: Annotated[
        float | None, typer.Option(metavar="LOSS", min=0.0, help="When it reaches this loss, if it does.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another schedule from here on: lr_decay_iters, min_lr, ..."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Forecast where a run ends: its loss with an 80% interval, when, and whether it reaches a target.

    nanodyno forecast gpt2-768-1

    nanodyno forecast gpt2-768-1 --until-loss 3.3

    nanodyno forecast gpt2-768-1 --tokens 10B --set lr_decay_iters=19073

    nanodyno forecast small large --hours 12

    The curve so far is extrapolated under the rest of the learning-rate schedule. A run that has shown too
    little gets a rough answer from its size, data and tokens, and is told so.
    """
    from nanodyno.analysis.account import account_of
    from nanodyno.analysis.audit import with_found_shape
    from nanodyno.analysis.forecast import Question
    from nanodyno.analysis.forecast import forecast as forecast_of
    from nanodyno.analysis.forecast_findings import findings_of, lower_of, stretched
    from nanodyno.analysis.forecast_plan import pace_of_run
    from nanodyno.records.store import find_run, read_run
    from nanodyno.report.document import to_json
    from nanodyno.report.forecast import forecast_document, forecast_page

    _refuse_contradictions(runs, {"--tokens": tokens, "--iters": iters, "--hours": hours})
    number = None if tokens is None else float(count_of(tokens, "--tokens"))
    question = Question(number, iters, hours, until_loss, settings_of(set_ or []))
    found = [read_run(find_run(run, RUNS_FOLDER)) for run in runs]
    accounts = [with_found_shape(account_of(run)) for run in found]
    paces = [pace_of_run(run, account) for run, account in zip(found, accounts, strict=True)]
    asked = [question] * len(runs)
    if len(runs) == 2 and (tokens or iters or hours):
        asked = [stretched(account, question, pace) for account, pace in zip(accounts, paces, strict=True)]
    together = list(zip(accounts, asked, paces, strict=True))
    made = [forecast_of(account, each, pace) for account, each, pace in together]
    findings = [
        finding
        for (account, _, pace), each in zip(together, made, strict=True)
        for finding in findings_of(
            each, account, forecast_of(account, _unchanged(question), pace) if question.changes else None
        )
    ]
    if len(made) == 2:
        findings = [*lower_of(made[0], made[1], rough=asked[0] is not question), *findings]
    if json:
        typer.echo(to_json(forecast_document(made, findings)))
        return
    console = console_for(json)
    console.print(forecast_page(made, accounts, findings, console.width))


def _unchanged(question: "Question") -> "Question":
    from dataclasses import replace

    return replace(question, changes={})


def _refuse_contradictions(runs: list[str], places: dict[str, object]) -> None:
    if len(runs) > 2:
        raise NanodynoError("a forecast is of one run, or of two side by side", "name two at most")
    told = [option for option, value in places.items() if value is not None]
    if len(told) > 1:
        raise NanodynoError(f"{' and '.join(told)} each say how far", "give one of them")
    if places["--hours"] == 0:
        raise NanodynoError("--hours=0 is no time to train in", "for example 48, or 0.5")
