"""The estimates against every possible draw of a small problem, and against gradients drawn in float64."""

import itertools
import math

import numpy as np
import pytest

from nanodyno.noise import (
    ENOUGH,
    KEPT,
    LONGEST,
    REACH,
    WINDOW,
    Sample,
    noise_scale,
    recent,
    sample,
    whole_scale,
)

PEOPLE = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, -1.0]])
"""Three gradients of which each draw takes one. Their mean is (4/3, 1/3): a square of 17/9. The squares of
their distances from it are 2/9, 41/9 and 41/9: a variance of 28/9 in all."""


@pytest.mark.parametrize(("micro_steps", "micro_batch"), [(2, 1), (3, 1), (2, 2)])
def test_over_all_draws_the_estimates_are_the_true_signal_and_noise(
    micro_steps: int, micro_batch: int
) -> None:
    found = []
    for draw in itertools.product(PEOPLE, repeat=micro_steps * micro_batch):
        small = np.linalg.norm(np.mean(draw[:micro_batch], axis=0))
        big = np.linalg.norm(np.mean(draw, axis=0))
        each = sample(float(small), micro_batch, float(big), micro_steps * micro_batch)
        assert each is not None
        found.append(each)
    assert np.mean([each.signal for each in found]) == pytest.approx(17 / 9)
    assert np.mean([each.noise for each in found]) == pytest.approx(28 / 9)


def draws(repeats: int, micro_steps: int, seed: int = 0) -> tuple[list[Sample], np.ndarray, np.ndarray]:
    """Gaussian gradients of micro-batches of 4 around a known mean; its vector, and the variances."""
    rng = np.random.default_rng(seed)
    mean, variances = rng.normal(size=12) / 4, rng.uniform(0.5, 4.0, size=12)
    micro = mean + rng.normal(size=(repeats, micro_steps, 12)) * np.sqrt(variances / 4)
    small = np.linalg.norm(micro[:, 0], axis=1)
    big = np.linalg.norm(micro.mean(1), axis=1)
    pairs = zip(small.tolist(), big.tolist(), strict=True)
    return [each for s, b in pairs if (each := sample(s, 4, b, 4 * micro_steps))], mean, variances


def test_their_variances_are_those_derived_in_the_docs() -> None:
    m = 8
    found, mean, variances = draws(40_000, m)
    tau, gamma = float(((variances / 4) ** 2).sum()), float((mean**2 * variances / 4).sum())
    signals, noises = ([getattr(each, kind) for each in found] for kind in ("signal", "noise"))
    assert np.mean(signals) == pytest.approx((mean**2).sum(), abs=float(np.std(signals)) / 50)
    assert np.mean(noises) == pytest.approx(variances.sum(), abs=float(np.std(noises)) / 50)
    assert np.var(signals) == pytest.approx((4 * tau / m + 4 * gamma) / (m - 1), rel=0.05)
    assert np.var(noises) / 16 == pytest.approx((2 * tau * (m + 1) + 4 * gamma * m) / (m - 1), rel=0.05)


def test_the_interval_holds_the_true_scale_in_about_95_of_100() -> None:
    inside = 0
    found, mean, variances = draws(300 * 120, 8)
    true = variances.sum() / (mean**2).sum()
    for trial in range(300):
        scale = noise_scale(found[trial * 120 : (trial + 1) * 120])
        assert scale is not None
        inside += scale.low is not None and scale.low <= true <= (scale.high or math.inf)
    assert 0.90 <= inside / 300 <= 0.985  # three deviations of 300 trials below 95%, and not always


def test_the_scale_is_the_ratio_of_the_averages_and_not_the_average_of_ratios() -> None:
    pair = [Sample(1.0, 10.0), Sample(3.0, 10.0)] * 200
    scale = noise_scale(pair)
    assert scale is not None
    # 10 over about 2 (the last one, of 3, weighs a little more); the mean of 10 and 3.33 would be 6.67.
    assert scale.tokens == pytest.approx(5.0, rel=0.01)


