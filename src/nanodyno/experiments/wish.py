"""What a user wants tuned, what a search may change of it, and by what its answer is remembered."""

from dataclasses import dataclass

from nanodyno import __version__
from nanodyno.config import RunConfig, changed, keys_where
from nanodyno.experiments.ground import Place
from nanodyno.records.tuning import Question, settings_of

TUNED = keys_where(lambda each: each.tuned)
"""Settings that a search may change."""


@dataclass(frozen=True)
class Wish:
    config: RunConfig
    budget_seconds: float
    memory_limit_bytes: int | None = None
    """Of the card that is emulated, context included."""
    allow_different: bool = False
    held: frozenset[str] = frozenset()
    """Settings that the user gave, which stay as they are."""
    again: bool = False


def applied(config: RunConfig, tuned: RunConfig) -> RunConfig:
    """The run as it is, with the tuned settings."""
    return changed(config, **tuned_settings(config, tuned))


def tuned_settings(config: RunConfig, tuned: RunConfig) -> dict[str, object]:
    """What the search changed."""
    return {key: getattr(tuned, key) for key in TUNED if getattr(tuned, key) != getattr(config, key)}


def question_of(wish: Wish, place: Place) -> Question:
    machine = place.device.machine
    return Question(
        device_name=machine.device_name,
        device_memory_bytes=machine.device_memory_bytes,
        driver=machine.driver,
        threads=machine.cpu_threads if machine.device_type == "cpu" else None,
        torch=place.device.torch,
        nanodyno=__version__,
        memory_limit_bytes=wish.memory_limit_bytes,
        allow_different=wish.allow_different,
        held=tuple(sorted(wish.held & set(TUNED))),
        settings=settings_of(wish.config),
    )
