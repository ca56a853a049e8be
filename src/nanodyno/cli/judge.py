"""`nanodyno judge`: is this change better, or noise? Paired trainings with a stated error rate."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.cli.options import (
    INTERRUPTED,
    RUNS_FOLDER,
    Json,
    Lang,
    console_for,
    language_of,
    note_former_names,
    print_page,
)
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.config import RunConfig
    from nanodyno.experiments.judge import JudgeBench, JudgeRequest, JudgeResult
    from nanodyno.messages.language import Language
    from nanodyno.report.judge import JudgePage

MOST_DEPTH = 96
LEAST_FALSE_KEEP = 0.002
"""Of one candidate. Its bounds are found by 200,000 simulated judgements."""


def judge(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    base: Annotated[
        str | None,
        typer.Argument(metavar="BASE", help="A recipe, a TOML file, a nanoGPT config or a run."),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CANDIDATE...",
            help="The same, with settings after commas: demo,muon_lr=6e-3. Settings alone change BASE.",
        ),
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.01, max=1e5, help="Minutes that each training of the base takes.")
    ] = 5.0,
    metric: Annotated[
        Literal["val_loss", "tokens_per_second"], typer.Option(help="What is to be better.")
    ] = "val_loss",
    equal: Annotated[
        Literal["time", "tokens", "flops"],
        typer.Option(help="What trainings of base and candidates have in common."),
    ] = "time",
    smallest: Annotated[
        float,
        typer.Option(
            min=0.0, help="Smallest improvement of interest: nats of loss, or 0.01 for 1% of speed."
        ),
    ] = 0.0,
    false_keep: Annotated[
        float,
        typer.Option(min=0.001, max=0.5, help="Chance to keep any candidate when none is better."),
    ] = 0.05,
    pairs: Annotated[
        int, typer.Option(min=2, max=64, help="Most pairs of trainings for each candidate.")
    ] = 5,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="DEPTHS", help="Ask again at these depths, each as wide in proportion: 4,8,12."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Train again instead of reusing earlier trainings.")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Show all changes that were kept so far, and exit.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 0 for keep, 3 for discard, 4 for undecided.")
    ] = False,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Decide whether a change is an improvement or noise, by paired trainings on this machine.

    nanodyno judge demo demo,muon_lr=6e-3,optimizer=muon --minutes 1 --device=cpu

    nanodyno judge best.toml learning_rate=2e-3 weight_decay=0.3 --minutes 5

    nanodyno judge --history

    Base and candidate train with the same seeds and the same order of data.
    Verdicts are keep, discard or undecided. --key=value after them applies to all.

    Ctrl-C shows the results so far. The same command resumes, and trains nothing twice.
    """
    language = language_of(lang, json)
    if history:
        _history(json, language)
        return
    if base is None or not candidates or base.startswith("-"):
        raise NanodynoError(
            "a judgement takes a base and a candidate",
            "for example: nanodyno judge demo demo,weight_decay=0.3",
        )
    from nanodyno.analysis.judging import JudgeRules
    from nanodyno.experiments.judge import JudgeRequest
    from nanodyno.report.judge import exit_code as code_of
    from nanodyno.report.judge import judge_document, judge_page

    typed = [each for each in candidates if not each.startswith("--")]
    shared = [*(each for each in candidates if each.startswith("--")), *context.args]
    note_former_names(shared)
    configs = {name: _config(name, base, shared) for name in [base, *typed]}
    if len(configs) < len(typed) + 1:
        raise NanodynoError("a candidate is named twice, or is the base", "name each once")
    if false_keep / len(typed) < LEAST_FALSE_KEEP:
        raise NanodynoError(
            f"--false-keep={false_keep:g} for {len(typed)} candidates is too small to be kept",
            f"give {LEAST_FALSE_KEEP:g} for each candidate or more",
        )
    asked = JudgeRequest(
        base=configs[base],
        base_name=base,
        candidates={name: configs[name] for name in typed},
        metric=metric,
        equal=equal,
        minutes=minutes,
        rules=JudgeRules(false_keep=false_keep, pairs=pairs, candidates=len(typed), smallest=smallest),
        again=again,
    )
    depths = _depths(sizes)
    found = _judged(asked, depths, json, language)
    again_with = [*_typed(asked), *([] if sizes is None else ["--sizes", sizes]), *shared]
    pages = [_page(each, depth, again_with) for each, depth in zip(found, depths, strict=False)]
    if json:
        from nanodyno.report.document import to_json

        typer.echo(to_json(judge_document(pages)))
    else:
        print_page(judge_page(pages, language), console_for(json=False), language)
    if any(each.interrupted for each in found):
        raise typer.Exit(INTERRUPTED)
    if exit_code:
        raise typer.Exit(code_of(pages))


