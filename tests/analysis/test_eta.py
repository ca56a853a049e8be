import pytest

from nanodyno.analysis.eta import (
    eta_seconds,
    evaluation_seconds,
    remaining_evaluations,
    remaining_iterations,
    remaining_work,
)
from nanodyno.config import build_config


@pytest.fixture
def config():
    """100 iterations with evaluations at 0, 30, 60, 90 and 100."""
    return build_config({"max_iters": 100, "eval_interval": 30, "warmup_iters": 10})


@pytest.mark.parametrize(
    ("done", "last_eval", "left"),
    [
        (0, None, 5),
        (0, 0, 4),
        (29, 0, 4),
        (30, 0, 4),
        (30, 30, 3),
        (31, 30, 3),
        (95, 90, 1),
        (100, 90, 1),
        (100, 100, 0),
    ],
)
def test_evaluations_left_are_those_at_the_interval_and_the_one_at_the_end(config, done, last_eval, left):
    assert remaining_evaluations(config, done, last_eval) == left


def test_an_end_on_the_interval_is_one_evaluation_and_not_two():
    config = build_config({"max_iters": 60, "eval_interval": 30, "warmup_iters": 10})
    assert remaining_evaluations(config, 30, 30) == 1


def test_the_time_left_counts_iterations_and_evaluations(config):
    assert eta_seconds(config, 40, 30, 2.0, 7.0) == 60 * 2.0 + 3 * 7.0


def test_the_time_left_is_unknown_while_a_step_or_an_evaluation_has_no_time(config):
    assert eta_seconds(config, 0, 0, None, 7.0) is None
    assert eta_seconds(config, 40, None, 2.0, None) is None


def test_a_finished_run_has_no_time_left(config):
    assert eta_seconds(config, 100, 100, None, None) == 0.0
    assert remaining_iterations(config, 100) == 0


def test_only_the_last_evaluation_is_left_after_the_last_iteration(config):
    assert eta_seconds(config, 100, 90, None, 7.0) == 7.0


def test_a_run_that_only_evaluates_has_one_evaluation_to_do():
    config = build_config({"max_iters": 100, "eval_only": True, "warmup_iters": 10})
    assert remaining_iterations(config, 0) == 0
    assert eta_seconds(config, 0, None, None, 7.0) == 7.0
    assert eta_seconds(config, 0, 0, None, None) == 0.0


def test_ten_billion_tokens_of_the_case_take_49_5_hours():
    config = build_config({"max_iters": 19_073, "eval_interval": 20_000})
    eta = eta_seconds(config, 0, 0, 9.34, 0.0)
    assert eta is not None
    assert eta / 3600 == pytest.approx(49.5, abs=0.05)


def test_an_evaluation_takes_its_median_time_and_that_of_the_save_after_it():
    assert evaluation_seconds([10.0, 11.0, 90.0], [2.0, 4.0]) == 11.0 + 3.0
    assert evaluation_seconds([10.0], []) == 10.0
    assert evaluation_seconds([10.0] * 9, [4.0, 4.0]) == 10.0 + 4.0 / 4
    assert evaluation_seconds([], [2.0]) is None


def test_a_ramp_makes_the_iterations_ahead_count_for_more():
    """Iterations of 1000 tokens at 0 to 4000, then of 4000: 5 and 5 of them."""
    settings = {"batch_size": 1, "block_size": 1000, "tokens_per_iter": 1000, "max_iters": 10}
    config = build_config(settings | {"batch_ramp": "4001:4000", "eval_interval": 100})
    assert remaining_work(config, 0) == 25
    assert remaining_work(config, 3) == 22
    assert remaining_work(config, 7) == 3  # of the size that now is
    assert remaining_work(config, 10) == 0
    assert eta_seconds(config, 3, 0, 2.0, 10.0) == 22 * 2.0 + 10.0
    assert (
        remaining_work(
            build_config(settings | {"batch_ramp": "noise", "batch_size": 1, "block_size": 500}), 4
        )
        == 6
    )
