"""Who is ahead on what, and why some have no place."""

from dataclasses import replace
from typing import Any

import pytest
from tests.analysis.accounts import AFTER, BEFORE, SHAPE, account, curve, steps

from nanodyno.analysis.account import Account, AccountEval
from nanodyno.analysis.compare import compare
from nanodyno.analysis.leaderboard import (
    LOSS,
    SHARE,
    SPEED,
    Board,
    Leaderboard,
    LeaderboardMetric,
    leaderboard,
    standing_of,
)
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.types import DataRecord

H200 = gpu_named("H200")
PERPLEXITIES = tuple(AccountEval(at, 22.3, 3.1) for at in range(100, 700, 100))

DEAD = tuple(AccountEval(at, 11.0) for at in range(100, 1001, 100))


def data(fingerprint: str = "0", tokenizer: str | None = "gpt2", vocab_size: int = 50257) -> DataRecord:
    return DataRecord(
        dataset="edu",
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        train_tokens=10**9,
        val_tokens=10**6,
        fingerprint=fingerprint,
    )


def ours(name: str, start: float = 6.0, noise: float = 0.01, **changes: Any) -> Account:
    """Every second loss lies `noise` above the curve and every other below; each has a config of its own."""
    values: dict[str, Any] = {"data": data(), "evals": curve(start, noise), "gpu": H200}
    values |= changes
    values["settings"] = {"variant": name} | values.get("settings", {})
    return account(name, **values)


SCHEDULE = {"schedule": "cosine", "warmup_iters": 0, "min_lr": 0.0}
SHORT = {**SCHEDULE, "max_iters": 1000, "lr_decay_iters": 1000}
LONG = {**SCHEDULE, "max_iters": 10_000, "lr_decay_iters": 10_000}


def ranked(*accounts: Account) -> Leaderboard:
    return leaderboard([standing_of(each) for each in accounts])


def board(found: Leaderboard, metric: LeaderboardMetric) -> Board:
    (only,) = [each for each in found.boards if each.metric == metric]
    return only


def places(found: Leaderboard, metric: LeaderboardMetric) -> dict[str, int | None]:
    return {entry.run: entry.rank for entry in board(found, metric).entries}


def reasons(found: Leaderboard, metric: LeaderboardMetric) -> dict[str, str]:
    return {each.run: each.reason for each in found.unranked if each.metric == metric}


def test_the_lower_loss_at_equal_tokens_comes_first() -> None:
    found = ranked(ours("worse", 6.5), ours("better", 5.5))
    assert places(found, LOSS) == {"better": 1, "worse": 2}
    assert board(found, LOSS).at_tokens == 1000 * 524_288


def test_losses_that_differ_by_less_than_they_scatter_share_a_place_and_the_next_is_third() -> None:
    found = ranked(ours("a", 5.5, 0.05), ours("b", 5.52, 0.05), ours("c", 7.0, 0.05))
    assert places(found, LOSS) == {"a": 1, "b": 1, "c": 3}


def test_losses_are_held_against_each_other_at_equal_tokens_and_not_at_the_end() -> None:
    """The longer run is worse where the shorter one ends, though its last loss is lower."""
    long = ours("long", 6.2, 0.01, evals=curve(6.2, 0.01, iterations=3000))
    found = ranked(long, ours("short", 6.0))
    assert places(found, LOSS) == {"short": 1, "long": 2}
    assert long.evals[-1].val_loss < 6.0 - 0.5 * 10**0.5
    assert found.compared_early == ("long",)


def test_iterations_of_half_the_tokens_meet_at_twice_the_number() -> None:
    half = ours("half", settings={"gradient_accumulation_steps": 32}, evals=curve(5.0, 0.01, 2000, 200))
    found = ranked(half, ours("whole"))
    assert board(found, LOSS).at_tokens == 1000 * 524_288
    assert places(found, LOSS) == {"half": 1, "whole": 2}


@pytest.mark.parametrize(
    "other", [data("1"), data(tokenizer="bytes", vocab_size=257), data(tokenizer=None, vocab_size=4096)]
)
def test_losses_of_other_text_or_tokens_are_not_ranked_together(other: DataRecord) -> None:
    found = ranked(ours("a"), ours("b", 5.0, data=other, data_vocab_size=other.vocab_size))
    assert reasons(found, LOSS) == {"a": "only-one-of-its-text", "b": "only-one-of-its-text"}
    assert not [each for each in found.boards if each.metric == LOSS]


