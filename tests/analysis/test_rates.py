"""The range test on losses that are made up, so that its answer is known."""

import math
import random
from collections.abc import Callable

import pytest

from nanodyno.analysis.rates import (
    COARSE,
    FINE,
    SEEDS,
    STEEPEST,
    Chosen,
    Lengths,
    Trial,
    TrialRequest,
    choose,
    least_left,
    next_trials,
)

SHORT_ALONE = Lengths(200, None, 300)


def played(loss: Callable[[float, int], float | None]) -> list[Trial]:
    trials: list[Trial] = []
    while asks := next_trials(trials):
        trials += [Trial(ask.learning_rate, ask.repeat, loss(ask.learning_rate, ask.repeat)) for ask in asks]
    return trials


def found(loss: Callable[[float, int], float | None]) -> Chosen | None:
    return choose(played(loss), SHORT_ALONE)


def bowl(bottom: float) -> Callable[[float, int], float]:
    """A parabola over log2 of the rate; each repeat has its own height and a bottom a little off."""
    return lambda rate, repeat: 3 + repeat + (math.log2(rate / bottom) - 0.1 * (repeat - 1)) ** 2


@pytest.mark.parametrize("bottom", [3e-4, 1.1e-3, 5e-3])
def test_the_bottom_of_a_bowl_is_found_between_the_rates(bottom: float) -> None:
    chosen = found(bowl(bottom))
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

    chosen = found(loss)
    assert chosen is not None
    assert 4e-3 * 2**-0.75 < chosen.learning_rate <= 4e-3


def test_one_repeat_that_misleads_is_outvoted_by_the_others() -> None:
    """The first repeat alone would have it at 0.0256; the three together, an octave and a half below."""
    chosen = found(lambda rate, n: abs(math.log2(rate / (0.0256 if n == 0 else 0.0064))))
    assert chosen is not None
    assert chosen.learning_rate < 0.0128


def test_a_slope_is_followed_beyond_the_coarse_rates() -> None:
    chosen = found(bowl(0.1))
    assert chosen is not None
    assert chosen.learning_rate == pytest.approx(0.1, rel=0.05)


def test_a_rate_that_diverges_is_a_wall() -> None:
    def loss(rate: float, repeat: int) -> float | None:
        return None if rate > 2e-3 else 5 - math.log10(rate) * -1 + 0.01 * repeat

    chosen = found(loss)
    assert chosen is not None
    assert chosen.learning_rate < 2e-3


def test_where_every_training_diverges_nothing_is_chosen() -> None:
    trials = played(lambda *_: None)
    assert len(trials) == len(COARSE)
    assert choose(trials, SHORT_ALONE) is None


def test_losses_that_fall_to_the_last_rate_are_reported() -> None:
    chosen = found(lambda rate, _: -math.log(rate))
    assert chosen is not None
    assert chosen.at_the_end


def played_at_both(short: float, long: float | None) -> list[Trial]:
    """With their bottoms at these rates; None: every long training diverges."""
    trials: list[Trial] = []
    while asks := next_trials(trials, with_long=True):
        for ask in asks:
            bottom = long if ask.long else short
            loss = None if bottom is None else bowl(bottom)(ask.learning_rate, ask.repeat)
            trials.append(Trial(ask.learning_rate, ask.repeat, loss, ask.long))
    return trials


@pytest.mark.parametrize(
    ("long", "whole", "expected"),
    [
        (0.9e-3, 1600, 0.9e-3 * (0.9 / 1.6) ** 0.5),
        (0.9e-3, 12_800, 0.9e-3 * (0.9 / 1.6) ** 2),  # as much again in each of two times four
        (1.6e-3, 12_800, 1.6e-3),
        (4e-3, 12_800, 4e-3),
        (0.2e-3, 12_800, 0.2e-3 * 2 ** (-STEEPEST * 4)),
    ],
)
def test_a_rate_that_falls_with_the_length_falls_on_to_the_runs_and_is_not_carried_upwards(
    long: float, whole: int, expected: float
) -> None:
    chosen = choose(played_at_both(1.6e-3, long), Lengths(200, 800, whole))
    assert chosen is not None
    assert chosen.in_short == pytest.approx(1.6e-3, rel=1e-6)
    assert chosen.in_long == pytest.approx(long, rel=1e-6)
    assert chosen.learning_rate == pytest.approx(expected, rel=0.05)
    assert chosen.carried is (long < 1.6e-3)
    assert chosen.interval.value == pytest.approx(expected, rel=1e-6)
    # A repeat's bottom is as far off at both lengths: all say the same fall, and the interval is of bottoms.
    assert chosen.interval.high == pytest.approx(expected * 2 ** (0.1 * 4.303 / math.sqrt(3)), rel=1e-3)


