"""Effects of changes from rounds over the corners: estimates, intervals, and when there is enough of them.

A round visits every corner once, in random order. Each contrast is worked out within every round, so that
what drifts between rounds cancels, and its interval is Student's over the rounds: whatever the noise of each
corner. A variance pooled over the corners would have more degrees of freedom and hold only where all are
equally noisy, which corners bound by launching and others are not (benchmarks/attribute_simulation.py).
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nanodyno.analysis.budget import Budget, RoundStanding, standings
from nanodyno.analysis.repeats import RepetitionTime
from nanodyno.analysis.shapley import (
    FULL_FACTORS,
    Combination,
    Contrast,
    aliased_pairs,
    average_effect,
    combinations_of,
    difference,
    interaction,
    last_combination,
    paths,
    shapley,
    step,
)
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import t_interval
from nanodyno.analysis.verdict import VerdictCall


@dataclass(frozen=True)
class Observed:
    """One corner in one round; the value is on a scale on which effects add."""

    combination: Combination
    round: int
    value: float


@dataclass(frozen=True)
class EffectRules:
    factors: int
    precision: float
    """Half-width of every part's interval at which there is enough, on the values' scale."""
    margin: float
    """What counts as nothing, on the same scale."""
    budget: Budget = field(default_factory=Budget)
    odd: bool = True
    """Whether a round in which something is slower by far is set aside and made again."""


@dataclass(frozen=True)
class Effect:
    interval: Interval
    call: VerdictCall


Chain = tuple[tuple[int, int], ...]
"""Pairs of changes whose interactions cannot be told apart: a single one where all corners are there."""


@dataclass(frozen=True)
class Effects:
    """What the corners that are there allow to be said. Indices are of factors."""

    factors: int
    present: tuple[Combination, ...]
    total: Effect | None = None
    """After against before; None where either is missing."""
    parts: tuple[Effect, ...] = ()
    """A Shapley value each, or in a screening an average effect; none where a corner is missing."""
    screened: bool = False
    left_over: Effect | None = None
    """Of a screening: what the parts do not add up to, the work of three changes and more together."""
    steps: Mapping[tuple[Combination, int], Effect] = field(
        default_factory=dict[tuple[Combination, int], Effect]
    )
    """One change more, from every corner that is there to every other."""
    pairs: Mapping[Chain, Effect] = field(default_factory=dict[Chain, Effect])
    """Interactions."""
    means: Mapping[Combination, float] = field(default_factory=dict[Combination, float])

    def paths(self) -> list[tuple[int, ...]]:
        return paths(self.factors, self.present) if not self.screened else []


@dataclass(frozen=True)
class EffectEstimates:
    """What is known after so many rounds."""

    level: float
    effects: Effects
    finished: bool
    """Precise enough, or the budget spent."""
    made: int
    """Rounds, those set aside included."""
    kept: tuple[int, ...] = ()
    odd: tuple[tuple[Combination, int], ...] = ()
    """Corner and round that were unlike the others: the round was set aside."""


def looks(rounds: Iterable[Sequence[Observed]], rules: EffectRules) -> Iterator[EffectEstimates]:
    """Takes round after round, yields what is known at each look, and ends when there is enough.

    `rounds` may measure as it goes: no more than needed is taken of it.
    """
    budget = rules.budget
    for standing in standings(map(_repetitions, rounds), _most_odd(rules)):
        level = budget.level_at(standing.counted) if standing.grew else None
        if level is None:
            continue
        found = effects(_table(standing.kept), rules, level)
        finished = standing.counted >= budget.rounds or is_precise(found, rules.precision)
        yield _look(standing, level, found, finished)
        if finished:
            return


def look_cut_short(observed: Sequence[Observed], rules: EffectRules) -> EffectEstimates:
    """When something from outside ended it: the portion of the last look is still unspent."""
    level = rules.budget.level_at(rules.budget.rounds)
    assert level is not None
    by_round: dict[int, list[Observed]] = {}
    for each in observed:
        by_round.setdefault(each.round, []).append(each)
    standing = [RoundStanding(), *standings(map(_repetitions, by_round.values()), _most_odd(rules))][-1]
    return _look(standing, level, effects(_table(standing.kept), rules, level), False)


def _most_odd(rules: EffectRules) -> int:
    return rules.budget.rounds // 2 if rules.odd else 0


def _look(standing: RoundStanding, level: float, found: Effects, finished: bool) -> EffectEstimates:
    return EffectEstimates(
        level,
        found,
        finished,
        standing.rounds,
        tuple(dict.fromkeys(repetition.round for repetition in standing.kept)),
        tuple((int(repetition.config), repetition.round) for repetition in standing.odd),
    )


def _repetitions(observed: Sequence[Observed]) -> list[RepetitionTime]:
    """Higher values are faster."""
    return [
        RepetitionTime(str(each.combination), each.round, each.round, math.exp(-each.value))
        for each in observed
    ]


RoundTable = Sequence[Mapping[Combination, float]]


def _table(repetitions: Sequence[RepetitionTime]) -> list[dict[Combination, float]]:
    rounds: dict[int, dict[Combination, float]] = {}
    for repetition in repetitions:
        rounds.setdefault(repetition.round, {})[int(repetition.config)] = -math.log(repetition.seconds)
    return list(rounds.values())


def effects(table: RoundTable, rules: EffectRules, level: float) -> Effects:
    """Of the corners that every round has."""
    combinations = combinations_of(rules.factors)
    present = tuple(each for each in combinations if table and all(each in row for row in table))
    complete, screened = len(present) == len(combinations), rules.factors > FULL_FACTORS

    def judged(contrast: Contrast, share: float = 1.0) -> Effect:
        interval = estimate(contrast, table, 1 - (1 - level) * share)
        return Effect(interval, call_of(interval, rules.margin))

    total = None
    if {0, last_combination(rules.factors)} <= set(present):
        total = judged(difference(rules.factors))
    contrasts = _part_contrasts(rules.factors, present) if complete else []
    return Effects(
        factors=rules.factors,
        present=present,
        total=total,
        parts=tuple(judged(each, 1 / rules.factors) for each in contrasts),
        screened=screened,
        left_over=judged(_less(difference(rules.factors), contrasts)) if screened and complete else None,
        steps={} if screened else {each: judged(step(*each)) for each in _edges(rules.factors, present)},
        pairs=_judged_pairs(rules.factors, present, judged) if complete else {},
        means={each: math.fsum(row[each] for row in table) / len(table) for each in present},
    )


def estimate(contrast: Contrast, table: RoundTable, level: float) -> Interval:
    """Over rounds, which are independent whatever the corners' noise."""
    weights = [(combination, float(weight)) for combination, weight in contrast.items() if weight]
    found = t_interval(
        [math.fsum(w * row[combination] for combination, w in weights) for row in table], level
    )
    assert found is not None, "a corner is present in one round at least"
    return found


