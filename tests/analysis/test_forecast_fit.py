"""The fit against known ends, a second way of reckoning it, and what must not move it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.losses import DROP, EXPONENT, SHAPE, cosine, true_loss

from nanodyno.analysis.forecast_fit import (
    EXPONENTS,
    PACES,
    TURNS,
    Prediction,
    Prior,
    predict,
    shipped_prior,
)
from nanodyno.analysis.forecast_law import Array, Schedule, annealed, elapsed
from nanodyno.analysis.forecast_points import Curve, LossPoints, points_of

LAST = 10_000
END = np.array([float(LAST)])
PRIOR = replace(shipped_prior(), shape=SHAPE, exponent=EXPONENT, drop=DROP)


def curve(until: int, noise: float = 0.0, every: int = 100, schedule: Schedule | None = None) -> Curve:
    updates = np.arange(every, until + 1, every, dtype=np.float64)
    losses = true_loss(schedule or cosine(LAST), updates)
    return Curve(updates, losses + noise * np.random.default_rng(1).normal(size=len(losses)))


def end_of(seen: Curve, prior: Prior = PRIOR) -> Prediction:
    made = predict(seen, cosine(LAST), END, prior)
    assert made is not None
    return made


@pytest.mark.parametrize(("share", "within"), [(0.2, 0.03), (0.3, 0.02), (0.5, 0.01), (0.8, 0.002)])
def test_the_end_of_a_curve_that_follows_the_law_is_found(share: float, within: float) -> None:
    true = float(true_loss(cosine(LAST), END)[0])
    made = end_of(curve(int(share * LAST), noise=0.001))
    assert float(made.median[0]) == pytest.approx(true, abs=within)
    assert made.low[0] < true < made.high[0]


def test_an_interval_narrows_with_what_was_seen() -> None:
    spreads = [float(end_of(curve(until, noise=0.001)).spread[0]) for until in (1500, 3000, 5000, 8000, 9500)]
    assert spreads == sorted(spreads, reverse=True)


@pytest.mark.parametrize("shift", [-0.3, 0.6, 2.0])
def test_a_curve_that_is_raised_raises_its_forecast_by_as_much(shift: float) -> None:
    seen = curve(3000, noise=0.002)
    raised = Curve(seen.updates, seen.losses + shift)
    one, other = end_of(seen), end_of(raised)
    assert float(other.median[0] - one.median[0]) == pytest.approx(shift, abs=1e-6)
    assert other.spread == pytest.approx(one.spread, rel=1e-6)


def test_a_law_that_does_not_fit_the_newest_losses_is_less_certain() -> None:
    """A step of 0.03 down in the last fifth: nothing in the law or its noise brings it."""
    seen = curve(5000)
    stepped = Curve(seen.updates, seen.losses - 0.03 * (seen.updates > 4000))
    assert end_of(stepped).spread[0] > 1.5 * end_of(seen).spread[0]


def test_the_more_of_a_decay_is_ahead_the_less_certain_is_its_end() -> None:
    """By the share of the drop alone, with nothing else: a fall to the floor against one halfway there."""
    prior = replace(PRIOR, width=0.0, residual=np.inf, rarer=1e3, drop_misfit=0.1)
    seen = curve(3000)
    whole = predict(seen, cosine(LAST), END, prior)
    half = predict(seen, cosine(LAST, floor=0.5), END, prior)
    assert whole is not None
    assert half is not None
    assert whole.spread[0] > 2 * half.spread[0] > 0


def test_the_posterior_is_that_of_one_large_normal_conditioned_on_the_losses() -> None:
    """Another way to the same: all coefficients and walks as one covariance, for an exponent and a turn."""
    seen, schedule = curve(4000, noise=0.002, every=250), cosine(LAST)
    points = points_of(seen, schedule)
    assert points is not None
    made = end_of(seen)
    places = np.concatenate([points.updates, END])
    s = elapsed(schedule, places)
    now, found = float(s[-2]), []
    for z, chance in PACES:
        paced = replace(SHAPE, pace=SHAPE.pace * np.exp(PRIOR.pace_spread * z))
        fallen = annealed(schedule, places, paced)
        first = _conditioned(points, s, fallen, PRIOR.slope_scale * now**-PRIOR.exponent, TURNS[:1])
        of_pace = _conditioned(points, s, fallen, float(_shares(first[:, 0]) @ first[:, 3]), TURNS)
        of_pace[:, 0] += np.log(chance)
        found.append(of_pace)
    logs, medians, variances, _, falls, residuals = np.concatenate(found).T
    chance = _shares(logs).reshape(-1, len(EXPONENTS))
    medians, variances = medians.reshape(chance.shape), variances.reshape(chance.shape)
    of_turn = chance.sum(1)
    centres = (chance * medians).sum(1) / of_turn
    within = (chance * (variances + (medians - centres[:, None]) ** 2)).sum(1)
    median = float(of_turn @ centres)
    widths = np.tile([PRIOR.width, 1, 1, 1, 1], len(PACES))
    badly = 1 + float(chance.ravel() @ residuals) / PRIOR.residual
    widths = np.where(np.arange(len(widths)) % len(TURNS) == 0, widths * np.sqrt(badly), widths)
    variance = widths**2 @ (within + of_turn * (centres - median) ** 2)
    variance *= (1 + (PRIOR.short / np.log(now / s[0])) ** 2) * (1 + PRIOR.young / now)
    ahead = PRIOR.drop_misfit * float(chance.ravel() @ falls)
    variance += badly * ahead**2 + points.noise**2
    assert float(made.median[0]) == pytest.approx(median, abs=1e-4)
    assert float(made.spread[0]) == pytest.approx(np.sqrt(variance), rel=1e-3)


def _shares(logs: Array) -> Array:
    chance = np.exp(logs - logs.max())
    return chance / chance.sum()


def _conditioned(points: LossPoints, s: Array, fallen: Array, slope: float, turns: Sequence[float]) -> Array:
    """A row a turn and an exponent: log weight, median, variance, slope, fall ahead by the rate, residual."""
    n, now = len(s) - 1, float(s[-2])
    expected = PRIOR.slope_scale * now**-PRIOR.exponent
    steps = (PRIOR.wander * slope) ** 2 * np.abs(np.diff(now / s))
    so_far = np.concatenate([[0.0], np.cumsum(steps + PRIOR.anneal_wander**2 * np.abs(np.diff(fallen)))])
    turned, found = _turned(s, slope), []
    for number, turn in enumerate(turns):
        walk = np.minimum.outer(so_far, so_far) + turn**2 * turned
        for z in EXPONENTS:
            exponent = PRIOR.exponent * np.exp(PRIOR.exponent_spread * z)
            drop = PRIOR.drop * (exponent / PRIOR.exponent) ** PRIOR.drop_by_exponent
            rows = np.stack([np.ones(n + 1), (s / now) ** -exponent / exponent, -fallen], axis=1)
            scale = np.diag([100.0**2, (PRIOR.slope_spread * expected) ** 2, (drop * PRIOR.drop_spread) ** 2])
            mean = rows @ np.array([points.losses.mean(), expected, drop])
            cov = rows @ scale @ rows.T + walk
            known = cov[:n, :n] + np.diag(points.variances)
            gain, off = np.linalg.solve(known, cov[:n, n]), points.losses - mean[:n]
            weight = -0.5 * (off @ np.linalg.solve(known, off) + np.linalg.slogdet(known)[1] + z**2)
            moved = scale @ rows[:n].T @ np.linalg.solve(known, off)
            its_slope, its_drop = expected + moved[1], drop + moved[2]
            median, variance = mean[n] + gain @ off, cov[n, n] - gain @ cov[:n, n]
            ahead = its_drop * (fallen[n] - fallen[n - 1])
            its = rows[:n] @ (scale @ rows[:n].T @ np.linalg.solve(known, off))
            factor = np.linalg.cholesky(walk[:n, :n] + np.diag(points.variances))
            newest = np.linalg.solve(factor, off - its)[-(n // 3) :]
            found.append(
                [
                    weight - PRIOR.rarer * number,
                    median,
                    variance,
                    its_slope,
                    ahead,
                    newest @ newest / len(newest),
                ]
            )
    return np.array(found)


def _turned(s: Array, slope: float) -> Array:
    """Every pair of falls, summed one by one."""
    since = np.log(s / s[0])
    falls = slope * (s / s[-2]) ** -PRIOR.exponent * np.diff(since, prepend=0.0)
    return np.array(
        [
            [
                sum(falls[i] * falls[j] * min(since[i], since[j]) for i in range(a + 1) for j in range(b + 1))
                for b in range(len(s))
            ]
            for a in range(len(s))
        ]
    )


def test_a_slope_that_turns_is_followed_and_widens_the_interval() -> None:
    """A fall that begins late, as of a small model on bytes: no law has it, and little is sure of its end."""
    schedule = Schedule(np.full(LAST, 1.0))

    def late(at: Array) -> Array:
        return 2.2 - 0.6 * np.tanh(0.7 * np.log(at / 1200))

    at = np.arange(100, 3001, 50, dtype=np.float64)
    turning = predict(Curve(at, late(at)), schedule, END, PRIOR)
    lawful = predict(Curve(at, true_loss(schedule, at)), schedule, END, PRIOR)
    assert turning is not None
    assert lawful is not None
    assert turning.low[0] < late(END)[0] < turning.high[0]
    assert turning.spread[0] > 3 * lawful.spread[0]


def test_a_larger_model_is_thought_to_gain_more_by_a_decay() -> None:
    """By the power of its size that was learned, at most fourfold; an unknown size is the typical one."""
    prior = replace(PRIOR, drop=0.2, drop_growth=0.1, typical_parameters=1e8)
    assert prior.of_size(None) == prior
    assert prior.of_size(2e8).drop == pytest.approx(0.2 * 2**0.1)
    assert prior.of_size(1e12).drop == pytest.approx(0.2 * 4**0.1)
    assert prior.of_size(1e6).drop == pytest.approx(0.2 / 4**0.1)


def test_spikes_and_numbers_that_are_none_do_not_move_it() -> None:
    seen = curve(5000, noise=0.001)
    losses = seen.losses.copy()
    losses[[20, 33]] += 0.5
    losses[[25, 40]] = np.nan
    spoiled = end_of(Curve(seen.updates, losses))
    assert spoiled.spikes == 2
    assert float(spoiled.median[0]) == pytest.approx(float(end_of(seen).median[0]), abs=0.003)


def test_a_fall_to_another_level_is_no_spike() -> None:
    rates = Schedule(np.where(np.arange(LAST) < 5000, 1.0, 0.1))
    made = predict(curve(8000, schedule=rates), rates, END, PRIOR)
    assert made is not None
    assert made.spikes == 0
    assert float(made.median[0]) == pytest.approx(float(true_loss(rates, END)[0]), abs=0.003)


def test_losses_of_batches_help_where_evaluations_are_few() -> None:
    """Five evaluations tell a level and hardly a slope; batches at a distance of 0.1 tell the slope."""
    seen = curve(3000, every=600, noise=0.003)
    at = np.arange(0, 3000, 10, dtype=np.float64)
    rng = np.random.default_rng(2)
    batches = true_loss(cosine(LAST), np.maximum(at, 1)) - 0.1 + 0.02 * rng.normal(size=len(at))
    prior = replace(PRIOR, residual=np.inf)
    alone, helped = end_of(seen, prior), end_of(Curve(seen.updates, seen.losses, at, batches), prior)
    assert helped.spread[0] < 0.95 * alone.spread[0]
    assert float(helped.median[0]) == pytest.approx(float(true_loss(cosine(LAST), END)[0]), abs=0.02)


def test_no_interval_reaches_below_nothing() -> None:
    wide = Prediction(END, np.array([1.5]), np.array([2.0]), spikes=0)
    assert wide.low[0] == 0
    assert wide.high[0] == pytest.approx(1.5 + 1.2816 * 2.0)


def test_one_point_is_too_few_and_two_are_wide() -> None:
    assert predict(curve(100), cosine(LAST), END, PRIOR) is None
    assert predict(Curve(np.zeros(0), np.zeros(0)), cosine(LAST), END, PRIOR) is None
    assert end_of(curve(2000, every=1000)).spread[0] > 1.15 * end_of(curve(2000, every=200)).spread[0]


def test_intervals_hold_the_end_of_curves_that_wander_as_they_are_thought_to() -> None:
    """Laws drawn from the prior, with its walk: 80% intervals of width 1 hold 72 to 88 of 100 ends."""
    prior = replace(PRIOR, width=1.0, pace_spread=0.0, short=0.0, young=0.0, drop_misfit=0.0)
    prior = replace(prior, residual=np.inf)
    schedule, rng = cosine(LAST), np.random.default_rng(3)
    updates = np.arange(200, 3001, 40, dtype=np.float64)
    places = np.concatenate([updates, END])
    s, fallen = elapsed(schedule, places), annealed(schedule, places, SHAPE)
    held = 0
    for _ in range(100):
        drawn = _drawn(prior, s, fallen, float(s[len(updates) - 1]), rng)
        seen = Curve(updates, drawn[:-1] + 0.002 * rng.normal(size=len(updates)))
        made = predict(seen, schedule, END, prior)
        assert made is not None
        true = drawn[-1] + 0.002 * rng.normal()
        held += made.low[0] < true < made.high[0]
    assert 72 <= held <= 88


def _drawn(prior: Prior, s: Array, fallen: Array, now: float, rng: np.random.Generator) -> Array:
    exponent = prior.exponent * np.exp(prior.exponent_spread * rng.normal())
    slope = prior.slope_scale * now**-prior.exponent
    steps = (prior.wander * slope) ** 2 * np.abs(np.diff(now / s)) + prior.anneal_wander**2 * np.abs(
        np.diff(fallen)
    )
    walk = np.concatenate([[0.0], np.cumsum(np.sqrt(steps) * rng.normal(size=len(steps)))])
    drop = prior.drop * (exponent / prior.exponent) ** prior.drop_by_exponent
    drop *= 1 + prior.drop_spread * rng.normal()
    return 3.0 + slope * (s / now) ** -exponent / exponent - drop * fallen + walk
