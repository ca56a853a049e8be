"""What follows from runs side by side beyond one sentence: of which runs, where, and with what others."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.analysis.accounts import AFTER, BEFORE, account, curve, steps

from nanodyno.analysis.account import Account, AccountEval
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.compare import compare, named_apart
from nanodyno.analysis.conclusions import conclusions
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.types import DataRecord

Runs = Sequence[Account]
CASE = [with_found_shape(BEFORE), with_found_shape(AFTER)]


def pair(one: dict[str, object] | None = None, **other: object) -> Runs:
    return [account("a", **(one or {})), account("b", **other)]  # pyright: ignore[reportArgumentType]


def settings(**changed: object) -> Runs:
    return pair(settings=changed)


def codes(runs: Runs) -> set[str]:
    return {each.code for each in conclusions(compare(named_apart(runs)))}


def test_a_run_held_against_itself_differs_in_nothing() -> None:
    itself = compare(named_apart([account("a"), account("a")]))
    assert [each.name for each in itself.accounts] == ["a", "a (2)"]
    assert itself.winners == {}
    assert itself.changes["a (2)"].changed == ()
    found = codes([account("a"), account("a")])
    assert {"no-change", "speed-within-noise", "losses-within-noise", "same-effective-batch"} <= found
    assert not found & {"confounded", "one-change", "losses-apart", "throughput-changed"}


@pytest.mark.parametrize("reported", [BEFORE, replace(BEFORE, settings={"tokens_per_iter": 524_288})])
def test_so_does_one_that_tells_little(reported: Account) -> None:
    found = codes([reported, reported])
    assert {"no-change", "speed-within-noise", "losses-within-noise"} <= found
    assert not found & {"settings-unknown", "throughput-changed", "one-known-change"}


def test_three_runs_are_each_held_against_the_first() -> None:
    faster = account("b", seconds=0.5, settings={"compile": False})
    comparison = compare([account("a"), faster, account("c", settings={"n_layer": 24})])
    assert comparison.winners["tokens_per_second"] == "b"
    assert [each.key for each in comparison.changes["c"].changed] == ["n_layer"]
    assert [each.key for each in comparison.changes["b"].changed] == ["compile"]


def test_of_three_runs_those_with_losses_are_held_against_each_other() -> None:
    runs = [account("a"), account("b", evals=()), account("c", evals=curve(5.0, 0.01, 300))]
    (losses,) = [each for each in compare(runs).losses if each.axis == "tokens"]
    assert set(losses.losses) == {"a", "c"}
    about_two = [each for each in conclusions(compare(runs)) if len(each.runs) == 2]
    found = {each.runs[-1]: each.code for each in about_two if "loss" in each.code}
    assert found == {"b": "no-common-loss", "c": "losses-unrecorded-difference"}


def test_the_accumulation_that_follows_from_the_micro_batch_is_no_second_change() -> None:
    runs = settings(batch_size=16, gradient_accumulation_steps=32)
    (found,) = [each for each in conclusions(compare(runs)) if each.code == "one-change"]
    assert found.numbers["changed"] == ["batch_size", "gradient_accumulation_steps"]


@pytest.mark.parametrize(("min_lr", "said"), [(1e-4, ["learning_rate"]), (2e-4, ["learning_rate", "min_lr"])])
def test_a_setting_that_is_changed_in_proportion_to_its_leader_is_no_change_of_its_own(
    min_lr: float, said: list[str]
) -> None:
    runs = pair({"settings": {"min_lr": 6e-5}}, settings={"learning_rate": 1e-3, "min_lr": min_lr})
    (found,) = [each for each in conclusions(compare(runs)) if each.code in ("one-change", "confounded")]
    assert found.numbers["changed"] == said


def test_a_reported_run_without_times_has_no_rate_and_no_guess() -> None:
    silent = replace(AFTER, steps=())
    assert silent.speed.tokens_per_second is None
    assert with_found_shape(silent).shape is None


def test_where_the_model_alone_changed_the_difference_in_loss_is_its_own() -> None:
    found = codes(pair(settings={"n_layer": 24}, evals=curve(5.8, 0.01)))
    assert {"one-change", "losses-apart"} <= found


def data(fingerprint: str) -> DataRecord:
    return DataRecord(
        dataset="edu",
        tokenizer="gpt2",
        vocab_size=50257,
        train_tokens=10**9,
        val_tokens=10**6,
        fingerprint=fingerprint,
    )


def test_the_same_files_by_another_path_are_no_change_and_other_files_of_one_name_are() -> None:
    moved = pair({"data": data("0")}, data=data("0"), settings={"dataset": "/mnt/edu"})
    assert not compare(moved).changes["b"].changed
    assert "losses-on-other-data" not in codes(moved)
    assert "losses-on-other-data" in codes(pair({"data": data("0")}, data=data("1")))


def test_a_log_that_does_not_tell_its_vocabulary_is_not_said_to_have_another() -> None:
    assert "losses-on-other-data" not in codes(pair(data_vocab_size=None))
    assert "losses-on-other-data" not in codes(pair(data_vocab_size=None, settings={"vocab_size": 50304}))
    letters = {"data_vocab_size": None, "settings": {"vocab_size": 65}, "evals": curve(3.5)}
    assert "losses-on-other-data" in codes(pair(**letters))


def test_two_gpus_are_held_against_both_their_peaks_and_each_prints_its_own_mfu() -> None:
    """A rate that is impossible for one RTX 4070 is 716% of it, and of eight 90%."""
    gpu = gpu_named("RTX 4070")
    assert "rate-impossible" in codes(pair({"gpu": gpu}))
    eight = account("a", gpu=gpu, processes=8)
    assert "share-of-gpu" in codes([eight, account("b")])
    alone = account("b")
    one, each = alone.speed.nanogpt_mfu, eight.speed.nanogpt_mfu
    assert one is not None
    assert each is not None
    assert each.value == pytest.approx(one.value / 8)
    printed = account("a", processes=8, steps=steps(1.0, each.value))
    assert "mfu-of-another-peak" not in codes([printed, alone])


def test_a_loss_per_letter_is_no_perplexity_by_gpt2s_vocabulary() -> None:
    letters = {"settings": {"vocab_size": 65}, "data_vocab_size": None}
    assert "perplexity-as-loss" not in codes(pair({**letters, "evals": (AccountEval(500, 1.5),)}))
    falling = tuple(AccountEval(at, value, math.log(value)) for at, value in ((100, 9.0), (500, 4.5)))
    assert "perplexity-as-loss" in codes(
        pair({**letters, "evals": falling, "foreign": True})
    )  # ln 65 is 4.17


def test_a_perplexity_is_held_against_no_loss() -> None:
    found = pair(evals=tuple(AccountEval(at, 22.3, 3.1) for at in range(100, 1001, 100)), foreign=True)
    assert not compare(found).losses
    assert {"perplexity-as-loss", "no-common-loss"} <= codes(found)
    assert "next-evaluate-more" not in codes(found)


def test_another_programs_mfu_is_not_taken_for_a_share_of_an_a100() -> None:
    """llm.c's is of the card that it found; nothing follows from it about the model."""
    reported = [replace(each, shape=None, shape_found=False, mfu_is_nanogpts=False) for each in CASE]
    assert not codes(reported) & {
        "mfu-against-a100",
        "model-from-numbers",
        "mfu-of-another-peak",
        "mfu-poisoned",
    }


def test_where_evaluations_pulled_the_mfu_down_the_number_of_parameters_tells_the_model() -> None:
    """An MFU a tenth too low fits no model of 123.59M; many fit the number, and one with the width told."""
    poisoned = replace(AFTER, steps=steps(9.34, 0.139), reported_parameters=123.59e6)
    found = with_found_shape(poisoned)
    assert found.shape is not None
    assert (found.shape.n_layer, found.shape.n_embd) == (12, 768)
    assert "model-from-count" in codes([found, found])
    assert with_found_shape(replace(poisoned, reported_parameters=None)).shape is None
    assert with_found_shape(replace(poisoned, reported_parameters=0)).shape is None


@pytest.mark.parametrize("changes", [{"reported_tokens_per_iter": 491_520}, {"seconds": 0.1}])
def test_no_hours_follow_from_a_speed_that_cannot_be_so(changes: dict[str, Any]) -> None:
    sound, false = account("a", gpu=gpu_named("H200")), account("b", gpu=gpu_named("H200"), **changes)
    said = [each.runs for each in conclusions(compare([sound, false])) if each.code == "hours-to-tokens"]
    assert said == [("a",)]
