"""Learning rates worked out by hand, with a peak of 1 and a floor of 0.2."""

import math

import pytest

from nanodyno.config import RunConfig, build_config
from nanodyno.schedule import learning_rate_at


def run(**changes: object) -> RunConfig:
    settings: dict[str, object] = {
        "learning_rate": 1.0,
        "min_lr": 0.2,
        "warmup_iters": 4,
        "lr_decay_iters": 20,
        "max_iters": 30,
    }
    return build_config(settings | changes)


def rates(config: RunConfig, *iterations: int) -> list[float]:
    return [learning_rate_at(config, iteration) for iteration in iterations]


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant", "wsd"])
def test_warm_up_climbs_in_equal_steps_and_not_from_zero(schedule: str) -> None:
    assert rates(run(schedule=schedule), 0, 1, 2, 3, 4) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_without_warm_up_the_first_iteration_has_the_peak() -> None:
    assert learning_rate_at(run(warmup_iters=0), 0) == 1.0


def test_cosine_is_at_its_middle_half_way_between_warm_up_and_end() -> None:
    # From 4 to 20. A quarter of the way, the share left is (1 + cos 45 degrees) / 2.
    quarter = 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2
    assert rates(run(), 4, 8, 12, 20, 21, 29) == pytest.approx([1.0, quarter, 0.6, 0.2, 0.2, 0.2])


def test_linear_falls_by_the_same_each_iteration() -> None:
    # 0.8 over 16 iterations: 0.05 each.
    config = run(schedule="linear")
    assert rates(config, 4, 5, 12, 19, 20, 21) == pytest.approx([1.0, 0.95, 0.6, 0.25, 0.2, 0.2])


def test_constant_never_decays() -> None:
    assert rates(run(schedule="constant"), 4, 12, 20, 29) == [1.0] * 4


def test_wsd_holds_the_peak_and_decays_over_the_last_fifth() -> None:
    # A fifth of 20 is 4: from 16 to 20, a quarter of 0.8 each.
    config = run(schedule="wsd")
    assert rates(config, 4, 10, 16, 17, 18, 19, 20, 21) == pytest.approx(
        [1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2]
    )


def test_wsd_that_decays_all_the_way_is_linear() -> None:
    wsd, linear = run(schedule="wsd", wsd_decay_fraction=1.0), run(schedule="linear")
    assert rates(wsd, *range(30)) == rates(linear, *range(30))


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant", "wsd"])
def test_decay_lr_false_keeps_the_peak_from_the_first_iteration(schedule: str) -> None:
    assert set(rates(run(schedule=schedule, decay_lr=False), *range(30))) == {1.0}


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_a_warm_up_longer_than_the_run_only_climbs(schedule: str) -> None:
    config = run(schedule=schedule, warmup_iters=99, lr_decay_iters=30)
    assert rates(config, 0, 29) == pytest.approx([0.01, 0.3])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_a_decay_that_ends_with_the_warm_up_drops_to_the_floor(schedule: str) -> None:
    config = run(schedule=schedule, warmup_iters=20)
    assert rates(config, 19, 20, 21) == pytest.approx([20 / 21, 1.0, 0.2])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_the_rate_never_rises_after_warm_up_nor_leaves_its_bounds(schedule: str) -> None:
    after = rates(run(schedule=schedule), *range(4, 40))
    assert after == sorted(after, reverse=True)
    assert (min(after), max(after)) == pytest.approx((0.2, 1.0))
