"""The sequential test on pairs: its error rates by simulation, its verdicts by hand."""

import math

import numpy as np
import pytest

from nanodyno.analysis.judging import (
    CandidateState,
    JudgeRules,
    NoiseFloor,
    bounds,
    floor_of,
    improvement,
    is_clear_loser,
    judgement,
    standard_error,
    still_trained,
    target_of,
)

FLOOR = NoiseFloor(0.01, 2)


def judged(
    rng: np.random.Generator, effect: float, rules: JudgeRules, alike: float, louder: float = 1.0
) -> tuple[str, int]:
    """One judgement as the command makes it: the floor from the seeds of the base that are there by then.
    `alike` is the correlation of base and candidate of one seed; the noise floor is 1, and the candidate is
    `louder` times as noisy as the base."""
    base = rng.normal(0, math.sqrt(0.5), rules.pairs)
    own = rng.normal(0, math.sqrt(0.5), rules.pairs)
    candidate = louder * (alike * base + math.sqrt(1 - alike**2) * own) - effect
    for count in range(1, rules.pairs + 1):
        floor = floor_of([5 + float(each) for each in base[: max(3, count)]], "val_loss")
        assert floor is not None
        found = judgement([float(each) for each in (base - candidate)[:count]], floor, rules)
        if found is not None:
            return found.call, count
    raise AssertionError("the last look decides")


@pytest.mark.parametrize("alike", [0.0, 0.6])
@pytest.mark.parametrize("effect", [0.0, -0.5])
def test_a_candidate_that_is_no_better_is_kept_in_at_most_5_of_100(alike: float, effect: float) -> None:
    """Of 1,500 judgements 75 are expected at most, and 96 are two and a half standard deviations more."""
    rng, rules = np.random.default_rng(11), JudgeRules()
    kept = sum(judged(rng, effect, rules, alike)[0] == "keep" for _ in range(1500))
    assert kept <= 96


def test_a_candidate_that_is_noisier_than_the_base_is_kept_no_more_often() -> None:
    """The floor is the base's own: a first pair alone does not show that another one scatters more."""
    rng, rules = np.random.default_rng(14), JudgeRules()
    kept = sum(judged(rng, 0.0, rules, 0.0, louder=1.5)[0] == "keep" for _ in range(1500))
    assert kept <= 96


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_twice_the_noise_floor_is_kept_in_80_of_100(alike: float) -> None:
    rng, rules = np.random.default_rng(12), JudgeRules()
    found = [judged(rng, 2.0, rules, alike) for _ in range(1000)]
    assert sum(call == "keep" for call, _ in found) >= 780
    assert np.mean([pairs for _, pairs in found]) < 0.6 * rules.pairs


def test_of_several_candidates_any_is_kept_in_at_most_5_of_100() -> None:
    rng, rules = np.random.default_rng(13), JudgeRules(candidates=4)
    kept = sum(any(judged(rng, 0.0, rules, 0.0)[0] == "keep" for _ in range(4)) for _ in range(600))
    assert kept <= 44


def test_bounds_spend_the_whole_error_rate_over_the_looks() -> None:
    """A single look with 2 degrees of freedom is Student's test: 2.920 at 5%. A pair whose candidate is 1.5
    times as noisy scatters by the root of (1 + 2.25) / 2 = 1.275 floors."""
    assert bounds(1, 0.05, 0.2, 2).keep[0] == pytest.approx(1.275 * 2.920, rel=0.02)
    assert bounds(1, 0.05, 0.2, 1000).keep[0] == pytest.approx(1.275 * 1.645, rel=0.02)
    more = bounds(5, 0.05, 0.2, 20).keep
    assert all(each > 1.725 for each in more)  # one look of 20 degrees of freedom
    assert bounds(5, 0.01, 0.2, 20).keep[0] > more[0]


def test_the_error_of_a_mean_is_of_floor_and_pairs_together() -> None:
    """(2 x 0.01^2 + 2 x 0.01^2) / 3 degrees, over two pairs."""
    assert standard_error([0.02, 0.04], FLOOR) == pytest.approx(math.sqrt(4e-4 / 3 / 2))
    assert standard_error([0.02], FLOOR) == pytest.approx(0.01)


def test_a_floor_is_that_of_a_difference() -> None:
    """Losses of 4.00, 4.02 and 4.04 scatter by 0.02, and differences by the root of two as much."""
    floor = floor_of([4.00, 4.02, 4.04], "val_loss")
    assert floor is not None
    assert (floor.sd, floor.degrees) == (pytest.approx(0.02 * math.sqrt(2)), 2)
    assert floor_of([4.0], "val_loss") is None
    same = floor_of([4.0, 4.0, 4.0], "val_loss")
    assert same is not None
    assert same.sd > 0


def test_verdicts_of_clear_cases() -> None:
    rules = JudgeRules()
    kept = judgement([0.5], FLOOR, rules)
    assert kept is not None
    assert (kept.call, kept.pairs, kept.improvement.value) == ("keep", 1, 0.5)
    lost = judgement([-0.5], FLOOR, rules)
    assert lost is not None
    assert lost.call == "discard"
    assert judgement([0.012], FLOOR, rules) is None
    last = judgement([0.03, -0.03, 0.03, 0.0, 0.04], FLOOR, JudgeRules(missed=0.001))
    assert last is not None
    assert (last.call, last.pairs) == ("undecided", 5)


def test_the_smallest_improvement_of_interest_is_what_is_looked_for() -> None:
    assert target_of(FLOOR, JudgeRules()) == 0.02
    assert target_of(FLOOR, JudgeRules(smallest=0.1)) == 0.1
    found = judgement([0.015], FLOOR, JudgeRules(smallest=0.1))
    assert found is not None
    assert found.call == "discard"


def test_improvements_are_positive_where_the_candidate_is_better() -> None:
    assert improvement("val_loss", 4.0, 3.9) == pytest.approx(0.1)
    assert improvement("tokens_per_second", 100.0, 110.0) == pytest.approx(math.log(1.1))


def test_of_many_candidates_the_better_half_goes_on_and_never_fewer_than_three() -> None:
    some = [CandidateState(str(number), JudgeRules(), [float(number)]) for number in range(8)]
    assert [each.name for each in still_trained(some, 1)] == ["4", "5", "6", "7"]
    assert [each.judged().reason for each in some[:4]] == ["behind-others"] * 4
    assert [each.name for each in still_trained(some, 2)] == ["5", "6", "7"]
    assert [each.name for each in still_trained(some, 3)] == ["5", "6", "7"]


@pytest.mark.parametrize(
    ("final", "low", "lost"), [(4.5, 4.4, True), (4.05, 4.0, False), (3.9, 3.8, False), (4.5, 3.0, False)]
)
def test_only_a_clear_loser_is_stopped(final: float, low: float, lost: bool) -> None:
    """The base ended at 4.0. An 80% interval from 4.4 means a standard deviation of 0.1 / 1.28."""
    assert is_clear_loser(final, low, 4.0, FLOOR) is lost
