"""The range test on losses that are made up, so that its answer is known."""

import math
from collections.abc import Callable

import pytest

from nanodyno.analysis.rates import COARSE, SEEDS, Trial, choose, next_trials


def played(loss: Callable[[float, int], float | None]) -> list[Trial]:
    trials: list[Trial] = []
    while asks := next_trials(trials):
        trials += [Trial(rate, repeat, loss(rate, repeat)) for rate, repeat in asks]
    return trials


def bowl(bottom: float) -> Callable[[float, int], float]:
    """A parabola over log2 of the rate; each repeat has its own height and a bottom a little off."""
    return lambda rate, repeat: 3 + repeat + (math.log2(rate / bottom) - 0.1 * (repeat - 1)) ** 2


@pytest.mark.parametrize("bottom", [3e-4, 1.1e-3, 5e-3])
def test_the_bottom_of_a_bowl_is_found_between_the_rates(bottom: float) -> None:
    chosen = choose(played(bowl(bottom)))
    assert chosen is not None
    assert chosen.learning_rate == pytest.approx(bottom, rel=0.05)  # two digits
    # Bottoms at -0.1, 0 and 0.1 octaves: a deviation of 0.1, times 4.303 / sqrt(3).
    assert chosen.interval.high == pytest.approx(bottom * 2 ** (0.1 * 4.303 / math.sqrt(3)), rel=1e-3)
    assert chosen.interval.low is not None
    assert chosen.interval.low < bottom
    assert not chosen.at_the_end


def test_it_goes_from_coarse_rates_to_octaves_to_halves_of_them_in_every_repeat() -> None:
    trials = played(bowl(1.7e-3))
    root = math.sqrt(2)
    in_all = sorted(trial.learning_rate for trial in trials if trial.repeat == 2)
    assert in_all == pytest.approx([1.6e-3 / root, 1.6e-3, 1.6e-3 * root])
    assert len(trials) == len(COARSE) + 2 + 3 * SEEDS - 1


def test_a_wall_on_the_right_pushes_it_aside_by_less_than_three_quarters_of_an_octave() -> None:
    """A shallow bowl to 0.004 and 2 an octave from there: half an octave of grid, and a quarter of wall."""

    def loss(rate: float, repeat: int) -> float:
        octave = math.log2(rate / 4e-3)
        return 3 + 0.01 * repeat + (2 * octave if octave > 0 else 0.05 * octave**2)

    chosen = choose(played(loss))
    assert chosen is not None
    assert 4e-3 * 2**-0.75 < chosen.learning_rate <= 4e-3


def test_one_repeat_that_misleads_is_outvoted_by_the_others() -> None:
    """The first repeat alone would have it at 0.0256; the three together, an octave and a half below."""
    chosen = choose(played(lambda rate, n: abs(math.log2(rate / (0.0256 if n == 0 else 0.0064)))))
    assert chosen is not None
    assert chosen.learning_rate < 0.0128


def test_a_slope_is_followed_beyond_the_coarse_rates() -> None:
    chosen = choose(played(bowl(0.1)))
    assert chosen is not None
    assert chosen.learning_rate == pytest.approx(0.1, rel=0.05)


def test_a_rate_that_diverges_is_a_wall() -> None:
    def loss(rate: float, repeat: int) -> float | None:
        return None if rate > 2e-3 else 5 - math.log10(rate) * -1 + 0.01 * repeat

    chosen = choose(played(loss))
    assert chosen is not None
    assert chosen.learning_rate < 2e-3


def test_where_every_training_diverges_nothing_is_chosen() -> None:
    trials = played(lambda *_: None)
    assert len(trials) == len(COARSE)
    assert choose(trials) is None


def test_losses_that_fall_to_the_last_rate_are_told() -> None:
    chosen = choose(played(lambda rate, _: -math.log(rate)))
    assert chosen is not None
    assert chosen.at_the_end
