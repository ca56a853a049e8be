"""The shuffled order is a bijection, the same for ever, and shows no pattern."""

import numpy as np
import pytest

from nanodyno.data.order import random_words, shuffled


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64, 1000, 4097])
def test_every_position_comes_exactly_once(n: int) -> None:
    for epoch in range(5):
        order = shuffled(np.arange(n), n, (1337, epoch))
        assert sorted(order.tolist()) == list(range(n))


def test_the_order_never_changes() -> None:
    assert shuffled(np.arange(10), 10, (1337, 0)).tolist() == [4, 0, 8, 9, 5, 6, 3, 2, 7, 1]
    assert shuffled(np.arange(10), 10, (1337, 1)).tolist() == [6, 1, 8, 9, 0, 3, 4, 5, 7, 2]
    ends = np.array([0, 1, 10**12 - 1])
    assert shuffled(ends, 10**12, (1, 2)).tolist() == [626815715715, 184226250717, 548529026242]


def test_a_position_does_not_depend_on_which_others_are_asked_for() -> None:
    whole = shuffled(np.arange(1000), 1000, (7, 3))
    assert shuffled(np.array([999, 17]), 1000, (7, 3)).tolist() == [whole[999], whole[17]]


def test_other_seeds_and_other_epochs_give_other_orders() -> None:
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (-1, 0)]
    orders = {tuple(shuffled(np.arange(64), 64, key).tolist()) for key in keys}
    assert len(orders) == 5


def test_positions_are_left_untouched() -> None:
    positions = np.arange(10)
    shuffled(positions, 10, (1, 1))
    assert positions.tolist() == list(range(10))


def test_a_position_lands_everywhere_equally_often_over_epochs() -> None:
    n, epochs = 8, 2000
    landed = np.stack([shuffled(np.arange(n), n, (5, epoch)) for epoch in range(epochs)])
    expected = epochs / n
    for position in range(n):
        counts = np.bincount(landed[:, position], minlength=n)
        # Chi-square with 7 degrees of freedom: 29.9 is passed by chance once in 10,000.
        assert ((counts - expected) ** 2 / expected).sum() < 29.9


def test_one_order_has_no_pattern() -> None:
    n = 4097
    order = shuffled(np.arange(n), n, (1, 0))
    # Of a random order the mean displacement is (n*n - 1) / 3n = n/3, with a spread of about 0.004 n.
    assert abs(np.abs(order - np.arange(n)).mean() / n - 1 / 3) < 0.016
    # Two neighbours are as far apart as any two, and no step between neighbours is frequent.
    assert abs(np.abs(np.diff(order)).mean() / n - 1 / 3) < 0.016
    assert np.unique(np.diff(order) % n, return_counts=True)[1].max() < 10
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.06


def test_random_words_differ_by_seed_epoch_and_stream() -> None:
    words = [random_words(1, key, stream)[0] for key in [(0, 0), (0, 1), (1, 0)] for stream in (0, 1)]
    assert len(set(words)) == 6
