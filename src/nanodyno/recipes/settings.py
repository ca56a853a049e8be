"""Settings as a user gave them, before they become a config; and what overriding some of them means."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nanodyno.config import RunConfig, is_ignored

# Either member gives the other, so that overriding one makes the other stale.
PAIRS = (("tokens_per_iter", "gradient_accumulation_steps"), ("eval_tokens", "eval_iters"))

# Leader, follower, and the quotient at which the follower was only the derived value written out.
FOLLOWERS = (("n_embd", "n_head", 64), ("max_iters", "lr_decay_iters", 1), ("learning_rate", "min_lr", 10))


@dataclass(frozen=True)
class Settings:
    """What a source sets, and what it said that has no effect.

    `assumed` are the keys that a nanoGPT file left out and that have nanoGPT's default instead of ours.
    """

    name: str
    values: dict[str, object]
    ignored: tuple[str, ...] = ()
    assumed: frozenset[str] = frozenset()


def override(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    """The settings with these on top; what they make stale is dropped, to be derived anew."""
    taken = {key: value for key, value in overrides.items() if not is_ignored(key)}
    stale = {*_stale_partners(taken), *_stale_followers(settings, taken)}
    values = {key: value for key, value in settings.values.items() if key not in stale} | taken
    return replace(
        settings,
        values=values,
        ignored=tuple(dict.fromkeys((*settings.ignored, *filter(is_ignored, overrides)))),
        assumed=(settings.assumed & values.keys()) - taken.keys(),
    )


def _stale_partners(taken: Mapping[str, object]) -> Iterator[str]:
    for one, other in PAIRS:
        if one in taken and other not in taken:
            yield other
        elif other in taken and one not in taken:
            yield one


def _stale_followers(settings: Settings, taken: Mapping[str, object]) -> Iterator[str]:
    for leader, follower, quotient in FOLLOWERS:
        if leader not in taken or follower in taken:
            continue
        base = settings.values.get(leader, RunConfig.model_fields[leader].default)
        n_head_was_assumed = follower == "n_head" and follower in settings.assumed
        if n_head_was_assumed or _is_quotient(settings.values.get(follower), base, quotient):
            yield follower


def _is_quotient(value: object, base: object, quotient: int) -> bool:
    if not (isinstance(value, int | float) and isinstance(base, int | float)):
        return False
    return math.isclose(value * quotient, base)
