"""Every setting has a kind, and a part that was left out is told apart from one that is not known."""

from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.analysis.account import account_of
from nanodyno.analysis.changes import KINDS, changes_between
from nanodyno.config import OF_THE_BLOCK, RunConfig
from nanodyno.records.store import Run
from nanodyno.records.types import RunRecord

PARTS: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "n_kv_head": 4, "window": 8,
    "value_embeddings": 2, "untied_head": True, "logit_softcap": 15.0, "zero_init": True,
    "embedding_init": 0.5, "embedding_lr": 0.1, "optimizer": "muon", "cautious_decay": True,
    "schedule": "wsd",
}  # fmt: skip


def test_every_part_of_the_model_and_of_the_update_has_a_kind() -> None:
    known = {key for keys in KINDS.values() for key in keys}
    of_the_update = {"optimizer", "muon_lr", "muon_momentum", "embedding_lr", "cautious_decay", "schedule"}
    assert {*OF_THE_BLOCK, *of_the_update, "zero_init", "embedding_init"} <= known
    assert set(PARTS) <= set(RunConfig.model_fields)


@pytest.mark.parametrize("key", list(PARTS))
def test_a_part_alone_is_the_one_change_and_moves_what_it_can(
    key: str, record: Callable[..., RunRecord], run: Callable[..., Run]
) -> None:
    plain, modern = (account_of(run(record=record(settings))) for settings in ({}, {key: PARTS[key]}))
    (change,) = changes_between(plain, modern).changed
    assert (change.key, change.after) == (key, PARTS[key])
    assert change.moves_loss
    starts_and_rates = {"zero_init", "embedding_init", "embedding_lr", "schedule"}
    assert change.moves_speed == (key not in starts_and_rates)
