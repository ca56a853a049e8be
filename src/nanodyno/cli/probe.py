"""`nanodyno probe`: one config measured in a process of its own, or several compared."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import (
    INTERRUPTED,
    RUNS_FOLDER,
    Json,
    Lang,
    assumed_note,
    console_for,
    language_of,
    note_former_names,
    print_page,
    seconds_of,
)
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.budget import Reading
    from nanodyno.messages.language import Language
    from nanodyno.probe.repetition import ProbeJob
    from nanodyno.records.probe import ProbeResult


def probe(  # noqa: PLR0913 - one parameter per option
    configs: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG[,key=value...]...",
            help="A recipe (demo, gpt2-384, gpt2-768), a TOML file, a nanoGPT config or a run, each with "
            "its own settings after commas. The first is the baseline.",
        ),
    ],
    precision: Annotated[
        float,
        typer.Option(
            min=0.0005, max=0.5, help="Relative precision of its mean at which a process stops; 0.01 is 1%."
        ),
    ] = 0.01,
    limit: Annotated[
        str, typer.Option(metavar="TIME", help="Longest time that one process measures.")
    ] = "20s",
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes per config (default: 1 for one config; as many as needed, at most 16, for "
            "several).",
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            min=0.0001, max=0.5, help="Difference up to which two configs count as tied; 0.01 is 1%."
        ),
    ] = 0.01,
    redo: Annotated[int, typer.Option(min=0, help="How often a disturbed round is repeated.")] = 2,
    breakdown: Annotated[
        bool, typer.Option(help="Also profile where the time goes, in a separate pass.")
    ] = True,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Read the config's dataset; otherwise tokens are synthetic.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads (default: torch's choice).")] = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Measure how fast a config trains and where its time goes, or compare several. Nothing is saved.

    nanodyno probe gpt2-768

    nanodyno probe gpt2-768 gpt2-768,batch_size=16 gpt2-768,compile=False

    nanodyno probe demo demo,n_embd=256 --device=cpu --processes 6

    Several configs take turns (A B, B A, ...), each in its own process.

    --key=value after the configs applies to all of them. Ctrl-C shows the results so far.
    """
    language = language_of(lang, json)
    jobs = _jobs(configs, with_data, threads, language)
    seconds = seconds_of(limit)
    if seconds is None:
        raise NanodynoError("--limit=off would measure without end", "give --limit a time, such as 20s")

    from nanodyno.analysis.budget import DEFAULT_BUDGET, Budget
    from nanodyno.analysis.probes import reading_of
    from nanodyno.probe.bench import Bench, ProbePlan
    from nanodyno.probe.process import unless_refused
    from nanodyno.probe.rounds import measure_against
    from nanodyno.report.probing import make_probe_display

    alone = 1 if len(jobs) == 1 else None
    fixed = processes or alone
    budget = DEFAULT_BUDGET if fixed is None else Budget(looks=(fixed,))
    plan = ProbePlan(
        precision=precision,
        repetition_seconds=seconds,
        redo=redo,
        most_processes=budget.rounds * len(jobs),
        breakdown=breakdown,
    )
    display = make_probe_display(console_for(json or not sys.stdout.isatty()), budget.rounds, language)
    interrupted = False
    with Bench(jobs, plan, display) as bench:
        try:
            measure_against(bench, next(iter(jobs)), budget, margin)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            display.close()
        results = bench.results()
    if len(results) == 1:
        unless_refused(*results.values())
    _show(results, reading_of(results, budget, next(iter(results)), margin), language, json)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(result.kind == "failed" for result in results.values()):
        raise typer.Exit(1)


def _show(results: "dict[str, ProbeResult]", reading: "Reading", language: "Language", json: bool) -> None:
    if json:
        from nanodyno.report.document import to_json
        from nanodyno.report.probes import probes_document

        typer.echo(to_json(probes_document(results, reading)))
        return
    from nanodyno.report.probes import probes_page

    console = console_for(json)
    print_page(probes_page(results, reading, console.width, language), console, language)


def _jobs(
    words: list[str], with_data: bool, threads: int | None, language: "Language"
) -> "dict[str, ProbeJob]":
    """By the name under which each is shown: what was typed, numbered where it was typed twice."""
    from nanodyno.inputs import resolve_with_own
    from nanodyno.probe.repetition import ProbeJob

    first_option = next((number for number, word in enumerate(words) if word.startswith("-")), len(words))
    sources = words[:first_option]
    if not sources:
        raise NanodynoError(
            f"a config must come before {words[0]}", "for example: nanodyno probe demo --device=cpu"
        )
    jobs: dict[str, ProbeJob] = {}
    for number, typed in enumerate(sources):
        request = resolve_with_own(typed, words[first_option:], RUNS_FOLDER)
        again = sources[:number].count(typed)
        name = f"{typed} ({again + 1})" if again else typed
        jobs[name] = ProbeJob(config=request.config, with_data=with_data, threads=threads)
        note_former_names(request.arguments, request.given.renamed)
        for note in assumed_note(request, language):
            typer.echo(note, err=True)
    return jobs
