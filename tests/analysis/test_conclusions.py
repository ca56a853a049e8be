"""Every code in both directions: two runs of which it is said, and two of which it is not."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.analysis.accounts import AFTER, BEFORE, account, curve, steps

from nanodyno.analysis.account import Account, Eval, Step
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.compare import compare, named_apart
from nanodyno.analysis.conclusions import conclusions
from nanodyno.hardware.cards import card_named
from nanodyno.report.finding_words import COMPOSED, WORDS, words

Runs = Sequence[Account]
CASE = [with_found_shape(BEFORE), with_found_shape(AFTER)]
SAME = [account("a"), account("b")]
H200 = card_named("H200")
SLOW_EVAL = (*steps(1.0, 0.3), Step(900, 6.0, 30.0, steady=False, printed_mfu=0.3))


def pair(one: dict[str, object] | None = None, **other: object) -> Runs:
    return [account("a", **(one or {})), account("b", **other)]  # pyright: ignore[reportArgumentType]


def settings(**changed: object) -> Runs:
    return pair(settings=changed)


def rates(leap: float) -> tuple[Step, ...]:
    return tuple(
        Step(number, 5.0, 1.0, learning_rate=1e-3 * (1 if number < 10 else leap)) for number in range(20)
    )


BOTH_WAYS: dict[str, tuple[Runs, Runs]] = {
    "model-from-numbers": (CASE, SAME),
    "model-from-count": (
        [replace(account("a"), shape=None, told_parameters=123.59e6), account("b")],
        SAME,
    ),
    "mfu-of-another-peak": (pair({"steps": steps(1.0, 0.5)}), pair({"steps": steps(0.9345, 1.5371)})),
    "tokens-contradict": (pair({"told_tokens_per_iter": 491520}), pair({"told_tokens_per_iter": 524288})),
    "mfu-above-one": (pair({"steps": steps(1.0, 1.4)}), CASE),
    "rate-impossible": (pair({"card": card_named("RTX 4070")}), pair({"card": H200})),
    "share-of-card": (pair({"card": H200}), pair({"card": card_named("RTX 4070")})),
    "cards-by-rate": (CASE, SAME),
    "mfu-against-a100": (CASE, pair({"card": card_named("A100 80GB PCIe"), "steps": steps(9.0, 0.15)})),
    "mfu-poisoned": (pair({"steps": SLOW_EVAL}), pair({"steps": SLOW_EVAL[:-1]})),
    "perplexity-as-loss": (
        pair({"evals": (Eval(500, 22.3),)}),
        pair({"evals": (Eval(0, 10.9), Eval(9, 9.0))}),
    ),
    "not-a-number": (pair({"evals": (Eval(500, math.nan),)}), SAME),
    "loss-too-low": (pair({"evals": (Eval(500, 3.5),)}), pair({"evals": (Eval(500, 5.4),)})),
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
    "throughput-fell-rate-rose": (CASE, CASE[::-1]),
    "throughput-rose-rate-fell": (CASE[::-1], CASE),
    "throughput-changed": (pair(seconds=1.1), SAME),
    "nothing-in-common": (
        [replace(account("a"), settings={"n_layer": 12}), replace(account("b"), settings={"n_embd": 768})],
        SAME,
    ),
    "no-change": (SAME, settings(learning_rate=1e-3)),
    "confounded": (CASE, settings(learning_rate=1e-3)),
    "one-change": (settings(batch_size=16, gradient_accumulation_steps=32), CASE),
    "settings-unknown": (CASE, SAME),
    "no-common-loss": (pair(evals=()), SAME),
    "losses-on-other-data": (settings(dataset="openwebtext"), SAME),
    "losses-of-different-models": (settings(n_layer=24, learning_rate=1e-3), settings(n_layer=24)),
    "no-evidence-for-learning-rate": (CASE, settings(learning_rate=1e-3)),
    "same-loss": (SAME, pair(evals=curve(5.9, 0.01))),
    "loss-noise-unknown": (pair({"evals": (Eval(500, 5.0),)}, evals=(Eval(500, 4.9),)), SAME),
    "losses-within-noise": (pair({"evals": curve(6.0, 0.1)}, evals=curve(6.01, 0.1)), SAME),
    "losses-apart": (pair(evals=curve(5.8, 0.01)), pair({"evals": curve(6.0, 0.1)}, evals=curve(6.01, 0.1))),
    "next-measure-apart": (CASE, settings(learning_rate=1e-3)),
    "next-name-the-card": (CASE, SAME),
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


def test_three_runs_are_each_held_against_the_first() -> None:
    runs = [account("a"), account("b", seconds=0.5), account("c", settings={"n_layer": 24})]
    comparison = compare(runs)
    assert comparison.winners["tokens_per_second"] == "b"
    assert [each.key for each in comparison.changes["c"].changed] == ["n_layer"]
    assert comparison.changes["b"].changed == ()


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


def test_a_told_run_without_times_has_no_rate_and_no_guess() -> None:
    silent = replace(AFTER, steps=())
    assert silent.tokens_per_second is None
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
