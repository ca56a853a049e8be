"""Settings as a command means them: a recipe that leaves something to the card, made for one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.sizing import Choice
    from nanodyno.cli.origins import Origin
    from nanodyno.recipes import Settings


@dataclass(frozen=True)
class Sized:
    """Settings that leave nothing to a card any more, and what was chosen for it."""

    settings: "Settings"
    choice: "Choice | None" = None
    card: str | None = None


def settings_here(origin: "Origin", changes: Mapping[str, object]) -> "Settings":
    """For the card at hand, where the origin leaves something to it."""
    from nanodyno.recipes import override

    return sized(override(origin.settings, changes)).settings


def sized(settings: "Settings", gpu: str | None = None, limit: int | None = None) -> Sized:
    """For a card by its name, or the one at hand. A micro-batch stays as it is where no card is known, and a
    learning rate that is still to be found is left so."""
    if settings.hours is None and not settings.fitted:
        return Sized(settings)
    from nanodyno.analysis.sizing import Wanted, choose_size, fitted_batch
    from nanodyno.cli.at_hand import target_of, vocabulary_of
    from nanodyno.config import build_config, keys_led_by
    from nanodyno.recipes import at_any_rate

    of_data = (*keys_led_by("dataset"), "device")
    told = build_config({key: settings.values[key] for key in of_data if key in settings.values})
    target, vocabulary = target_of(told.device, gpu, limit), vocabulary_of(told)
    given = at_any_rate(settings).values
    wanted = Wanted(settings.name, given, target, vocabulary.model, vocabulary.data)
    if settings.hours is not None:
        choice = choose_size(wanted, settings.hours)
        return Sized(_made(settings, {**choice.chosen.settings, **settings.values}), choice, target.name)
    if target.card is None and target.ceilings is None:
        return Sized(_made(settings, settings.values))
    free = {key: value for key, value in given.items() if key != "batch_size"}
    size = fitted_batch(replace(wanted, values=free))
    return Sized(_made(settings, {**settings.values, "batch_size": size}))


def for_training(settings: "Settings") -> "tuple[Settings, tuple[str, ...]]":
    """For the card at hand, and what was chosen, to be noted in the run."""
    from nanodyno.report.sizing import choice_note
    from nanodyno.train.processes import launched

    if settings.hours is not None and launched():
        raise NanodynoError(
            f"{settings.name} is made for one card, and this is one of several processes",
            "start it without torchrun, or give its settings in a file of your own",
        )
    made = sized(settings)
    notes = () if made.choice is None else (choice_note(made.choice, settings.name, made.card),)
    return made.settings, notes


def _made(settings: "Settings", values: Mapping[str, object]) -> "Settings":
    chosen = tuple(key for key in values if key not in settings.values)
    if settings.fitted:
        chosen = (*chosen, "batch_size")
    return replace(settings, values=dict(values), hours=None, fitted=False, chosen=chosen)
