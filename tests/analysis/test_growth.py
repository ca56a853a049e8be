"""Tokens over iterations of a batch that grows."""

import pytest

from nanodyno.analysis.growth import BatchGrowth, growth_of, is_by_noise

GROWN = BatchGrowth(100, ((4, 200), (6, 500)))
"""4 iterations of 100, 2 of 200, then 500 each."""


@pytest.mark.parametrize(
    ("iterations", "tokens"), [(0, 0), (3, 300), (4, 400), (5, 600), (6, 800), (8, 1800)]
)
def test_tokens_add_up_over_the_sizes_and_back(iterations: int, tokens: int) -> None:
    assert GROWN.tokens(iterations) == tokens
    assert GROWN.even(iterations) == tokens / 100
    assert GROWN.iterations(tokens) == iterations


def test_the_fewest_iterations_that_see_some_tokens_may_see_more() -> None:
    assert [GROWN.iterations(tokens) for tokens in (1, 401, 801, 1301)] == [1, 5, 7, 8]
    assert [GROWN.size_at(iteration) for iteration in (0, 3, 4, 5, 6, 99)] == [100, 100, 200, 200, 500, 500]


def test_what_is_recorded_counts_and_the_schedule_is_for_what_is_ahead() -> None:
    """The schedule says 400 tokens, the record 5 iterations: it was another schedule then."""
    recorded = [(iteration, 100 if iteration < 5 else 200) for iteration in range(7)]
    assert growth_of(100, recorded, "400:200, 1300:500") == BatchGrowth(100, ((5, 200), (9, 500)))
    assert growth_of(100, [], "400:200, 800:500") == GROWN


def test_where_the_noise_decides_the_last_size_stays() -> None:
    assert growth_of(100, [(0, 100), (1, 100), (2, 200)], "noise") == BatchGrowth(100, ((2, 200),))
    assert is_by_noise("noise:800")
    assert not is_by_noise("400:200")
    assert not is_by_noise(None)


def test_a_setting_that_is_no_ramp_is_none() -> None:
    assert growth_of(100, [(0, 100)], "by the moon") == BatchGrowth(100)
    assert growth_of(100, [], 7) == BatchGrowth(100)
