"""The changes between two configs as factors of an experiment: grouped, left out, or inert by arithmetic."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nanodyno.analysis.moves import moves_loss, moves_speed
from nanodyno.analysis.shapley import MOST_FACTORS, Combination
from nanodyno.config import (
    PLACES,
    TEXT_KEYS,
    ConfigError,
    RunConfig,
    build_config,
    changed,
    keys_led_by,
    keys_where,
)
from nanodyno.errors import NanodynoError

AttributionMetric = Literal["tokens_per_second", "achieved_flops_per_second", "val_loss"]
Equal = Literal["tokens", "time"]
"""What trainings have in common."""
SPLIT = "gradient_accumulation_steps"
"""Never a factor: it follows from tokens_per_iter, batch_size and block_size."""
COUPLED = tuple(group for group in map(keys_led_by, RunConfig.model_fields) if len(group) > 1)
"""Keys that are one change unless they are told apart; the leader comes first."""
UNTIMED = frozenset(keys_where(lambda each: each.in_experiment == "untimed"))
"""It moves the speed of a run, whose updates get rarer; what is timed is the first size of the batch."""
ALIKE = frozenset(keys_where(lambda each: each.in_experiment == "held"))
"""The same in every corner, whatever it would move: the seeds, the text that a loss is taken over, and one
process, which shares nothing."""
VOCABULARY = keys_led_by("dataset")
"""A dataset moves the speed by its vocabulary, and by that alone."""


@dataclass(frozen=True)
class Factor:
    """One change, or several made together."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.before)

    @property
    def name(self) -> str:
        """By its leading keys: those that follow from another are left out."""
        followers = {key for group in COUPLED for key in group[1:] if group[0] in self.before}
        return "+".join(key for key in self.before if key not in followers)


@dataclass(frozen=True)
class FactorChange:
    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Infeasible:
    """A corner that is no config, and why."""

    words: str


@dataclass(frozen=True)
class Design:
    """What there is to measure between two configs."""

    before: RunConfig
    after: RunConfig
    factors: tuple[Factor, ...]
    inert: tuple[FactorChange, ...] = ()
    """By arithmetic, so not measured."""
    untimed: tuple[FactorChange, ...] = ()
    alike: tuple[FactorChange, ...] = ()
    """Not inert, and in no measurement."""
    ignored: tuple[FactorChange, ...] = ()
    """At the user's wish: as before everywhere."""
    held: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """On top of every corner."""

    def config(self, combination: Combination) -> RunConfig | Infeasible:
        settings = self.before.model_dump() | {"eval_iters": None}
        del settings[SPLIT]
        for number, factor in enumerate(self.factors):
            if combination >> number & 1:
                settings |= factor.after
        try:
            return build_config(settings | dict(self.held))
        except ConfigError as error:
            return Infeasible(error.message)

    def settings(self, combination: Combination) -> dict[str, Any]:
        """What tells a corner from the others: the leading key of each factor."""
        return {
            key: (factor.after if combination >> number & 1 else factor.before)[key]
            for number, factor in enumerate(self.factors)
            for key in factor.name.split("+")
        }

    def name(self, combination: Combination) -> str:
        return " ".join(f"{key}={value}" for key, value in self.settings(combination).items())


def design_of(  # noqa: PLR0913 - the two, and what is asked about them
    before: RunConfig,
    after: RunConfig,
    metric: AttributionMetric,
    groups: Sequence[Sequence[str]] = (),
    ignored: Iterable[str] = (),
    same_vocabulary: bool = False,
    equal: Equal = "tokens",
) -> Design:
    """Refuses what has no answer: nothing that differs, too many changes, losses of different text.

    same_vocabulary: the two have as many tokens, whatever their datasets. equal: at equal time a loss is
    moved by what moves the speed, too.
    """
    _refuse_unknown([*(key for group in groups for key in group), *ignored])
    after = on_one_schedule(before, after) if metric == "val_loss" else after
    left_out = {_leading(key) for key in ignored}
    left_out |= {key for group in COUPLED if group[0] in left_out for key in group}
    changes = [
        FactorChange(key, getattr(before, key), getattr(after, key))
        for key in RunConfig.model_fields
        if key not in PLACES and key != SPLIT and getattr(before, key) != getattr(after, key)
    ]
    kept = [each for each in changes if each.key not in left_out]
    alike = VOCABULARY if same_vocabulary and metric != "val_loss" else ()
    moving = [each for each in kept if each.key not in alike and _is_measured(each, metric, equal)]
    if metric == "val_loss":
        _refuse_losses_apart(before, after, moving)
    if not moving:
        raise _nothing_moves(kept, metric, equal, [each.key for each in changes if each.key in left_out])
    factors = _grouped(moving, groups)
    if len(factors) > MOST_FACTORS:
        raise _too_many(factors)
    ignored_changes = tuple(each for each in changes if each.key in left_out)
    rest = unmeasured([each for each in kept if each not in moving], metric, equal)
    return Design(before, after, factors, **rest, ignored=ignored_changes)


