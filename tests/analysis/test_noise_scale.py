"""The noise scale of made-up records whose signal and noise are known, and what is advised from it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from nanodyno.analysis.effective import BatchSizeAdvice, advise_batch
from nanodyno.analysis.noise_scale import before_decay, course, heading, latest, measured
from nanodyno.config import RunConfig, build_config
from nanodyno.records.types import StepRecord

Builder = Callable[..., Any]
TOKENS, MICRO = 65_536, 8_192


def noisy(
    build: Builder, count: int, scale: Callable[[int], float], wobble: float = 0.05, **changes: Any
) -> list[StepRecord]:
    """Steps whose squares are 1 + scale / tokens: a signal of 1; each wobbles around it, up and down."""

    def one(at: int) -> StepRecord:
        off = 1 + wobble * math.sin(2.4 * at)
        return build(
            at, tokens=TOKENS, micro_tokens=MICRO, grad_norm=math.sqrt((1 + scale(at) / TOKENS) * off),
            micro_grad_norm=math.sqrt(1 + scale(at) / MICRO), **changes,
        )  # fmt: skip

    return [one(at) for at in range(count)]


@pytest.fixture
def config() -> RunConfig:
    return build_config({"batch_size": 8, "tokens_per_iter": TOKENS, "max_iters": 4000})


def advice(steps: Sequence[StepRecord], config: RunConfig) -> BatchSizeAdvice:
    return advise_batch(list(steps), config)


def test_the_scale_is_that_of_the_records(step: Builder) -> None:
    scale = latest(noisy(step, 200, lambda _: 40_000.0))
    assert scale is not None
    assert scale.tokens == pytest.approx(40_000, rel=0.02)
    assert scale.settled


def test_skipped_updates_and_numbers_that_are_none_do_not_count(step: Builder) -> None:
    steps = noisy(step, 6, lambda _: 40_000.0)
    steps[1] = steps[1].model_copy(update={"skipped": "not-finite", "grad_norm": math.nan})
    steps[2] = steps[2].model_copy(update={"micro_grad_norm": math.nan})
    steps[3] = steps[3].model_copy(update={"micro_grad_norm": None, "micro_tokens": None})
    assert [each.iteration for each, _ in measured(steps)] == [0, 4, 5]


@pytest.mark.parametrize(
    ("scale", "verdict"), [(40_000.0, "large"), (100_000.0, "within"), (200_000.0, "small")]
)
def test_a_batch_between_half_and_all_of_the_scale_serves(
    step: Builder, config: RunConfig, scale: float, verdict: str
) -> None:
    reported = advice(noisy(step, 200, lambda _: scale, wobble=0.01), config)
    assert reported.verdict == verdict
    assert reported.critical_batch_range == pytest.approx((scale / 2, scale), rel=0.05)
    assert reported.token_cost_ratio == pytest.approx(1 + TOKENS / scale, rel=0.05)


@pytest.mark.parametrize("scale", [64_000.0, 134_000.0])
def test_a_batch_that_the_interval_leaves_open_is_neither_small_nor_large(
    step: Builder, config: RunConfig, scale: float
) -> None:
    """65,536 beside a scale, and beside half of one, that is known to some percent."""
    reported = advice(noisy(step, 200, lambda _: scale, wobble=0.5), config)
    assert reported.scale is not None
    assert reported.scale.tokens is not None
    assert reported.scale.low is not None
    assert reported.scale.high is not None
    assert (
        reported.scale.tokens < TOKENS < reported.scale.high
        or reported.scale.low < 2 * TOKENS < reported.scale.tokens
    )
    assert reported.verdict == "open"


def test_the_suggestion_is_the_doubling_of_a_sequence_next_to_the_middle_of_what_serves(
    step: Builder, config: RunConfig
) -> None:
    assert advice(noisy(step, 200, lambda _: 40_000.0), config).suggested == 32_768  # 28,284
    assert advice(noisy(step, 200, lambda _: 30_000.0), config).suggested == 16_384  # 21,213
    assert advice(noisy(step, 200, lambda _: 300.0, 0.001), config).suggested == 1024  # a sequence at least


def test_no_advice_from_too_few_iterations_or_from_a_wide_interval(step: Builder, config: RunConfig) -> None:
    for steps in (noisy(step, 20, lambda _: 40_000.0), noisy(step, 200, lambda _: 4e6, wobble=0.9)):
        reported = advice(steps, config)
        assert reported.verdict == "not-settled"
        assert (
            reported.critical_batch_range,
            reported.suggested,
            reported.token_cost_ratio,
            reported.heading,
            reported.ramp,
        ) == (None,) * 4 + ((),)


def test_what_was_measured_at_a_fallen_learning_rate_is_left_out_of_the_advice(
    step: Builder, config: RunConfig
) -> None:
    """A rate held over 200 iterations, then down to nothing in 100, at which the scale becomes 8 times it."""
    rates = [1e-3] * 200 + [1e-3 * (1 - at / 100) for at in range(1, 101)]
    steps = noisy(step, 300, lambda at: 40_000.0 if at < 250 else 320_000.0, wobble=0.01)
    steps = [each.model_copy(update={"learning_rate": rate}) for each, rate in zip(steps, rates, strict=True)]
    reported = advice(steps, config)
    assert reported.decayed_at == 250  # that with half of it is in
    assert reported.verdict == "large"
    assert reported.critical_batch_range == pytest.approx((20_000, 40_000), rel=0.05)
    assert advice(steps[:220], config).decayed_at is None
    assert max(point.tokens_seen for point in reported.points) <= 250 * TOKENS


def test_a_rate_that_belongs_to_a_smaller_batch_has_not_fallen(step: Builder) -> None:
    """Of a quarter of the batch half the rate; and warm-up climbs to a peak that is not there yet."""
    steps = [step(0, tokens=64, learning_rate=1e-5), step(1, tokens=256, learning_rate=2e-3)]
    assert len(before_decay([*steps, step(2, tokens=64, learning_rate=1e-3)])) == 3
    assert len(before_decay([*steps, step(2, tokens=64, learning_rate=4e-4)])) == 2
    assert before_decay([]) == []


def test_a_micro_batch_that_divides_the_suggestion_comes_with_it(step: Builder) -> None:
    twelve = build_config({"batch_size": 12, "tokens_per_iter": 12 * 8192, "max_iters": 4000})
    reported = advice(noisy(step, 200, lambda _: 25_000.0), twelve)
    assert (reported.suggested, reported.batch_size) == (16_384, 8)  # 16 sequences: 12 does not divide them


@pytest.mark.parametrize(("micro_steps", "lack"), [(1, "one-micro-step"), (8, "no-sample")])
def test_runs_without_norms_are_not_measured(
    step: Builder, config: RunConfig, micro_steps: int, lack: str
) -> None:
    reported = advice([step(at, micro_steps=micro_steps) for at in range(50)], config)
    assert (reported.verdict, reported.lack) == ("not-measured", lack)
    none = advice([], config)
    assert (none.verdict, none.lack) == ("not-measured", "no-iteration")


def test_a_run_that_the_noise_grew_has_its_way_to_go_by_iterations(step: Builder, config: RunConfig) -> None:
    """At 2,500 of 4,000 iterations, four times as large from 300 on: more tokens than 4,000 of the first."""
    by_noise = build_config(config.model_dump() | {"batch_ramp": "noise"})
    steps = noisy(step, 2500, lambda _: 40_000.0, wobble=0.01)
    grown = [*steps[:300], *(each.model_copy(update={"tokens": 4 * each.tokens}) for each in steps[300:])]
    reported = advice(grown, by_noise)
    assert reported.heading is not None
    assert reported.heading.tokens_seen == sum(each.tokens for each in grown) + 1500 * 4 * TOKENS
    assert advice([*grown[:-1], grown[-1].model_copy(update={"iteration": 3999})], by_noise).heading is None


def test_a_scale_that_grows_as_the_root_of_the_tokens_is_forecast_so(
    step: Builder, config: RunConfig
) -> None:
    """30,000 at 1000 iterations: 60,000 at 4000, the end."""
    steps = noisy(step, 1000, lambda at: 30_000 * math.sqrt((at + 1) / 1000), wobble=0.01)
    reported = advice(steps, config)
    assert reported.heading is not None
    assert reported.heading.exponent == pytest.approx(0.5, abs=0.06)
    assert reported.heading.tokens == pytest.approx(60_000, rel=0.15)
    # From 16,384 on; 0.71 of it comes to 32,768 when it is 46,341: at (46,341 / 60,000)^2 of 262M tokens.
    ((since, size),) = reported.ramp
    assert (reported.suggested, size) == (16_384, 32_768)
    share = 32_768 / math.sqrt(0.5) / reported.heading.tokens
    assert since == pytest.approx(share ** (1 / reported.heading.exponent) * 4000 * TOKENS, rel=1e-6)


def test_a_scale_that_stays_calls_for_no_ramp(step: Builder, config: RunConfig) -> None:
    """A rise of a thousandth in all: a doubling would come after more tokens than a number holds."""
    reported = advice(noisy(step, 1000, lambda at: 40_000 + 0.04 * at, wobble=0.0001), config)
    assert reported.heading is not None
    assert 0 < reported.heading.exponent < 0.01
    assert reported.ramp == ()


def test_the_loss_of_a_stretch_is_the_mean_of_its_iterations(step: Builder) -> None:
    """Of 48 in turn at 3 and at 4."""
    steps = noisy(step, 48, lambda _: 20_000.0, wobble=0.01)
    (point,) = course([each.model_copy(update={"loss": 3.0 + at % 2}) for at, each in enumerate(steps)])
    assert point.loss == pytest.approx(3.5)


def test_a_heading_needs_four_points_and_a_way_to_go(step: Builder) -> None:
    points = course(noisy(step, 1000, lambda _: 20_000.0, wobble=0.01))
    assert heading(points[:3], 10**9) is None
    assert heading(points, 1000) is None
    assert heading(points, 10**9) is not None
