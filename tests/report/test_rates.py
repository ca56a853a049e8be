"""A range test in words: on its way, and what it found."""

import pytest

from nanodyno.analysis.rates import Begun, Chosen, Lengths, Trial, TrialEnded
from nanodyno.analysis.statistics import Interval
from nanodyno.report.rates import chosen_words, event_words


def reported(rate: float, in_long: float | None) -> str:
    interval = Interval(rate, 0.8 * rate, 1.3 * rate, 0.95, 3)
    chosen = Chosen(rate, interval, in_short=1.3e-3, in_long=in_long, carried=rate == 5e-4, at_the_end=False)
    return chosen_words(chosen, 18, Lengths(200, 800, 4272))


def test_it_says_what_it_will_take_and_then_what_is_left() -> None:
    assert event_words(Begun(Lengths(200, 800, 4272))) == (
        "learning_rate=auto: a range test of 15 or more trainings of 200 iterations and 9 or more of 800, "
        "the work of 10,200 iterations of this run, which has 4,272"
    )
    assert event_words(Begun(Lengths(60, None, 60))).endswith(
        "15 or more trainings of 60 iterations, the work of 900 iterations of this run, which has 60"
    )
    assert event_words(TrialEnded(Trial(1.6e-3, 1, 5.45504), 200, 431.2)) == (
        "  learning rate 0.0016, 200 iterations, repeat 2: val loss 5.4550; about 7 min 11 s more"
    )
    assert event_words(TrialEnded(Trial(0.1, 0, None, long=True), 1600, None)) == (
        "  learning rate 0.1, 1,600 iterations, repeat 1: diverged"
    )


@pytest.mark.parametrize(
    ("rate", "in_long", "words"),
    [
        (5e-4, 8e-4, "0.0013 was best in 200 iterations and 0.0008 in 800, extrapolated to 4,272;"),
        (8e-4, 8e-4, "0.0013 was best in 200 iterations and 0.0008 in 800, which is used unchanged;"),
        (1.8e-3, 1.8e-3, "0.0013 was best in 200 iterations and 0.0018 in 800, which is used unchanged;"),
        (1.3e-3, None, "0.0013 was best in 200 iterations;"),
    ],
)
def test_it_says_from_which_lengths_the_rate_is(rate: float, in_long: float | None, words: str) -> None:
    assert words in reported(rate, in_long)
    assert f"chose {rate:g} (95% CI {0.8 * rate:.2g} to {1.3 * rate:.2g} over 3 repeats)" in reported(
        rate, in_long
    )
