import pytest

from nanodyno.report.html.scales import Scale, covering, spanning, ticks


def test_ticks_are_round_and_no_more_than_asked_for() -> None:
    assert ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert ticks(0.13, 0.87, 4) == [0.2, 0.4, 0.6, 0.8]
    assert ticks(-3, 3, 3) == [-2, 0, 2]
    assert ticks(4.4, 10.9, 5) == [6, 8, 10]
    assert ticks(1e9, 5e9, 2) == [2e9, 4e9]


def test_a_range_is_widened_to_its_ticks() -> None:
    assert covering(4.4, 10.9, 5) == [4, 6, 8, 10, 12]
    assert covering(0, 20, 4) == [0, 5, 10, 15, 20]
    assert covering(2.97, 4.2, 5) == [2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25]


def test_a_range_is_never_empty() -> None:
    assert spanning([5.0]) == pytest.approx((4.75, 5.25))
    assert spanning([0.0]) == (-1.0, 1.0)
    assert spanning([3.0, 4.0], from_zero=True) == (0.0, 4.0)
    assert spanning([-2.0], from_zero=True) == (-2.0, 0.0)


def test_a_scale_keeps_to_the_picture() -> None:
    scale = Scale(10, 20, 100, 300)
    assert scale.at(15) == 200
    assert scale.within(99) == 300
    assert scale.within(-1) == 100
