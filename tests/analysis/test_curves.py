import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.analysis.accounts import account

from nanodyno.analysis.account import AccountEval
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.curves import last_of_stretches, loss_on, losses_at_equal, noise_of


def test_losses_meet_at_the_furthest_evaluation_that_both_have_reached() -> None:
    one = account("a", evals=(AccountEval(100, 5.0), AccountEval(200, 4.0), AccountEval(300, 3.5)))
    other = account("b", evals=(AccountEval(100, 5.2), AccountEval(200, 4.4)))
    found = losses_at_equal([one, other], "tokens")
    assert found is not None
    assert found.at == 200 * 524288
    assert [each.loss for each in found.losses.values()] == [4.0, 4.4]


def test_between_two_evaluations_the_loss_lies_on_the_line_over_the_logarithm() -> None:
    """Half as many tokens an iteration: at the other's 150th it is at its 300th, between 200 and 400."""
    one = account("a", evals=(AccountEval(100, 5.0), AccountEval(150, 4.5)))
    small = {"gradient_accumulation_steps": 32}
    other = account("b", settings=small, evals=(AccountEval(200, 5.0), AccountEval(400, 4.0)))
    found = losses_at_equal([one, other], "tokens")
    assert found is not None
    share = math.log(301 / 201) / math.log(401 / 201)
    assert found.losses["b"].loss == pytest.approx(5.0 - share)
    assert found.losses["a"].loss == 4.5


def test_at_equal_time_the_faster_one_has_gone_further() -> None:
    evals = tuple(AccountEval(at, 6 - at / 100) for at in (100, 200, 300, 400))
    found = losses_at_equal(
        [account("a", seconds=1.0, evals=evals), account("b", seconds=0.5, evals=evals)], "seconds"
    )
    assert found is not None
    assert found.at == pytest.approx(200.0)
    assert found.losses["a"].loss == pytest.approx(4.0)
    assert found.losses["b"].loss == pytest.approx(2.0)


@pytest.mark.parametrize("evals", [(), (AccountEval(500, 4.0),), (AccountEval(100, math.nan),)])
def test_without_a_common_place_there_is_none(evals: tuple[AccountEval, ...]) -> None:
    one = account("a", evals=(AccountEval(100, 5.0), AccountEval(200, 4.0)))
    assert losses_at_equal([one, account("b", evals=evals)], "tokens") is None


def test_the_noise_of_evaluations_is_judged_by_their_curve() -> None:
    """The same smooth fall with noise of 0.02 drawn over it, many times: the median of what is judged."""
    draw = random.Random(1)
    judged: list[float] = []
    for _ in range(200):
        evals = [
            AccountEval(at, 8 - 0.6 * math.log(at) + draw.gauss(0, 0.02)) for at in range(250, 5250, 250)
        ]
        found = noise_of(evals)
        assert found is not None
        judged.append(found)
    assert sorted(judged)[100] == pytest.approx(0.02, rel=0.1)


def test_too_few_evaluations_have_no_judged_noise() -> None:
    assert noise_of([AccountEval(at, 5.0) for at in (1, 2, 3, 4)]) is None


def test_the_same_iteration_evaluated_twice_counts_once_with_its_later_word() -> None:
    evals = (AccountEval(100, 5.0), AccountEval(200, 9.0), AccountEval(200, 4.0))
    found = losses_at_equal([account("a", evals=evals), account("b", evals=evals)], "iterations")
    assert found is not None
    assert found.losses["a"].loss == 4.0


def test_between_evaluations_that_are_far_apart_nothing_is_read() -> None:
    """At the other's 150th it is between its 50th and its 400th; at its 400th the other has not been."""
    small = {"gradient_accumulation_steps": 32}
    one = account("a", evals=(AccountEval(0, 10.9), AccountEval(25, 6.9), AccountEval(150, 4.5)))
    other = account(
        "b", settings=small, evals=(AccountEval(0, 10.9), AccountEval(50, 6.8), AccountEval(400, 4.0))
    )
    found = losses_at_equal([one, other], "tokens")
    assert found is not None
    assert (found.at, found.losses["a"].loss) == (25 * 8 * 64 * 1024, 6.9)


def test_two_untrained_models_have_no_loss_in_common() -> None:
    one, other = (
        account("a", evals=(AccountEval(0, 10.9),)),
        account("b", evals=(AccountEval(0, 10.8), AccountEval(100, 6.0))),
    )
    assert losses_at_equal([one, other], "tokens") is None


def test_the_fall_from_the_untrained_model_is_no_noise() -> None:
    trained = [AccountEval(at, 2.0 + 8.0 * at**-0.5) for at in range(25, 225, 25)]
    assert noise_of([AccountEval(0, 10.9), *trained]) == noise_of(trained)


def test_a_curve_can_be_read_up_to_where_its_evaluations_lie_too_far_apart() -> None:
    evals = [AccountEval(at, 5.0) for at in (0, 25, 50, 100, 300, 500)]
    assert last_of_stretches(evals) == [0, 100, 500]
    assert loss_on(account(evals=evals), "iterations", 80) is not None
    assert loss_on(account(evals=evals), "iterations", 200) is None


def test_of_a_smooth_curve_that_bends_little_is_taken_for_noise() -> None:
    """A power law early in training, which falls by a nat in these eight evaluations."""
    found = noise_of([AccountEval(at, 2.0 + 8.0 * at**-0.5) for at in range(25, 225, 25)])
    assert found is not None
    assert found < 0.01


def test_a_batch_that_grew_is_held_against_others_by_the_tokens_it_saw(
    run: Callable[..., Any],
    record: Callable[..., Any],
    step: Callable[..., Any],
    evaluation: Callable[..., Any],
) -> None:
    """Iterations of 524,288 tokens and of twice that: after 4 and 4 it has seen what the other saw in 12."""
    wide = {"n_embd": 768, "batch_size": 8, "gradient_accumulation_steps": 64, "max_iters": 19_073}
    plain = run(
        [step(i, step_seconds=4.0) for i in range(12)],
        [evaluation(i, val_loss=9.0 - i / 4) for i in (4, 8, 12)],
    )
    grown = run(
        [step(i, step_seconds=4.0 if i < 4 else 8.0, tokens=2**19 if i < 4 else 2**20) for i in range(8)],
        [evaluation(i, val_loss=9.5 - i / 4) for i in (4, 8)],
        record=record(settings=wide | {"batch_ramp": "2M:1048576"}),
    )
    one, other = account_of(plain), replace(account_of(grown), name="grown")
    tokens = losses_at_equal((one, other), "tokens")
    assert tokens is not None
    assert tokens.at == 12 * 2**19
    assert {name: at.loss for name, at in tokens.losses.items()} == {one.name: 6.0, "grown": 7.5}
    seconds = other.speed.iteration_seconds
    assert seconds is not None
    assert (seconds.value, other.in_tokens_per_iter(seconds.value)) == (8.0, 4.0)
    iterations = losses_at_equal((one, other), "iterations")
    assert iterations is not None
    assert iterations.at == 8