def test_losses_that_do_not_depend_on_the_length_carry_nothing_on() -> None:
    """As GPT-2 124M had them in 200 iterations: the first repeat is the best elsewhere than the mean."""
    losses = {
        5.66e-4: (5.7648, 5.7464, 5.7376), 8e-4: (5.7237, 5.7159, 5.7362), 1.13e-3: (5.7166, 5.7085, 5.7205),
        1.6e-3: (5.7365, 5.6914, 5.7049), 2.26e-3: (5.7860, 5.7544, 5.7563),
    }  # fmt: skip

    def loss(rate: float, repeat: int) -> float:
        known = min(losses, key=lambda each: abs(math.log(each / rate)))
        return losses[known][repeat] + abs(math.log(known / rate)) ** 2

    trials: list[Trial] = []
    while asks := next_trials(trials, with_long=True):
        trials += [
            Trial(ask.learning_rate, ask.repeat, loss(ask.learning_rate, ask.repeat), ask.long)
            for ask in asks
        ]
    chosen = choose(trials, Lengths(200, 800, 12_800))
    assert chosen is not None
    assert chosen.learning_rate == float(f"{chosen.in_long:.2g}")
    assert chosen.in_long == pytest.approx(chosen.in_short, rel=0.02)


def disagreeing(whole: int, apart: float, mean: float = 1.2e-3) -> Chosen:
    """Bottoms alike in short trials, at 0.0016, and so many octaves apart around the mean in long ones."""
    trials: list[Trial] = []
    while asks := next_trials(trials, with_long=True):
        for ask in asks:
            bottom = mean * 2 ** (apart * (ask.repeat - 1)) if ask.long else 1.6e-3
            loss = math.log2(ask.learning_rate / bottom) ** 2
            trials.append(Trial(ask.learning_rate, ask.repeat, loss, ask.long))
    chosen = choose(trials, Lengths(200, 800, whole))
    assert chosen is not None
    return chosen


def test_repeats_that_disagree_on_the_fall_make_the_interval_wide() -> None:
    """0.1 octaves apart in trials of 800 iterations is 0.3 apart at 16 times that."""

    def upwards(whole: int) -> float:
        chosen = disagreeing(whole, 0.1)
        assert chosen.carried
        assert chosen.interval.high is not None
        return math.log2(chosen.interval.high / chosen.interval.value)

    assert upwards(12_800) == pytest.approx(3 * upwards(800), rel=1e-6)


def test_a_fall_that_the_repeats_do_not_agree_on_is_not_carried_on_and_is_in_the_interval() -> None:
    """Falls of 0.215, 0.415 and 0.615 octaves, whose interval 4.303 * 0.2 / sqrt(3) holds 0."""
    chosen = disagreeing(12_800, 0.2)
    assert not chosen.carried
    assert chosen.interval.value == pytest.approx(1.2e-3, rel=1e-6) == chosen.in_long
    carried, half = math.log2(1.2e-3) + 2 * math.log2(1.2 / 1.6), 3 * 4.303 * 0.2 / math.sqrt(3)
    assert chosen.interval.low == pytest.approx(2 ** (carried - half), rel=1e-3)
    assert chosen.interval.high == pytest.approx(2 ** (carried + half), rel=1e-3)


def test_an_interval_holds_the_rate_that_is_taken_as_it_is() -> None:
    """More than the steepest fall, as the repeats have it, and unknown: carried on it would end far below."""
    chosen = disagreeing(200_000, 0.8, mean=1.6e-3 * 2**-1.2)
    assert not chosen.carried
    assert chosen.interval.low is not None
    assert chosen.interval.low < chosen.interval.value == chosen.interval.high


def test_a_fall_that_is_read_off_cliffs_is_not_carried_on() -> None:
    """From 0.0033 to 0.0031, on two sides of a rate of the grid: by that the bottom falls half an octave."""
    trials: list[Trial] = []
    while asks := next_trials(trials, with_long=True):
        for ask in asks:
            diverges = ask.learning_rate > (3.1e-3 if ask.long else 3.3e-3)
            loss = None if diverges else 4 - 0.1 * math.log2(ask.learning_rate) + 0.01 * ask.repeat
            trials.append(Trial(ask.learning_rate, ask.repeat, loss, ask.long))
    chosen = choose(trials, Lengths(200, 800, 12_800))
    assert chosen is not None
    assert chosen.in_long == pytest.approx(chosen.in_short * 2**-FINE)
    assert not chosen.carried
    assert chosen.interval.low is not None
    assert chosen.interval.low < chosen.interval.value == pytest.approx(chosen.in_long)