def test_each_text_has_a_board_of_its_own() -> None:
    small = {"data": data("1", "bytes", 257), "data_vocab_size": 257}
    found = ranked(ours("a"), ours("b", 5.0), ours("c", 3.0, **small), ours("d", 2.9, **small))
    boards = [each for each in found.boards if each.metric == LOSS]
    assert [(each.text.tokens, [entry.run for entry in each.entries]) for each in boards if each.text] == [
        ("gpt2", ["b", "a"]),
        ("bytes", ["d", "c"]),
    ]


def test_a_log_that_names_the_text_joins_the_run_of_that_name_unless_there_are_two() -> None:
    log = replace(
        account("log", evals=curve(5.0, 0.01), settings={"dataset": "data/edu", "tokenizer": "gpt2"}),
        foreign=True,
        data_vocab_size=None,
    )
    assert set(places(ranked(ours("a"), log), LOSS)) == {"a", "log"}
    found = ranked(ours("a"), ours("b", data=data("1")), log)
    assert reasons(found, LOSS)["log"] == "only-one-of-its-text"


def test_a_log_that_does_not_tell_its_tokens_has_no_place_by_loss() -> None:
    found = ranked(BEFORE, AFTER)
    assert reasons(found, LOSS) == {"train2": "text-unknown", "train1": "text-unknown"}
    assert (
        reasons(found, SPEED) == reasons(found, SHARE) == {"train2": "gpu-unknown", "train1": "gpu-unknown"}
    )


@pytest.mark.parametrize(
    ("changes", "metric", "reason"),
    [
        ({"evals": ()}, LOSS, "no-evaluation"),
        ({"evals": (AccountEval(0, 10.9),)}, LOSS, "no-evaluation"),
        ({"evals": (AccountEval(500, float("nan")),)}, LOSS, "no-evaluation"),
        ({"evals": PERPLEXITIES, "foreign": True}, LOSS, "perplexity-as-loss"),
        ({"settings": LONG}, LOSS, "other-schedule"),
        ({"evals": (AccountEval(9000, 3.0),)}, LOSS, "not-evaluated-there"),
        ({"reported_tokens_per_iter": 491_520}, LOSS, "tokens-contradict"),
        ({"reported_tokens_per_iter": 491_520}, SPEED, "tokens-contradict"),
        ({"steps": ()}, SPEED, "times-unknown"),
        ({"steps": steps(1.0, count=5)}, SPEED, "too-few-iterations"),
        ({"gpu": gpu_named("B200")}, SPEED, "only-one-of-its-device"),
        ({"gpu": None}, SPEED, "gpu-unknown"),
        ({"gpu": None}, SHARE, "gpu-unknown"),
        ({"evals": DEAD, "settings": SHORT}, LOSS, "dead"),
        ({"shape": None}, SHARE, "model-unknown"),
        ({"steps": steps(0.1)}, SHARE, "rate-impossible"),
        ({"steps": steps(0.1)}, SPEED, "rate-impossible"),
    ],
)
def test_why_a_run_has_no_place(changes: dict[str, Any], metric: LeaderboardMetric, reason: str) -> None:
    others = [ours("a", settings=SHORT), ours("b", 5.0, settings=SHORT)]
    assert reasons(ranked(*others, ours("c", settings=SHORT)), metric) == {}
    assert reasons(ranked(*others, ours("c", **changes)), metric) == {"c": reason}
    assert set(places(ranked(*others, ours("c", **changes)), metric)) >= {"a", "b"}


def test_without_its_tokens_an_iteration_has_neither_speed_nor_place() -> None:
    unknown = replace(ours("c"), settings={})
    found = ranked(ours("a"), ours("b"), unknown)
    assert reasons(found, LOSS) == reasons(found, SPEED) == {"c": "tokens-unknown"}


def test_speeds_that_another_start_of_one_config_may_have_share_a_rank() -> None:
    """2% between runs on a GPU is 2.8% of a ratio; two decisions, each at 97.5%, take 2.42 times that."""
    found = ranked(ours("a", seconds=1.0), ours("b", seconds=1.06), ours("c", seconds=1.08))
    assert places(found, SPEED) == {"a": 1, "b": 1, "c": 3}


