"""Contrasts against brute force over permutations, in fractions."""

import random
from fractions import Fraction
from itertools import permutations

import pytest

from nanodyno.analysis.shapley import (
    MOST_FACTORS,
    Contrast,
    aliased_pairs,
    along,
    average_effect,
    combinations_of,
    difference,
    interaction,
    paths,
    shapley,
    step,
)


def drawn(combinations: int, seed: int) -> dict[int, Fraction]:
    dice = random.Random(seed)
    return {
        combination: Fraction(dice.randint(-999, 999), dice.randint(1, 99))
        for combination in range(combinations)
    }


def worth(contrast: Contrast, values: dict[int, Fraction]) -> Fraction:
    return sum((weight * values[combination] for combination, weight in contrast.items()), Fraction(0))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_part_is_the_mean_step_over_all_orders_and_the_parts_add_up(count: int) -> None:
    values = drawn(2**count, count)
    steps: dict[int, list[Fraction]] = {factor: [] for factor in range(count)}
    for order in permutations(range(count)):
        here = 0
        for factor in order:
            steps[factor].append(values[here | 1 << factor] - values[here])
            here |= 1 << factor
    parts = [worth(shapley(count, factor), values) for factor in range(count)]
    assert parts == [sum(steps[factor]) / len(steps[factor]) for factor in range(count)]
    assert sum(parts) == worth(difference(count), values) == values[2**count - 1] - values[0]


def test_the_case_as_the_issue_tells_it() -> None:
    """308, 427 with the width, 172 with the micro-batch, 396 with both: +39% then -7%, or -44% then +130%."""
    values = {0: Fraction(308), 1: Fraction(427), 2: Fraction(172), 3: Fraction(396)}
    assert worth(step(0, 0), values) == 119
    assert worth(step(1, 1), values) == -31
    assert worth(step(0, 1), values) == -136
    assert worth(step(2, 0), values) == 224
    assert worth(shapley(2, 0), values) == Fraction(119 + 224, 2)
    assert worth(shapley(2, 1), values) == Fraction(-31 - 136, 2)
    assert worth(interaction(2, (0, 1)), values) == 224 - 119


def test_an_interaction_of_two_is_averaged_over_the_third() -> None:
    values = drawn(8, 5)

    def apart(third: int) -> Fraction:
        return values[third | 3] - values[third | 1] - values[third | 2] + values[third]

    assert worth(interaction(3, (0, 1)), values) == (apart(0) + apart(4)) / 2


def test_a_path_needs_all_its_combinations() -> None:
    assert paths(2, {0, 1, 2, 3}) == [(0, 1), (1, 0)]
    assert paths(2, {0, 2, 3}) == [(1, 0)]
    assert paths(2, {0, 3}) == []
    assert along((1, 0)) == [0, 2, 3]


@pytest.mark.parametrize("count", range(5, MOST_FACTORS + 1))
def test_a_fraction_has_both_ends_and_tells_every_change_from_every_other_and_every_pair(count: int) -> None:
    """The value is a sum of effects and of one pair's interaction: each effect comes out exactly."""
    combinations = combinations_of(count)
    assert len(set(combinations)) == 16
    assert {0, 2**count - 1} <= set(combinations)
    dice = random.Random(count)
    effects = [Fraction(dice.randint(-99, 99)) for _ in range(count)]
    for group in aliased_pairs(count):
        one, other = group[-1]

        def at(combination: int, one: int = one, other: int = other) -> Fraction:
            main = sum((effects[each] for each in range(count) if combination >> each & 1), Fraction(0))
            return main + 7 * (combination >> one & 1) * (combination >> other & 1)

        values = {combination: at(combination) for combination in combinations}
        for factor, effect in enumerate(effects):
            half = Fraction(7, 2) if factor in (one, other) else 0
            assert worth(average_effect(combinations, (factor,)), values) == effect + half
        found = {
            pairs: worth(average_effect(combinations, pairs[0]), values) for pairs in aliased_pairs(count)
        }
        assert {pairs for pairs, size in found.items() if size} == {group}
        assert found[group] == 7