def unmeasured(
    changes: Sequence[FactorChange], metric: AttributionMetric | Literal["speed"], equal: Equal | None
) -> dict[Literal["inert", "untimed", "alike"], tuple[FactorChange, ...]]:
    """Why each is in no measurement."""
    untimed = tuple(each for each in changes if each.key in UNTIMED)
    alike = tuple(each for each in changes if each.key in ALIKE and _reaches(each, metric, equal))
    inert = tuple(each for each in changes if each not in (*untimed, *alike))
    return {"inert": inert, "untimed": untimed, "alike": alike}


def _refuse_losses_apart(before: RunConfig, after: RunConfig, moving: Sequence[FactorChange]) -> None:
    if any(each.key in TEXT_KEYS for each in moving):
        raise NanodynoError(
            "the val losses are not comparable: the text or the tokenizer differs",
            "give both the same --dataset and --tokenizer, or measure --metric tokens_per_second",
        )
    if before.ramp.most is not None or after.ramp.most is not None:
        raise NanodynoError(
            "batch_ramp=noise decides the number of tokens during training, so that runs are not comparable",
            "give a ramp by tokens, such as --batch_ramp=20M:65536, or leave it out",
        )


def on_one_schedule(before: RunConfig, after: RunConfig) -> RunConfig:
    """`after` with its schedule as shares of before's length, which alone moves no loss at equal tokens."""
    return with_length(after, before.max_iters)


def with_length(config: RunConfig, iterations: int) -> RunConfig:
    """The same schedule in so many iterations; a batch grows at the same shares of it."""
    share = iterations / config.max_iters
    return changed(
        config,
        batch_ramp=config.batch_ramp if share == 1 else config.ramp.in_share(share),
        max_iters=iterations,
        lr_decay_iters=max(1, round(config.lr_decay_iters * share)),
        warmup_iters=round(config.warmup_iters * share) or min(1, config.warmup_iters),
    )


def _is_measured(change: FactorChange, metric: AttributionMetric, equal: Equal) -> bool:
    if metric != "val_loss" and change.key in TEXT_KEYS:
        return True  # by a vocabulary that is not known to be the same
    here = change.key not in ALIKE and (metric == "val_loss" or change.key not in UNTIMED)
    return here and _reaches(change, metric, equal)


def _reaches(change: FactorChange, metric: AttributionMetric | Literal["speed"], equal: Equal | None) -> bool:
    """Whether it can move the metric of a run."""
    setting = change.key, change.before, change.after
    if metric != "val_loss":
        return moves_speed(*setting)
    return moves_loss(*setting) or (equal == "time" and moves_speed(*setting))


def _leading(key: str) -> str:
    return "tokens_per_iter" if key == SPLIT else key


def _grouped(changes: Sequence[FactorChange], groups: Sequence[Sequence[str]]) -> tuple[Factor, ...]:
    """In the order in which keys stand in a config; a user's groups join coupled ones."""
    members: dict[str, set[str]] = {each.key: {each.key} for each in changes}
    for group in (*COUPLED, *([_leading(key) for key in wanted] for wanted in groups)):
        joined = {key for member in group if member in members for key in members[member]}
        members |= dict.fromkeys(joined, joined)
    found: list[set[str]] = []
    for each in changes:
        if members[each.key] not in found:
            found.append(members[each.key])
    return tuple(
        Factor(
            {each.key: each.before for each in changes if each.key in keys},
            {each.key: each.after for each in changes if each.key in keys},
        )
        for keys in found
    )


def _refuse_unknown(keys: Iterable[str]) -> None:
    unknown = [key for key in keys if key not in RunConfig.model_fields]
    if unknown:
        raise NanodynoError(
            f"{', '.join(unknown)}: unknown setting", "`nanodyno train --keys` lists every setting"
        )


def _nothing_moves(
    changes: Sequence[FactorChange], metric: AttributionMetric, equal: Equal, ignored: Sequence[str]
) -> NanodynoError:
    what = "the loss" if metric == "val_loss" else "the speed"
    if ignored:
        return NanodynoError(
            f"no change is left that can affect {what}: --ignore leaves out {', '.join(ignored)}",
            "use --ignore for fewer settings",
        )
    if not changes:
        return NanodynoError(
            "there is nothing to attribute: the two configs are the same in every setting",
            "`nanodyno probe A B` measures the noise between equal configs",
        )
    keys, why = ", ".join(each.key for each in changes), unmeasured(changes, metric, equal)
    if why["untimed"]:
        return NanodynoError(
            f"there is nothing to measure: the configs differ in {keys}, but not in the initial batch size, "
            "the only one that is timed",
            "use --metric val_loss, or set a later size as --tokens_per_iter",
        )
    if why["alike"]:
        held = ", ".join(each.key for each in why["alike"])
        return NanodynoError(
            f"there is nothing to measure: the two configs differ in {keys}, and what could affect {what} is "
            f"the same in every measurement ({held})",
            "train both, then use `nanodyno compare`",
        )
    other = "tokens_per_second" if metric == "val_loss" else "val_loss"
    return NanodynoError(
        f"there is nothing to measure: the two configs differ in {keys}, which cannot affect {what}",
        f"try --metric {other}",
    )


def _too_many(factors: Sequence[Factor]) -> NanodynoError:
    names = [each.name for each in factors]
    spare = names[MOST_FACTORS - 1 :]
    return NanodynoError(
        f"too many changes, {len(names)} (at most {MOST_FACTORS}): {', '.join(names)}",
        f"join some, such as --group {','.join(spare)}, or leave some out with --ignore",
    )
