"""Effects worked out by hand, their intervals, and when there is enough."""

import math
import random
from collections.abc import Iterator

import pytest

from nanodyno.analysis.attributing import speed_rules
from nanodyno.analysis.budget import Budget
from nanodyno.analysis.effects import (
    EffectRules,
    Observed,
    call_of,
    effects,
    half_width,
    look_cut_short,
    looks,
)
from nanodyno.analysis.shapley import combinations_of
from nanodyno.analysis.statistics import Interval

TABLE = [{0: 0.0, 1: 1.0, 2: 2.0, 3: 6.0}, {0: 10.0, 1: 11.2, 2: 12.0, 3: 16.4}]
"""The second round is 10 above the first: what rounds share cancels."""


def test_effects_and_their_intervals_by_hand() -> None:
    """Of the first change the steps are 1 and 4, then 1.2 and 4.4: its part 2.5 and 2.8, 2.65 on average.

    Student's t at one degree and 90% is 6.314, the deviation 0.3 / sqrt(2), so half of it is 0.3 * 6.314 / 2;
    two parts share an error of 20%.
    """
    found = effects(TABLE, EffectRules(2, 0.02, 0.01), 0.8)
    part = found.parts[0].interval
    assert part.value == pytest.approx(2.65)
    assert half_width(part) == pytest.approx(0.15 * 6.3138, rel=1e-4)
    assert found.total is not None
    assert found.total.interval.value == pytest.approx(6.2)
    assert sum(each.interval.value for each in found.parts) == pytest.approx(6.2)
    assert found.steps[0, 0].interval.value == pytest.approx(1.1)
    assert found.steps[2, 0].interval.value == pytest.approx(4.2)
    assert found.pairs[((0, 1),)].interval.value == pytest.approx(3.1)
    assert found.means == pytest.approx({0: 5.0, 1: 6.1, 2: 7.0, 3: 11.2})


def test_with_a_combination_missing_there_are_steps_and_no_parts() -> None:
    table = [{combination: value for combination, value in row.items() if combination != 1} for row in TABLE]
    found = effects(table, EffectRules(2, 0.02, 0.01), 0.95)
    assert (found.parts, found.pairs) == ((), {})
    assert set(found.steps) == {(0, 1), (2, 0)}
    assert found.paths() == [(1, 0)]
    assert found.total is not None
    end_missing = effects([{0: 1.0, 1: 2.0, 2: 3.0}], EffectRules(2, 0.02, 0.01), 0.95)
    assert end_missing.total is None
    assert end_missing.paths() == []


def test_of_many_changes_a_screening_tells_what_its_parts_leave_over() -> None:
    """Three of six changes do 1 more together: the mean effect of each has a quarter of that."""
    sizes = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

    def at(combination: int) -> float:
        own = sum(size for number, size in enumerate(sizes) if combination >> number & 1)
        return own + ((combination & 0b100011) == 0b100011)

    row = {combination: at(combination) for combination in combinations_of(6)}
    found = effects([row, row], EffectRules(6, 0.02, 0.01), 0.95)
    parts = [each.interval.value for each in found.parts]
    assert found.screened
    assert found.steps == {}
    assert found.left_over is not None
    assert sum(parts) + found.left_over.interval.value == pytest.approx(22.0)
    assert [part - size for part, size in zip(parts, sizes, strict=True)] == pytest.approx(
        [0.25, 0.25, 0.0, 0.0, 0.0, 0.25]
    )


def rounds(noise: float, number: int = 100) -> Iterator[list[Observed]]:
    dice = random.Random(3)
    for count in range(number):
        yield [
            Observed(combination, count, 0.1 * combination + dice.gauss(0, noise)) for combination in range(4)
        ]


def test_a_quiet_machine_is_enough_at_the_first_look_and_a_noisy_one_at_the_last() -> None:
    rules = speed_rules(2, 0.02)
    quiet, noisy = (list(looks(rounds(noise), rules)) for noise in (0.001, 0.5))
    assert [each.made for each in quiet] == [4]
    assert quiet[0].finished
    assert [each.made for each in noisy][-1] >= rules.budget.rounds
    assert noisy[-1].finished
    assert noisy[-1].level == pytest.approx(1 - 0.05 * 0.7)


def test_a_round_in_which_something_was_far_slower_is_set_aside() -> None:
    """The seventh of one corner takes half as long again."""
    slow = list(rounds(0.001, 8))
    slow[6][2] = Observed(2, 6, slow[6][2].value - 0.4)
    found = look_cut_short([each for row in slow for each in row], speed_rules(2, 0.001))
    assert found.odd == ((2, 6),)
    assert 6 not in found.kept
    kept = look_cut_short(
        [each for row in slow for each in row], EffectRules(2, 0.02, 0.01, Budget(), odd=False)
    )
    assert 6 in kept.kept


def test_calls_are_read_off_the_interval() -> None:
    def bounded(low: float, high: float) -> Interval:
        return Interval((low + high) / 2, low, high, 0.95, 4)

    assert call_of(bounded(0.02, 0.04), 0.01) == "different"
    assert call_of(bounded(0.001, 0.004), 0.01) == "tied"
    assert call_of(bounded(-0.02, 0.04), 0.01) == "no difference shown"
    assert call_of(Interval(0.5, None, None, 0.95, 1), 0.01) == "no difference shown"
    assert math.isinf(half_width(Interval(0.5, None, None, 0.95, 1)))
