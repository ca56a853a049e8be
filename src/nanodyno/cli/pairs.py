"""Two configs to hold against each other: recipes, files, or runs, of which some were made elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nanodyno.cli.origins import origin_of, origin_of_run
from nanodyno.cli.sources import settings_here
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.attribution import Untold
    from nanodyno.config import RunConfig
    from nanodyno.records.store import Run


@dataclass(frozen=True)
class Pair:
    before: "RunConfig"
    after: "RunConfig"
    names: tuple[str, str]
    elsewhere: tuple[tuple[str, str | None], ...] = ()
    """Runs that were made on another device than this one's, and which, where their logs name it."""
    untold: "tuple[Untold, ...]" = ()
    logs_only: bool = False


@dataclass(frozen=True)
class _Source:
    name: str
    values: Mapping[str, Any]
    known: bool = True
    """Whether what is not among the values has its default; of a log it is not known."""
    device: str | None = None
    """Of a log."""


def pair_of(before: str, after: str, overrides: Sequence[str] = ()) -> Pair:
    """--key=value goes for both, and what a side has after commas for it alone."""
    from nanodyno.recipes import parse_overrides

    for typed in (before, after):
        if typed.startswith("-"):
            raise NanodynoError(
                f"two configs come before {typed}", "for example: nanodyno attribute gpt2-384 gpt2-768"
            )
    common = parse_overrides(overrides)
    sources = [_source(typed, common) for typed in (before, after)]
    return _paired(sources[0], sources[1])


def pair_of_runs(before: "Run", after: "Run") -> Pair:
    """As `pair_of` makes it of the names of these runs."""
    return _paired(_of_run(before), _of_run(after))


def _paired(one: _Source, other: _Source) -> Pair:
    from nanodyno.config import build_config

    configs = [build_config(_completed(one, other)), build_config(_completed(other, one))]
    names = (one.name, other.name if other.name != one.name else f"{other.name} (2)")
    return Pair(
        configs[0],
        configs[1],
        names,
        tuple((each.name, each.device) for each in (one, other) if not each.known),
        tuple(_assumed(one, other)),
        not one.known and not other.known,
    )


def _source(typed: str, common: Mapping[str, object]) -> _Source:
    from nanodyno.recipes import parse_overrides, wants_found_rate

    source, *own = typed.split(",")
    changes = {**common, **parse_overrides([f"--{each}" for each in own])}
    origin = origin_of(source)
    settings = settings_here(origin, changes)
    if wants_found_rate(settings):
        raise NanodynoError(
            f"{typed}: learning_rate=auto is found by `nanodyno train`, and here it would be a guess",
            "give the number that it found, or another",
        )
    return _Source(",".join((settings.name, *own)), settings.values, origin.known, origin.device)


def _of_run(run: "Run") -> _Source:
    origin = origin_of_run(run)
    return _Source(run.name, origin.settings.values, origin.known, origin.device)


def _completed(source: _Source, other: _Source) -> dict[str, Any]:
    """What a log does not tell is as in the other, and as usual where neither tells it."""
    values = dict(source.values)
    if not source.known:
        told = {key: value for key, value in other.values.items() if key not in values and key != "n_head"}
        values = told | values
    return values


def _assumed(one: _Source, other: _Source) -> "Iterator[Untold]":
    """What was taken to be the same, because one of the two does not tell it."""
    from nanodyno.analysis.attribution import Untold

    for source, beside in ((one, other), (other, one)):
        keys = tuple(key for key in _completed(source, beside) if key not in source.values)
        if keys:
            yield Untold(source.name, keys, beside.name)
