import random

import pytest

from nanodyno.analysis.repeats import RepetitionTime
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.verdict import call_of, compare


@pytest.mark.parametrize(
    ("low", "high", "call"),
    [
        (1.011, 1.02, "different"),
        (0.95, 0.999, "different"),
        (1.005, 1.02, "different"),
        (0.995, 1.005, "tied"),
        (1.002, 1.004, "tied"),
        (0.99, 1.005, "no difference shown"),  # 1 / 1.01 is 0.9901
        (0.98, 1.02, "no difference shown"),
        (None, None, "no difference shown"),
    ],
)
def test_the_verdict_is_read_off_the_interval(low, high, call):
    assert call_of(Interval(1.0, low, high, 0.95, 8)) == call


def test_the_verdict_does_not_depend_on_which_of_the_two_is_the_reference():
    for low, high in [(0.9902, 1.0099), (0.9899, 1.0), (1.001, 1.3)]:
        turned = Interval(1.0, 1 / high, 1 / low, 0.95, 8)
        assert call_of(turned) == call_of(Interval(1.0, low, high, 0.95, 8))


def test_with_a_margin_of_nothing_nothing_is_tied():
    assert call_of(Interval(1.0, 0.999, 1.001, 0.95, 8), margin=0.0) == "no difference shown"


def repetitions_of(seconds: dict[str, list[float]]) -> list[RepetitionTime]:
    return [
        RepetitionTime(config, number, number, value)
        for config, values in seconds.items()
        for number, value in enumerate(values)
    ]


FOUR = {config: [1.0, 1.01, 0.99] for config in "ABCD"}


def test_against_a_reference_there_are_three_comparisons_and_each_gets_a_third_of_the_error():
    found = compare(repetitions_of(FOUR), "B")
    assert [(each.config, each.reference) for each in found] == [("A", "B"), ("C", "B"), ("D", "B")]
    assert [each.ratio.level for each in found] == [pytest.approx(1 - 0.05 / 3)] * 3


def test_without_a_reference_all_six_pairs_share_the_error():
    found = compare(repetitions_of(FOUR))
    assert [(each.config, each.reference) for each in found] == [
        ("B", "A"),
        ("C", "A"),
        ("D", "A"),
        ("C", "B"),
        ("D", "B"),
        ("D", "C"),
    ]
    assert [each.ratio.level for each in found] == [pytest.approx(1 - 0.05 / 6)] * 6


def test_a_slower_config_has_a_ratio_above_one_and_the_stated_margin_is_kept():
    (found,) = compare(repetitions_of({"A": [1.0, 2.0, 4.0], "B": [1.02, 2.04, 4.08]}), "A", margin=0.03)
    assert (found.config, found.reference, found.margin, found.call) == ("B", "A", 0.03, "tied")
    assert found.ratio.value == pytest.approx(1.02)


def test_a_pair_that_never_met_is_left_out_and_a_lone_config_has_nothing_to_compare():
    assert compare([RepetitionTime("A", 0, 0, 1.0), RepetitionTime("B", 0, 1, 1.0)]) == []
    assert compare([RepetitionTime("A", 0, 0, 1.0)]) == []


def test_among_five_equal_configs_any_is_called_different_in_at_most_five_of_a_hundred():
    dice = random.Random(3)
    wrong = 0
    for _ in range(400):
        seconds = {config: [dice.lognormvariate(0, 0.01) for _ in range(8)] for config in "ABCDE"}
        wrong += any(each.call == "different" for each in compare(repetitions_of(seconds)))
    assert wrong <= 20 + 7  # 5% and 1.65 standard deviations of the count
