"""Which iterations hold more than training."""

import random

from nanodyno.records.importers.overhead import much_longer


def test_single_long_ones_are_found_at_any_pace() -> None:
    rng = random.Random(1)
    seconds = [9.34 + rng.gauss(0, 0.01) for _ in range(500)]
    for place, extra in ((7, 17.9), (250, 1.0), (499, 0.8)):
        seconds[place] += extra
    flagged = [place for place, longer in enumerate(much_longer(list(seconds))) if longer]
    assert flagged == [7, 250, 499]


def test_a_run_that_changes_its_pace_is_not_disturbed() -> None:
    assert not any(much_longer([1.0] * 150 + [2.0] * 150))


def test_times_that_scatter_are_not_disturbed() -> None:
    rng = random.Random(2)
    flags = much_longer([rng.uniform(0.8, 1.4) for _ in range(1000)])
    assert not any(flags)


def test_unknown_times_are_passed_over() -> None:
    times = [None, 1.0, 1.0, None, 1.0, 5.0, 1.0, 1.0, None]
    assert much_longer(times) == [each == 5.0 for each in times]


def test_too_few_times_tell_nothing() -> None:
    assert much_longer([1.0, 1.0, 1.0, 50.0]) == [False] * 4
    assert much_longer([]) == []