def test_a_change_has_reached_63_percent_after_the_window() -> None:
    steps = [Sample(1.0, 100.0)] * KEPT + [Sample(1.0, 200.0)] * WINDOW
    scale = noise_scale(steps)
    assert scale is not None
    assert scale.tokens == pytest.approx(200 - 100 / math.e, rel=0.02)


def test_the_first_iterations_with_their_large_signal_are_outgrown_by_the_second_half() -> None:
    """30 of a signal of 20, then 1: an average over all 96 would be near 100 / 4, and call itself settled."""
    run = [Sample(20.0, 1000.0)] * 30 + [Sample(1.0 + 0.01 * (at % 3), 1000.0) for at in range(66)]
    scale = noise_scale(recent(run))
    assert scale is not None
    assert scale.tokens == pytest.approx(1000, rel=0.02)
    assert (len(recent(run)), len(recent(run[:40])), len(recent(run[:20]))) == (48, 32, 20)
    assert noise_scale(recent(run * 6)) == noise_scale((run * 6)[-KEPT:])  # of a long run the latest


def test_more_iterations_make_a_longer_window_and_a_narrower_interval() -> None:
    """Of a scale of six times the batch: unsettled by 400 of them, and known to a tenth by 12,800."""
    found, mean, variances = draws(8 * LONGEST, 2, seed=4)
    widths = []
    for count in (400, 3200, 8 * LONGEST):
        scale = whole_scale(found[:count])
        assert scale is not None
        assert scale.low is not None
        widths.append((scale.high or math.inf) / scale.low)
        assert scale.samples == count // 2
    assert widths[0] > widths[1] > widths[2]
    assert scale.low <= variances.sum() / (mean**2).sum() <= (scale.high or 0.0)
    assert whole_scale(found[:400]) == noise_scale(recent(found[:400]))
    assert whole_scale(found * 2) == noise_scale((found * 2)[-REACH * LONGEST :], LONGEST)
    assert whole_scale([]) is None


def test_a_signal_that_cannot_be_reported_from_zero_has_no_upper_end_and_is_not_settled() -> None:
    rng = np.random.default_rng(1)
    noisy = [Sample(float(s), 10.0 + float(s)) for s in rng.normal(0.01, 1.0, size=100)]
    scale = noise_scale(noisy)
    assert scale is not None
    assert scale.high is None
    assert not scale.settled
    below = noise_scale([Sample(-1.0, 5.0)] * 50)
    assert below is not None
    assert below.tokens is None
    assert not below.settled


def test_noise_that_drowns_the_signal_still_has_a_lower_end() -> None:
    """Signals of 0 on average, a deviation of 1: about 2 / sqrt(100) at most, under a noise of 10."""
    rng = np.random.default_rng(2)
    drowned = noise_scale([Sample(float(s), 10.0) for s in rng.normal(0.0, 1.0, size=KEPT)])
    assert drowned is not None
    assert drowned.low is not None
    assert 20 < drowned.low < 200
    assert drowned.high is None


def test_too_few_iterations_have_not_settled_however_alike_they_are() -> None:
    few, enough = (
        noise_scale([Sample(1.0 + 0.01 * (i % 3), 8.0) for i in range(n)]) for n in (ENOUGH - 1, ENOUGH)
    )
    assert few is not None
    assert enough is not None
    assert (few.settled, enough.settled) == (False, True)


@pytest.mark.parametrize("norms", [(math.nan, 1.0), (1.0, math.inf), (1e200, 1.0)])
def test_norms_that_are_no_numbers_tell_nothing(norms: tuple[float, float]) -> None:
    assert sample(norms[0], 4, norms[1], 8) is None


def test_one_micro_step_tells_nothing() -> None:
    assert sample(1.0, 8, 1.0, 8) is None
    assert noise_scale([]) is None