def test_seeds_of_one_recipe_that_lie_far_apart_have_no_rank() -> None:
    near, far = (
        [ours(f"s{n}", 5.5 + gap * n, settings={"variant": "one", "seed": n}) for n in range(2)]
        for gap in (0.01, 0.3)
    )
    assert set(places(ranked(*near), LOSS).values()) == {1}
    found = ranked(*far)
    assert set(places(found, LOSS).values()) == {None}
    reasons = {each.run: each.reason for each in found.unranked if each.metric == LOSS}
    assert reasons == {"s1": "unrecorded-difference", "s0": "only-one"}


def test_seeds_of_one_recipe_share_a_rank_though_another_lies_between() -> None:
    far = [ours(f"s{n}", 5.5 + 0.9 * n, settings={"variant": "one", "seed": n}) for n in range(2)]
    found = ranked(*far, ours("between", 5.6))
    assert places(found, LOSS) == {"between": 1, "s0": 2, "s1": 2}, "the mean of both is worse"
    apart = ranked(*[replace(each, settings={**each.settings, "variant": each.name}) for each in far])
    assert places(apart, LOSS) == {"s0": 1, "s1": 2}, "two configs"


def test_a_run_without_a_rank_stands_where_its_value_belongs() -> None:
    best = ours("best", 4.0, settings=LONG)
    found = ranked(ours("a", 5.0, settings=SHORT), best, ours("b", 6.0, settings=SHORT))
    assert [entry.run for entry in board(found, LOSS).entries] == ["best", "a", "b"]
    assert places(found, LOSS) == {"best": None, "a": 1, "b": 2}


def test_the_speed_of_a_cpu_is_not_ranked_with_that_of_a_gpu() -> None:
    cpu = {"device_type": "cpu", "device_name": "a CPU", "gpu": None}
    runs = [ours("a"), ours("b"), ours("c", seconds=50, **cpu), ours("d", seconds=60, **cpu)]
    boards = [each for each in ranked(*runs).boards if each.metric == SPEED]
    assert [({entry.run for entry in each.entries}, each.device) for each in boards] == [
        ({"a", "b"}, "H200"),
        ({"c", "d"}, "a CPU"),
    ]


@pytest.mark.parametrize(("start", "loss_places", "winner"), [(5.5, (2, 1), "b"), (5.99, (1, 1), None)])
def test_a_place_of_two_is_what_compare_calls_ahead(
    start: float, loss_places: tuple[int, int], winner: str | None
) -> None:
    one, other = ours("a", 6.0, 0.02, seconds=1.0), ours("b", start, 0.02, seconds=2.0)
    winners, found = compare([one, other]).winners, ranked(one, other)
    assert (places(found, SPEED), winners[SPEED]) == ({"a": 1, "b": 2}, "a")
    assert places(found, LOSS) == dict(zip("ab", loss_places, strict=True))
    assert winners.get(LOSS) == winner


def test_the_share_is_of_all_the_gpus_that_trained() -> None:
    """Twice the speed on two cards is the same share."""
    found = ranked(ours("one", seconds=2.0), ours("two", seconds=1.0, processes=2))
    one, two = (entry.value.value for entry in board(found, SHARE).entries)
    assert one == pytest.approx(two)
    assert places(found, SHARE) == {"one": 1, "two": 1}


def test_a_run_alone_is_reported_so_and_runs_of_one_name_are_reported_apart() -> None:
    assert reasons(ranked(ours("a")), SPEED) == {"a": "only-one"}
    assert set(places(ranked(ours("a"), ours("a")), SPEED)) == {"a", "a (2)"}
    assert ranked() == Leaderboard((), ())


def test_parameters_are_all_of_them_or_the_logs_own_count() -> None:
    found = ranked(ours("a"), ours("b", shape=None, reported_parameters=123_590_000))
    sizes = {entry.run: entry.parameters for entry in board(found, SPEED).entries}
    position = SHAPE.block_size * SHAPE.n_embd
    assert sizes == {"a": 123_587_328 + position, "b": 123_590_000}
