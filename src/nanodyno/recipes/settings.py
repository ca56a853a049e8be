"""Settings as a user gave them, before they become a config; and what overriding some of them means."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nanodyno.config import SETTINGS, ConfigError, RunConfig, is_ignored

_NOTHING = object()
HOURS, AUTO_BATCH_SIZE = "hours", "auto_batch_size"
"""What a TOML file may have besides settings."""
MOST_HOURS = 10_000

FOUND = "auto"
"""A learning rate that `nanodyno train` finds before it trains."""
# Either member gives the other, so that overriding one makes the other stale.
PAIRS = tuple((each.pair, key) for key, each in SETTINGS.items() if each.pair is not None)


@dataclass(frozen=True)
class Settings:
    """What a source sets, and what it said that has no effect.

    `assumed` are keys that nobody gave: that a nanoGPT file left out and that have nanoGPT's default instead
    of ours, or that a run which is gone on with had derived.
    """

    name: str
    values: dict[str, object]
    ignored: tuple[str, ...] = ()
    assumed: frozenset[str] = frozenset()
    hours: float | None = None
    """To train in: the model and its batch, as far as the values leave them out, are chosen for a card."""
    auto_batch_size: bool = False
    """Whether the micro-batch is a card's: the fastest that fits, where the card is known."""
    chosen: tuple[str, ...] = ()
    """Keys that have been made for a card: on another one they would be others."""
    renamed: tuple[str, ...] = ()
    """Former names that a file has settings by; `values` has the present ones."""


def override(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    """The settings with these on top; what they make stale is dropped, to be derived anew.

    What a source wrote out stays, as in nanoGPT: a shorter --max_iters leaves its lr_decay_iters alone.
    """
    taken = {key: value for key, value in RunConfig.renamed(overrides).items() if not is_ignored(key)}
    _refuse_what_files_have(settings, taken)
    hours = hours_of(taken.pop(HOURS)) if HOURS in taken else settings.hours
    stale = set(_stale_partners(taken))
    if "n_embd" in taken and "n_head" in settings.assumed:
        stale.add("n_head")  # nobody chose it, so it follows the width
    values = {key: value for key, value in settings.values.items() if key not in stale} | taken
    return replace(
        settings,
        values=values,
        ignored=tuple(dict.fromkeys((*settings.ignored, *filter(is_ignored, overrides)))),
        assumed=(settings.assumed & values.keys()) - taken.keys(),
        hours=hours,
        auto_batch_size=settings.auto_batch_size and "batch_size" not in taken,
    )


def _refuse_what_files_have(settings: Settings, taken: Mapping[str, object]) -> None:
    if AUTO_BATCH_SIZE in taken:
        raise ConfigError([f"{AUTO_BATCH_SIZE}: works in a file only; use --batch_size for the micro-batch"])
    if HOURS in taken and settings.hours is None:
        raise ConfigError(
            [f"{HOURS}: {settings.name} has no time budget"],
            "best-1h, best-8h and best-weekend have one, and so does a file with `hours = 8`. "
            "`train --max-hours 3` stops any run after three hours",
        )


def wants_found_rate(settings: Settings) -> bool:
    """Whether the learning rate is left to a range test."""
    return settings.values.get("learning_rate") == FOUND


def at_any_rate(settings: Settings) -> Settings:
    """For what does not depend on the learning rate: one that is to be found is left at its default."""
    if not wants_found_rate(settings):
        return settings
    kept = {key: value for key, value in settings.values.items() if key != "learning_rate"}
    return replace(settings, values=kept)


def changed(before: Settings, after: Settings) -> dict[str, object]:
    """What is set otherwise after than before, where what nobody set has its default, or is chosen for a card
    and so has none."""
    fields = {} if before.hours is not None else RunConfig.model_fields

    def was(key: str) -> object:
        return before.values.get(key, fields[key].default if key in fields else _NOTHING)

    other = {key: value for key, value in after.values.items() if value != was(key)}
    return other if after.hours == before.hours else {HOURS: after.hours, **other}


def hours_of(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_HOURS:
        raise ConfigError([f"{HOURS}: must be a number above 0 and at most {MOST_HOURS:,}, not {value!r}"])
    return int(value) if value == int(value) else value


def _stale_partners(taken: Mapping[str, object]) -> Iterator[str]:
    for one, other in PAIRS:
        if one in taken and other not in taken:
            yield other
        elif other in taken and one not in taken:
            yield one