def call_of(interval: Interval, margin: float) -> VerdictCall:
    """Read off the interval, as verdict.call_of, on a scale where no effect is 0."""
    if interval.low is None or interval.high is None:
        return "no difference shown"
    if -margin <= interval.low and interval.high <= margin:
        return "tied"
    return "different" if interval.low > 0 or interval.high < 0 else "no difference shown"


def half_width(interval: Interval) -> float:
    if interval.low is None or interval.high is None:
        return math.inf
    return (interval.high - interval.low) / 2


def is_precise(found: Effects, precision: float) -> bool:
    """Every part; where none can be claimed, every step and the difference."""
    reported = found.parts or (*found.steps.values(), *([found.total] if found.total else []))
    return bool(reported) and all(half_width(each.interval) <= precision for each in reported)


def _part_contrasts(count: int, combinations: Sequence[Combination]) -> list[Contrast]:
    if count > FULL_FACTORS:
        return [average_effect(combinations, (factor,)) for factor in range(count)]
    return [shapley(count, factor) for factor in range(count)]


def _judged_pairs(
    count: int, combinations: Sequence[Combination], judged: Callable[[Contrast, float], Effect]
) -> dict[Chain, Effect]:
    """Each with its share of the error, so that all of them hold together."""
    if count > FULL_FACTORS:
        chains: list[Chain] = list(aliased_pairs(count))
        contrasts = [average_effect(combinations, chain[0]) for chain in chains]
    else:
        chains = [(pair,) for pair in itertools.combinations(range(count), 2)]
        contrasts = [interaction(count, chain[0]) for chain in chains]
    share = 1 / max(1, len(chains))
    return {chain: judged(each, share) for chain, each in zip(chains, contrasts, strict=True)}


def _less(contrast: Contrast, others: Sequence[Contrast]) -> Contrast:
    rest = dict(contrast)
    for other in others:
        for combination, weight in other.items():
            rest[combination] = rest.get(combination, 0 * weight) - weight
    return rest


def _edges(count: int, present: Sequence[Combination]) -> list[tuple[Combination, int]]:
    return [
        (combination, factor)
        for combination in present
        for factor in range(count)
        if not combination >> factor & 1 and combination | 1 << factor in present
    ]
