"""Every code in both directions: two runs of which it is said, and two of which it is not."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.analysis.accounts import AFTER, BEFORE, account, curve, steps

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.compare import compare, named_apart
from nanodyno.analysis.conclusions import conclusions
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.types import DataRecord
from nanodyno.report.finding_words import COMPOSED, WORDS, words

Runs = Sequence[Account]
CASE = [with_found_shape(BEFORE), with_found_shape(AFTER)]
SAME = [account("a"), account("b")]
H200 = gpu_named("H200")
SLOW_EVAL = (*steps(1.0, 0.3), AccountStep(900, 6.0, 30.0, steady=False, printed_mfu=0.3))


def pair(one: dict[str, object] | None = None, **other: object) -> Runs:
    return [account("a", **(one or {})), account("b", **other)]  # pyright: ignore[reportArgumentType]


def settings(**changed: object) -> Runs:
    return pair(settings=changed)


def rates(leap: float) -> tuple[AccountStep, ...]:
    return tuple(
        AccountStep(number, 5.0, 1.0, learning_rate=1e-3 * (1 if number < 10 else leap))
        for number in range(20)
    )


def restless(seconds: float) -> tuple[AccountStep, ...]:
    """Iterations that take half as long or half as much again."""
    return tuple(AccountStep(number, 6.0, seconds * (0.5, 1.0, 1.5)[number % 3]) for number in range(20))


BOTH_WAYS: dict[str, tuple[Runs, Runs]] = {
    "model-from-numbers": (CASE, SAME),
    "model-from-count": (
        [replace(account("a"), shape=None, reported_parameters=123.59e6), account("b")],
        SAME,
    ),
    "mfu-of-another-peak": (pair({"steps": steps(1.0, 0.5)}), pair({"steps": steps(0.9345, 1.5371)})),
    "tokens-contradict": (
        pair({"reported_tokens_per_iter": 491520}),
        pair({"reported_tokens_per_iter": 524288}),
    ),
    "mfu-above-one": (pair({"steps": steps(1.0, 1.4)}), CASE),
    "rate-impossible": (pair({"gpu": gpu_named("RTX 4070")}), pair({"gpu": H200})),
    "share-of-gpu": (pair({"gpu": H200}), pair({"gpu": gpu_named("RTX 4070")})),
    "gpus-by-rate": (CASE, SAME),
    "mfu-against-a100": (
        pair({"steps": steps(9.0, 0.15)}, steps=steps(9.0)),
        pair({"gpu": gpu_named("A100 80GB PCIe"), "steps": steps(9.0, 0.15)}),
    ),
    "mfus-against-a100": (CASE, pair({"steps": steps(9.0, 0.15)}, steps=steps(9.0))),
    "mfu-poisoned": (pair({"steps": SLOW_EVAL}), pair({"steps": SLOW_EVAL[:-1]})),
    "perplexity-as-loss": (
        pair({"evals": (AccountEval(500, 22.3),)}),
        pair({"evals": (AccountEval(0, 10.9), AccountEval(9, 9.0))}),
    ),
    "not-a-number": (pair({"evals": (AccountEval(500, math.nan),)}), SAME),
    "another-schedule": (
        pair({"steps": rates(0.5), "restarts": (10,)}),
        pair({"steps": rates(0.99), "restarts": (10,)}),
    ),
    "hours-to-tokens": (SAME, pair({"steps": ()}, steps=())),
    "beside-public-curve": (CASE, [account("a", settings={"n_embd": 1024}), account("b", evals=())]),
    "same-effective-batch": (SAME, settings(gradient_accumulation_steps=32)),
    "steps-unchanged": (settings(batch_size=16, gradient_accumulation_steps=32), SAME),
    "effective-batch-changed": (settings(gradient_accumulation_steps=32), SAME),
    "same-speed": (SAME, pair(seconds=1.1)),
    "speed-within-noise": (pair({"steps": restless(1.0)}, steps=restless(1.05)), pair(seconds=1.1)),
    "throughput-fell-rate-rose": (CASE, CASE[::-1]),
    "throughput-rose-rate-fell": (CASE[::-1], CASE),
    "throughput-changed": (pair(seconds=1.1), SAME),
    "nothing-in-common": (
        [Account("a", {"n_layer": 12}), Account("b", {"n_embd": 768})],
        [Account("a", {"n_layer": 12}, evals=curve(6.0)), Account("b", {"n_embd": 768}, evals=curve(6.0))],
    ),
    "no-change": (SAME, settings(learning_rate=1e-3)),
    "confounded": (CASE, settings(learning_rate=1e-3)),
    "one-change": (settings(batch_size=16, gradient_accumulation_steps=32), CASE),
    "one-known-change": (
        [Account("a", {"learning_rate": 1e-3}), Account("b", {"learning_rate": 3e-4})],
        settings(learning_rate=1e-3),
    ),
    "settings-unknown": (CASE, SAME),
    "no-common-loss": (pair(evals=()), SAME),
    "losses-on-other-data": (settings(dataset="openwebtext"), SAME),
    "losses-of-different-models": (settings(n_layer=24, learning_rate=1e-3), settings(n_layer=24)),
    "no-evidence-for-learning-rate": (CASE, settings(learning_rate=1e-3)),
    "same-loss": (SAME, pair(evals=curve(5.9, 0.01))),
    "loss-noise-unknown": (pair({"evals": (AccountEval(500, 5.0),)}, evals=(AccountEval(500, 4.9),)), SAME),
    "losses-within-noise": (pair({"evals": curve(6.0, 0.1)}, evals=curve(6.01, 0.1)), SAME),
    "losses-apart": (pair(evals=curve(5.8, 0.01)), pair({"evals": curve(6.0, 0.1)}, evals=curve(6.01, 0.1))),
    "next-measure-apart": (CASE, settings(learning_rate=1e-3)),
    "next-name-the-gpu": (CASE, SAME),
    "next-evaluate-more": (pair(evals=()), SAME),
}


def codes(runs: Runs) -> set[str]:
    return {each.code for each in conclusions(compare(named_apart(runs)))}


def test_every_code_is_in_the_table_and_has_words() -> None:
    assert BOTH_WAYS.keys() == WORDS.keys() | COMPOSED.keys()


@pytest.mark.parametrize("code", sorted(BOTH_WAYS))
def test_it_is_said_where_it_holds_and_not_where_it_does_not(code: str) -> None:
    where, elsewhere = BOTH_WAYS[code]
    assert code in codes(where)
    assert code not in codes(elsewhere)


@pytest.mark.parametrize("code", sorted(BOTH_WAYS))
def test_its_words_leave_no_number_out(code: str) -> None:
    for finding in conclusions(compare(named_apart(BOTH_WAYS[code][0]))):
        text = words(finding)
        assert "{" not in text
        assert text == text.strip()


def test_a_run_held_against_itself_differs_in_nothing() -> None:
    itself = compare(named_apart([account("a"), account("a")]))
    assert [each.name for each in itself.accounts] == ["a", "a (2)"]
    assert itself.winners == {}
    assert itself.changes["a (2)"].changed == ()
    found = codes([account("a"), account("a")])
    assert {"no-change", "same-speed", "same-loss", "same-effective-batch"} <= found
    assert not found & {"confounded", "one-change", "losses-apart", "throughput-changed"}


@pytest.mark.parametrize("reported", [BEFORE, replace(BEFORE, settings={"tokens_per_iter": 524_288})])
def test_so_does_one_that_tells_little(reported: Account) -> None:
    found = codes([reported, reported])
    assert {"no-change", "same-speed", "same-loss"} <= found
    assert not found & {"settings-unknown", "throughput-changed", "one-known-change"}


def test_three_runs_are_each_held_against_the_first() -> None:
    runs = [account("a"), account("b", seconds=0.5), account("c", settings={"n_layer": 24})]
    comparison = compare(runs)
    assert comparison.winners["tokens_per_second"] == "b"
    assert [each.key for each in comparison.changes["c"].changed] == ["n_layer"]
    assert comparison.changes["b"].changed == ()


def test_of_three_runs_those_with_losses_are_held_against_each_other() -> None:
    """Also where two of them meet further on than all three do."""
    runs = [account("a"), account("b", evals=()), account("c", evals=curve(5.0, 0.01, 300))]
    (losses,) = [each for each in compare(runs).losses if each.axis == "tokens"]
    assert set(losses.losses) == {"a", "c"}
    about_two = [each for each in conclusions(compare(runs)) if len(each.runs) == 2]
    found = {each.runs[-1]: each.code for each in about_two if "loss" in each.code}
    assert found == {"b": "no-common-loss", "c": "loss-noise-unknown"}
    runs[1] = account("b", evals=curve(6.0, 0.01, 800))
    (found,) = [each for each in conclusions(compare(runs)) if each.code == "same-loss"]
    assert (found.runs, found.numbers["at"]) == (("a", "b"), 800 * 524_288)


@pytest.mark.parametrize("faster", [1.005, 1.02])
def test_medians_less_than_a_percent_apart_have_no_winner(faster: float) -> None:
    """Each run knows its own median to a thousandth, and another start of it would differ by more."""
    winners = compare([account("a"), account("b", seconds=1 / faster)]).winners
    assert ("tokens_per_second" in winners) == (faster > 1.01)


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


def test_the_documentation_lists_every_code_with_its_severity() -> None:
    text = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (\w+) \|", text, re.MULTILINE))
    said = {
        each.code: each.severity
        for where, _ in BOTH_WAYS.values()
        for each in conclusions(compare(named_apart(where)))
    }
    assert listed == said


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
    assert "perplexity-as-loss" in codes(
        pair({**letters, "evals": (AccountEval(500, 4.5),)})
    )  # ln 65 is 4.17


def test_a_perplexity_is_held_against_no_loss() -> None:
    found = pair(evals=tuple(AccountEval(at, 22.3) for at in range(100, 1001, 100)))
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