def test_of_one_repeat_nothing_is_carried_on() -> None:
    """Losses that fall to the last rate have no bottom with both neighbours, and one rate for all repeats."""
    trials: list[Trial] = []
    while asks := next_trials(trials, with_long=True):
        for ask in asks:
            slope = math.log(ask.learning_rate)
            trials.append(Trial(ask.learning_rate, ask.repeat, slope if ask.long else -slope, ask.long))
    chosen = choose(trials, Lengths(200, 800, 12_800))
    assert chosen is not None
    assert chosen.at_the_end
    assert (chosen.carried, chosen.interval.high) == (False, None)


def test_gpt2_124m_in_200_and_800_iterations() -> None:
    """As an H200 had it (docs/log), from 0.0008 on in half octaves. The line through both led to 0.0007."""
    short = [
        (5.4916, 5.4756, 5.4852), (5.4647, 5.4650, 5.4437), (5.4796, 5.4550, 5.4708), (5.5020, 5.5142, 5.4905)
    ]  # fmt: skip
    long = [(4.4290, 4.4189, 4.4066), (4.4164, 4.4281, 4.3881), (4.5591, 4.5420, 4.5023)]
    trials = [
        Trial(8e-4 * 2 ** (FINE * number), repeat, loss, losses is long)
        for losses in (short, long)
        for number, three in enumerate(losses)
        for repeat, loss in enumerate(three)
    ]
    chosen = choose(trials, Lengths(200, 800, 3417))
    assert chosen is not None
    assert (chosen.learning_rate, chosen.carried) == (9.7e-4, False)
    assert chosen.in_short == pytest.approx(1.25e-3, rel=0.01)


@pytest.mark.parametrize(("fall", "whole"), [(0.0, 1600), (-0.3, 5800)])
def test_intervals_hold_the_truth_of_made_up_runs(fall: float, whole: int) -> None:
    """Bottoms that scatter by 0.15 octaves around a line, in every repeat and at both lengths."""
    rng = random.Random(7)
    held, tests = 0, 300
    for _ in range(tests):
        bottoms = {
            (repeat, long): math.log2(1.6e-3) + (2 * fall if long else 0.0) + rng.gauss(0, 0.15)
            for repeat in range(SEEDS)
            for long in (False, True)
        }
        trials: list[Trial] = []
        while asks := next_trials(trials, with_long=True):
            for ask in asks:
                loss = (math.log2(ask.learning_rate) - bottoms[ask.repeat, ask.long]) ** 2
                trials.append(Trial(ask.learning_rate, ask.repeat, loss, ask.long))
        chosen = choose(trials, Lengths(200, 800, whole))
        assert chosen is not None
        low, high = chosen.interval.low, chosen.interval.high
        truth = 1.6e-3 * 2 ** (fall * math.log2(whole / 200))
        held += low is not None and high is not None and low <= truth <= high
    assert 0.88 <= held / tests <= 0.99


def test_long_trials_begin_below_the_short_best_and_go_on_downhill() -> None:
    root = math.sqrt(2)

    def tried(long: float) -> list[tuple[float, int]]:
        return [(each.learning_rate, each.repeat) for each in played_at_both(1.6e-3, long) if each.long]

    near, far = tried(1.2e-3), tried(0.6e-3)
    assert [rate for rate, repeat in near if not repeat] == pytest.approx([0.8e-3, 1.6e-3 / root, 1.6e-3])
    assert len(near) == 3 * SEEDS
    assert [rate for rate, repeat in far if not repeat][3:] == pytest.approx([0.8e-3 / root, 0.4e-3])


def test_where_every_long_training_diverges_nothing_is_chosen_and_it_gives_up_soon() -> None:
    trials = played_at_both(1.6e-3, None)
    assert min(trial.learning_rate for trial in trials if trial.long) == pytest.approx(0.2e-3)
    assert choose(trials, Lengths(200, 800, 12_800)) is None


@pytest.mark.parametrize(
    ("short", "long", "asks", "left"),
    [
        (0, 0, [], 15 * 200 + 9 * 800),
        (14, 0, [], 200 + 9 * 800),
        (14, 0, [TrialRequest(1e-3, 1), TrialRequest(2e-3, 1)], 2 * 200 + 9 * 800),  # more than the fewest
        (17, 8, [], 800),
        (17, 8, [TrialRequest(1e-3, 1, long=True)] * 3, 3 * 800),
        (17, 9, [], 0),
        (17, 12, [], 0),
    ],
)
def test_what_is_left_are_the_asks_and_what_is_asked_for_in_any_case(
    short: int, long: int, asks: list[TrialRequest], left: int
) -> None:
    trials = [Trial(1e-3, 0, 3.0)] * short + [Trial(1e-3, 0, 3.0, long=True)] * long
    assert least_left(trials, asks, Lengths(200, 800, 4000)) == left
    if not long:
        assert least_left(trials, asks, Lengths(200, None, 700)) == left - 9 * 800
