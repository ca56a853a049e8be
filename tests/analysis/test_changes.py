"""A part left out is told apart from one that is not known, and what follows from a change comes with it."""

from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.changes import Changes, changes_between
from nanodyno.analysis.conclusions import compared_runs
from nanodyno.records.store import Run
from nanodyno.records.types import RunRecord

PARTS: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "n_kv_head": 4, "window": 8,
    "value_embeddings": 2, "untied_head": True, "logit_softcap": 15.0, "zero_init": True,
    "embedding_init": 0.5, "embedding_lr": 0.1, "optimizer": "muon", "cautious_decay": True,
    "schedule": "wsd",
}  # fmt: skip


@pytest.mark.parametrize("key", list(PARTS))
def test_a_part_alone_is_the_one_change_and_moves_what_it_can(
    key: str, record: Callable[..., RunRecord], run: Callable[..., Run]
) -> None:
    needed = {"untied_head": True} if key == "embedding_lr" else {}
    plain, modern = (
        account_of(run(record=record(needed | settings))) for settings in ({}, {key: PARTS[key]})
    )
    (change,) = changes_between(plain, modern).changed
    assert (change.key, change.after) == (key, PARTS[key])
    assert change.moves_loss
    starts_and_rates = {"zero_init", "embedding_init", "embedding_lr", "schedule"}
    assert change.moves_speed == (key not in starts_and_rates)


def test_a_run_that_was_gone_on_with_has_not_begun_otherwise(
    record: Callable[..., RunRecord], run: Callable[..., Run]
) -> None:
    once, resumed = (
        account_of(run(record=record({"init_from": way, "max_iters": end})))
        for way, end in (("scratch", 100), ("resume", 120))
    )
    assert "init_from" not in {each.key for each in changes_between(once, resumed).changed}


def compared(
    one: dict[str, Any], other: dict[str, Any], record: Callable[..., RunRecord], run: Callable[..., Run]
) -> tuple[Changes, dict[str, Any]]:
    """What changed, and what is said of the changes as a whole, by its code."""
    comparison, findings = compared_runs([run(record=record(one)), run(record=record(other))])
    (changes,) = comparison.changes.values()
    return changes, {each.code: each.numbers for each in findings}


def test_a_decay_as_long_as_the_run_moves_the_loss_though_the_length_does_not(
    record: Callable[..., RunRecord], run: Callable[..., Run]
) -> None:
    changes, said = compared({"max_iters": 100}, {"max_iters": 200, "n_layer": 4}, record, run)
    assert {each.key: each.follows for each in changes.changed} == {
        "n_layer": None, "max_iters": None, "lr_decay_iters": "max_iters",
    }  # fmt: skip
    assert (said["confounded"]["speed"], said["confounded"]["loss_keys"]) == (
        ["n_layer"],
        ["n_layer", "lr_decay_iters"],
    )


def test_a_val_loss_over_other_text_is_another(
    record: Callable[..., RunRecord], run: Callable[..., Run]
) -> None:
    changes, _ = compared({"eval_tokens": 1024}, {"eval_tokens": 4096}, record, run)
    (change,) = changes.changed
    assert (change.key, change.kind, change.moves_speed, change.moves_loss) == (
        "eval_tokens", "reading", False, True,
    )  # fmt: skip


def test_another_text_moves_the_speed_by_its_vocabulary(
    record: Callable[..., RunRecord], run: Callable[..., Run]
) -> None:
    bytes_run, words_run = (
        record({"tokenizer": tokenizer}).model_copy(update={"vocab_size": rows})
        for tokenizer, rows in (("bytes", 256), ("gpt2", 50304))
    )
    bytes_run, words_run = (
        each.model_copy(
            update={"data": each.data.model_copy(update={"fingerprint": name, "tokenizer": name})}
        )
        for each, name in ((bytes_run, "bytes"), (words_run, "gpt2"))
    )
    comparison, findings = compared_runs([run(record=bytes_run), run(record=words_run)])
    (changes,) = comparison.changes.values()
    assert {each.key: each.follows for each in changes.changed} == {
        "vocab_size": "tokenizer",
        "tokenizer": None,
    }
    assert [each.key for each in changes.that_move("speed")] == ["vocab_size"]
    assert "one-change" in {each.code for each in findings}
