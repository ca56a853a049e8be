"""Which of several changes did what: contrasts between the corners of a factorial, in exact fractions.

A corner is a subset of the changes as bits: those that are made. Everything said of a change is a weighted
sum of corner means, so that one rule for intervals (`attribution.py`) serves all of it. Values are on a scale
on which effects add: logarithms of rates, or losses as they are.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import permutations
from math import comb

Combination = int
Contrast = Mapping[Combination, Fraction]
Path = tuple[int, ...]
"""Changes in the order in which they are made."""

FULL_FACTORS = 4
"""Up to so many every corner is measured; beyond, up to MOST_FACTORS, sixteen of them."""
MOST_FACTORS = 8
_GENERATORS = ((0, 1, 2), (1, 2, 3), (0, 2, 3), (0, 1, 3))
"""Each factor after the fourth is as after where an odd number of these three is: resolution IV, with both
ends among the corners, since three is odd."""


def combinations_of(count: int) -> tuple[Combination, ...]:
    """All of them for few changes; for more, a fraction in which no two changes are confounded."""
    if count <= FULL_FACTORS:
        return tuple(range(2**count))
    return tuple(sorted(_completed(base, count) for base in range(2**FULL_FACTORS)))


def _completed(base: Combination, count: int) -> Combination:
    bits = [base >> factor & 1 for factor in range(FULL_FACTORS)]
    bits += [sum(bits[each] for each in _GENERATORS[n]) % 2 for n in range(count - FULL_FACTORS)]
    return sum(bit << factor for factor, bit in enumerate(bits))


def last_combination(count: int) -> Combination:
    """Where every change is made."""
    return 2**count - 1


def difference(count: int) -> Contrast:
    """After against before."""
    return {0: Fraction(-1), last_combination(count): Fraction(1)}


def step(combination: Combination, factor: int) -> Contrast:
    """One change more than this corner has."""
    assert not combination >> factor & 1
    return {combination: Fraction(-1), combination | 1 << factor: Fraction(1)}


def shapley(count: int, factor: int) -> Contrast:
    """The mean of a change's steps over all orders: those of all changes add up to the difference.

    A corner of s other changes precedes it in s! (count - s - 1)! of the count! orders.
    """
    weights: dict[Combination, Fraction] = {}
    for combination in range(2**count):
        if not combination >> factor & 1:
            before = combination.bit_count()
            share = Fraction(1, count * comb(count - 1, before))
            weights |= {combination: -share, combination | 1 << factor: share}
    return weights


def interaction(count: int, factors: Collection[int]) -> Contrast:
    """How much more these changes do together than apart, averaged over whether the others are made.

    Of two: (both - one) - (the other - none).
    """
    others = Fraction(1, 2 ** (count - len(factors)))
    signs = {
        combination: sum(not combination >> each & 1 for each in factors) for combination in range(2**count)
    }
    return {combination: others * (-1) ** missing for combination, missing in signs.items()}


def average_effect(combinations: Collection[Combination], factors: Collection[int]) -> Contrast:
    """Of one change: its mean over the corners of a fraction. Of two: their interaction, and whatever is
    aliased with it."""
    signs = {
        combination: (-1) ** sum(not combination >> each & 1 for each in factors)
        for combination in combinations
    }
    size = Fraction(2 ** len(factors), len(combinations))
    return {combination: size * sign for combination, sign in signs.items()}


def aliased_pairs(count: int) -> list[tuple[tuple[int, int], ...]]:
    """Pairs of changes that a fraction cannot tell apart, in groups; every pair is in one."""
    groups: dict[Combination, list[tuple[int, int]]] = {}
    for one, other in itertools.combinations(range(count), 2):
        groups.setdefault(_word(one) ^ _word(other), []).append((one, other))
    return [tuple(pairs) for pairs in groups.values()]


def _word(factor: int) -> Combination:
    """By which of the first four it is set."""
    letters = (factor,) if factor < FULL_FACTORS else _GENERATORS[factor - FULL_FACTORS]
    return sum(1 << letter for letter in letters)


def paths(count: int, present: Collection[Combination]) -> list[Path]:
    """Orders of the changes all of whose corners are there."""
    return [order for order in permutations(range(count)) if present_along(order, present)]


def present_along(path: Path, present: Collection[Combination]) -> bool:
    return all(combination in present for combination in along(path))


def along(path: Iterable[int]) -> list[Combination]:
    """The corners of a path, from none of the changes to all of them."""
    combinations = [0]
    for factor in path:
        combinations.append(combinations[-1] | 1 << factor)
    return combinations


def value(contrast: Contrast, means: Mapping[Combination, float]) -> float:
    return float(sum(float(weight) * means[combination] for combination, weight in contrast.items()))