def _judged(
    asked: "JudgeRequest", depths: list[int | None], json: bool, language: "Language"
) -> "list[JudgeResult]":
    """Return the result of each depth. An interrupted one is the last."""
    from nanodyno.experiments.judge import judge as decide
    from nanodyno.report.judging import make_judge_display

    requests = [asked if depth is None else _at(asked, depth) for depth in depths]  # all, or none is begun
    found: list[JudgeResult] = []
    display = make_judge_display(console_for(json or not sys.stdout.isatty()), language)
    try:
        for request in requests:
            found.append(decide(request, display, bench()))
            if found[-1].interrupted:
                break
    except NanodynoError as error:
        if not found:
            raise
        typer.echo(f"error: {error.message}", err=True)  # what was judged before is shown
    finally:
        display.close()
    return found


def bench() -> "JudgeBench | None":
    """With what to train: this machine."""
    return None


def _config(typed: str, base: str, shared: list[str]) -> "RunConfig":
    """Of a source with its settings after commas, or of settings alone, which change the base."""
    from nanodyno.inputs import resolve_with_own
    from nanodyno.recipes import wants_found_rate

    first, *own = typed.split(",")
    source = ",".join([*base.split(","), first, *own]) if "=" in first else typed
    request = resolve_with_own(source, shared, RUNS_FOLDER)
    if wants_found_rate(request.given):
        raise NanodynoError(
            f"{typed}: learning_rate=auto is found by `nanodyno train`", "give the rate that it found"
        )
    return request.config


def _depths(sizes: str | None) -> list[int | None]:
    if sizes is None:
        return [None]
    depths = [int(each) if each.strip().isdigit() else 0 for each in sizes.split(",")]
    if not all(0 < each <= MOST_DEPTH for each in depths):
        raise NanodynoError(f"--sizes={sizes} is not a list of depths", "for example --sizes 4,8,12")
    return [*dict.fromkeys(depths)]


def _at(asked: "JudgeRequest", depth: int) -> "JudgeRequest":
    from nanodyno.experiments.judge import at_size

    candidates = {name: at_size(config, depth) for name, config in asked.candidates.items()}
    return replace(asked, base=at_size(asked.base, depth), candidates=candidates)


def _typed(asked: "JudgeRequest") -> list[str]:
    """Return the options of a judgement that are not as by default."""
    from nanodyno.analysis.judging import JudgeRules
    from nanodyno.experiments.judge import JudgeRequest

    usual = JudgeRequest(asked.base, asked.base_name, {})
    values: dict[str, tuple[str | float, str | float]] = {
        "--minutes": (asked.minutes, usual.minutes),
        "--metric": (asked.metric, usual.metric),
        "--equal": (asked.equal, usual.equal),
        "--smallest": (asked.rules.smallest, JudgeRules.smallest),
        "--false-keep": (asked.rules.false_keep, JudgeRules.false_keep),
    }
    return [
        word
        for option, (value, default) in values.items()
        if value != default
        for word in (option, value if isinstance(value, str) else f"{value:g}")
    ]


def _page(found: "JudgeResult", depth: int | None, typed: list[str]) -> "JudgePage":
    from nanodyno.report.judge import JudgePage

    request = found.request
    return JudgePage(
        base=request.base_name,
        judged=found.judged,
        floor=found.floor,
        rules=request.rules,
        metric=request.metric,
        equal=request.equal,
        minutes=request.minutes,
        iterations=found.iterations,
        spent_seconds=found.spent_seconds,
        reused=found.reused,
        notes=found.notes,
        interrupted=found.interrupted,
        size=depth,
        typed=typed,
    )


def _history(json: bool, language: "Language") -> None:
    from nanodyno.records.judging import verdicts
    from nanodyno.report.document import to_json
    from nanodyno.report.judge import history_document, history_page

    found = verdicts()
    if json:
        typer.echo(to_json(history_document(found)))
    else:
        print_page(history_page(found, language), console_for(json=False), language)
