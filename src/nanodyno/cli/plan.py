"""`nanodyno plan`: before running, on any card: does it fit, how fast, how long, what it costs."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.cli.options import Json, Lang, bytes_of, console_for, count_of, language_of, print_page
from nanodyno.cli.origins import origin_of, refuse_incomplete, untold_note
from nanodyno.cli.reporting import Format, Html, Open, Out, Wanted, deliver
from nanodyno.cli.sources import sized
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nanodyno.cli.at_hand import Vocabulary
    from nanodyno.config import RunConfig
    from nanodyno.recipes import Settings
    from nanodyno.report.language import Language

MOST_HOURS = 1e6


def plan(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE|FILE.toml|FILE.py|RUN",
            help="What to plan: as for train, or a run's config; --key=value changes it.",
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A card by its name, owned or not (default: the one at hand)."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="All that training may take, CUDA's context included: 11.2GiB, 12000MB (GB and MB count as "
            "GiB and MiB). Works with any card and with none.",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="To train on: 10B, 300M, 2.5e9 (default: the config's max_iters)."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS", min=0.0, max=MOST_HOURS, help="To train: tells how many tokens that is."
        ),
    ] = None,
    price_kwh: Annotated[float | None, typer.Option(min=0.0, help="Price of a kilowatt-hour.")] = None,
    price_hour: Annotated[float | None, typer.Option(min=0.0, help="Rent of the card for an hour.")] = None,
    cards: Annotated[
        bool, typer.Option("--cards", help="List every card that --gpu knows, and exit.")
    ] = False,
    html: Html = None,
    opened: Open = False,
    form: Format = None,
    out: Out = None,
    lang: Lang = None,
    json: Json = False,
) -> None:
    """Predict, before running: does it fit, how fast, how long, what it costs. Nothing is run.

    nanodyno plan gpt2-768 --gpu "RTX 3060 12GB"

    nanodyno plan gpt2-768 --batch_size=32 --gpu H200 --memory-limit 12GB --tokens 10B --price-kwh 0.30

    nanodyno plan gpt2-768 --gpu "RTX 4070" --hours 48

    nanodyno plan best-8h --gpu "RTX 4070"

    nanodyno plan --cards

    The table goes over micro-batches at the same tokens per iteration.

    Every figure is predicted. The card at hand is taken as `nanodyno doctor` measured it.

    By a datasheet alone, figures are marked as unverified.
    """
    language = language_of(lang, json)
    if cards:
        return _show_cards(json, language)
    from nanodyno.config import build_config
    from nanodyno.recipes import (
        at_any_rate,
        changed,
        override,
        parse_overrides,
        wants_found_rate,
    )

    if source is None or source.startswith("-"):
        raise NanodynoError(
            f"a config comes before {source or 'everything else'}",
            "for example: nanodyno plan gpt2-768 --gpu H200",
        )
    wanted = Wanted(html, opened, form, out, lang, json)
    origin, changes = origin_of(source), parse_overrides(context.args)
    refuse_incomplete(origin, changes)
    settings = override(origin.settings, changes)
    _refuse_contradictions(tokens, hours)
    settings, hours = _of_that_length(settings, tokens, hours)
    _refuse_endless({"--price-kwh": price_kwh, "--price-hour": price_hour})
    limit = None if memory_limit is None else bytes_of(memory_limit, "--memory-limit")
    made = sized(at_any_rate(settings), gpu, limit)
    config = build_config(made.settings.values)

    from nanodyno.cli.at_hand import target_of, vocabulary_of
    from nanodyno.costs.plan import Wishes, make_plan

    target, vocabulary = target_of(config.device, gpu, limit), vocabulary_of(config)
    number = None if tokens is None else count_of(tokens, "--tokens")
    wishes = Wishes(number, hours, price_kwh, price_hour)
    planned = make_plan(config, vocabulary.model, vocabulary.data, target, wishes)

    from nanodyno.analysis.rates import Begun, lengths_for
    from nanodyno.report.pages.plan import plan_report
    from nanodyno.report.plan import plan_document, plan_page
    from nanodyno.report.plan_facts import Source

    told_for = None if made.choice is None else planned.bill.tokens
    untold, found = untold_note(origin, language), wants_found_rate(settings)
    notes = (
        *(() if untold is None else (untold,)),
        *_without_effect(config, made.settings, context.args, language),
        *_of_data(config, vocabulary, told_for, language),
    )
    shown = Source(
        name=settings.name,
        changed=changed(origin.settings, settings),
        warmup_iters=config.warmup_iters,
        notes=notes,
        ramp=config.ramp,
        choice=made.choice,
        config=config,
        range_test=Begun(lengths_for(planned.bill.max_iters)) if found else None,
    )
    if json:
        from nanodyno.report.document import to_json

        typer.echo(to_json(plan_document(planned, shown)))
        for note in notes:
            typer.echo(note, err=True)
    elif not wanted.takes_stdout:
        console = console_for(json)
        print_page(plan_page(planned, shown, console.width, language), console, language)
    deliver(wanted, lambda language: plan_report(planned, shown, language))
    return None


def _without_effect(
    config: "RunConfig", settings: "Settings", arguments: list[str], language: "Language"
) -> "Iterator[str]":
    from nanodyno.config.idle import idle_settings
    from nanodyno.recipes import former_names
    from nanodyno.report.idle import idle_notes, renamed_notes

    yield from renamed_notes((*settings.renamed, *former_names(arguments)), language)
    yield from idle_notes(idle_settings(config, settings.assumed), language)


def _of_data(
    config: "RunConfig", vocabulary: "Vocabulary", told_for: int | None, language: "Language"
) -> "Iterator[str]":
    from nanodyno.report.sizing import data_notes, refused_note

    there, refused = vocabulary.train_tokens, vocabulary.refused
    if refused is not None:
        yield refused_note(refused, language)
    assumed = vocabulary.data if vocabulary.assumed and refused is None else None
    yield from data_notes(config.dataset, assumed, there, told_for, language, vocabulary.estimated)


def _show_cards(json: bool, language: "Language") -> None:
    from nanodyno.hardware.cards import all_cards
    from nanodyno.report.cards import cards_document, cards_table
    from nanodyno.report.document import to_json

    if json:
        typer.echo(to_json(cards_document(all_cards())))
    else:
        print_page(cards_table(all_cards(), language), console_for(json), language)


def _refuse_contradictions(tokens: str | None, hours: float | None) -> None:
    if tokens is not None and hours is not None:
        raise NanodynoError("--tokens and --hours each say how long", "give one of them: it tells the other")
    if hours == 0:
        raise NanodynoError("--hours=0 is no time to train in", "for example 48, or 0.5")


def _of_that_length(
    settings: "Settings", tokens: str | None, hours: float | None
) -> "tuple[Settings, float | None]":
    """A recipe for so many hours is made for those that are asked for."""
    if settings.hours is None:
        return settings, hours
    if tokens is not None:
        raise NanodynoError(
            f"{settings.name} is made for its hours, which tell the tokens",
            "leave --tokens out, or give --hours",
        )
    from nanodyno.recipes.settings import hours_of

    return (settings if hours is None else replace(settings, hours=hours_of(hours))), None


def _refuse_endless(prices: dict[str, float | None]) -> None:
    for option, price in prices.items():
        if price is not None and not math.isfinite(price):
            raise NanodynoError(f"{option}={price} is no price", "for example 0.30")
