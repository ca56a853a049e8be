import math
from collections.abc import Iterator

import pytest

from nanodyno.analysis.budget import (
    DEFAULT_BUDGET,
    Budget,
    power,
    read,
    read_cut_short,
    readings,
    rounds_needed,
)
from nanodyno.analysis.repeats import RepetitionTime

NOISE = [0.004, -0.002, 0.001, -0.003, 0.002, -0.001, 0.003, -0.004]


def made_round(number: int, ratio: float = 1.0, noise: float = 1.0) -> list[RepetitionTime]:
    """A round of A and B, B slower by the ratio and a noise of some parts in a thousand."""
    wobble = noise * NOISE[number % len(NOISE)]
    return [
        RepetitionTime("A", number, number, 1.0),
        RepetitionTime("B", number, number, ratio * math.exp(wobble)),
    ]


def test_the_portions_of_the_error_add_up_to_the_whole():
    levels = [DEFAULT_BUDGET.level_at(look) for look in DEFAULT_BUDGET.looks]
    assert sum(1 - level for level in levels if level is not None) == pytest.approx(0.05)
    assert Budget(looks=(8,)).level_at(8) == 0.95


def test_between_looks_nothing_is_read():
    budget = Budget(looks=(4, 8), repetitions_per_process=3)
    assert [rounds for rounds in range(40) if budget.level_at(rounds)] == [12, 24]
    assert (budget.rounds, budget.most_rounds) == (24, 36)


def test_a_large_difference_ends_at_the_first_look_and_no_further_round_is_measured():
    asked: list[int] = []

    def rounds() -> Iterator[list[RepetitionTime]]:
        for number in range(100):
            asked.append(number)
            yield made_round(number, 1.2)

    (reading,) = readings(rounds(), reference="A")
    assert reading.finished
    assert reading.comparisons[0].call == "different"
    assert asked == [0, 1, 2, 3]


def test_what_stays_undecided_goes_on_to_the_last_look():
    found = list(readings((made_round(number, 1.0, noise=10) for number in range(100)), reference="A"))
    assert [reading.rounds for reading in found] == [4, 8, 16]
    assert [reading.finished for reading in found] == [False, False, True]
    assert found[-1].comparisons[0].call == "no difference shown"
    assert found[-1].level == pytest.approx(1 - 0.05 * 0.7)


def test_a_wanted_precision_goes_on_although_the_difference_is_plain():
    def rounds() -> Iterator[list[RepetitionTime]]:
        return (made_round(number, 1.2, noise=5) for number in range(100))

    assert [reading.rounds for reading in readings(rounds(), reference="A")] == [4]
    # Deviation about 0.015: +-4% needs t x 0.015 / sqrt(n) below 0.039, which 4 processes at 99.25% miss.
    assert [each.rounds for each in readings(rounds(), reference="A", precision=0.04)] == [4, 8]


def test_a_round_in_which_nothing_was_measured_does_not_count():
    rounds = [made_round(number, 1.2) if number != 1 else [] for number in range(5)]
    (reading,) = readings(rounds, reference="A")
    assert reading.rounds == 4
    assert reading == read([repetition for one in rounds for repetition in one], reference="A")


def test_with_nothing_to_compare_the_first_look_is_the_last():
    alone = ([RepetitionTime("A", number, number, 1.0)] for number in range(100))
    assert [(each.rounds, each.finished) for each in readings(alone)] == [(4, True)]


def test_a_lone_config_is_measured_until_its_own_seconds_are_precise():
    alone = [[RepetitionTime("A", number, number, math.exp(NOISE[number % 8]))] for number in range(16)]
    assert [each.rounds for each in readings(alone, precision=0.2)] == [4]
    assert [each.rounds for each in readings(alone, precision=0.0001)] == [4, 8, 16]


def test_an_odd_round_is_set_aside_reported_and_made_again():
    def rounds() -> Iterator[list[RepetitionTime]]:
        for number in range(100):
            yield made_round(number, 1.5 if number == 6 else 1.0, noise=2)

    *_, reading = readings(rounds(), Budget(looks=(8,)), reference="A")
    assert [(repetition.config, repetition.round) for repetition in reading.odd] == [("B", 6)]
    assert reading.rounds == 9
    assert {repetition.round for repetition in reading.kept} == {0, 1, 2, 3, 4, 5, 7, 8}


def test_a_count_reached_again_after_setting_aside_is_not_a_second_look():
    def rounds() -> Iterator[list[RepetitionTime]]:
        for number in range(100):
            yield made_round(number, 1.5 if number == 8 else 1.0, noise=10)

    found = list(readings(rounds(), Budget(looks=(8, 10)), reference="A"))
    assert [reading.rounds for reading in found] == [8, 11]


def test_of_three_rounds_one_at_most_is_set_aside():
    # Each new round is far slower than all before it.
    rounds = [
        [RepetitionTime("A", number, number, 1.5**number if number > 5 else 1.0)] for number in range(40)
    ]
    *_, reading = readings(rounds, Budget(looks=(16,)))
    assert len(reading.odd) == 8
    assert reading.rounds == 24


def test_who_holds_all_repetitions_reads_the_same_at_looks_and_nothing_between():
    rounds = [made_round(number, noise=2) for number in range(8)]
    held = [[repetition for one in rounds[: count + 1] for repetition in one] for count in range(8)]
    found = [read(repetitions, reference="A") for repetitions in held]
    assert [reading is not None for reading in found] == [False, False, False, True] * 2
    assert [found[3], found[7]] == list(readings(rounds, reference="A"))


def test_a_measurement_cut_short_is_read_with_the_portion_of_the_last_look():
    repetitions = [repetition for number in range(6) for repetition in made_round(number, 1.2)]
    reading = read_cut_short(repetitions, reference="A")
    assert (reading.rounds, reading.finished) == (6, False)
    assert reading.level == DEFAULT_BUDGET.level_at(16)
    assert reading.comparisons[0].call == "different"
    assert read_cut_short([]).comparisons == []


def test_seven_processes_are_needed_for_one_percent_when_they_differ_by_one_percent():
    # log 1.01 = 0.00995; t / sqrt(n) is 2.571 / 2.449 = 1.050 for 6 and 2.447 / 2.646 = 0.925 for 7.
    assert rounds_needed(0.01, 0.01) == 7
    assert rounds_needed(0.0, 0.01) == 2


def test_ten_times_the_noise_needs_a_hundred_times_the_processes():
    assert rounds_needed(0.1, 0.01) == pytest.approx((1.96 * 0.1 / 0.00995) ** 2, rel=0.01)


def test_the_chance_to_find_an_effect_of_one_deviation_with_ten_processes_is_80_percent():
    assert power(math.log(1.02), 10, 0.02) == pytest.approx(0.803, abs=1e-3)
    assert power(0.01, 8, 0.0) == pytest.approx(0.05)
