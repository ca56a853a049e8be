"""What a setting can move is decided once, for every setting there is."""

from typing import Any, get_args

import pytest

from nanodyno.analysis.changes import SettingChange
from nanodyno.analysis.factors import design_of
from nanodyno.analysis.moves import Kind, kind_of, moves_loss, moves_speed
from nanodyno.config import SETTINGS, build_config
from nanodyno.errors import NanodynoError

OF_BOTH = {
    "n_embd": (384, 768),
    "tokens_per_iter": (1, 2),
    "optimizer": ("adamw", "muon"),
    "fp8": (False, True),
}
OF_THE_LOSS = {
    "learning_rate": (1e-3, 2e-3), "bad_update": ("stop", "skip"), "spike_zscore": (0.0, 6.0), "seed": (1, 2),
    "rope_base": (1e4, 5e5), "zero_init": (False, True), "lr_decay_iters": (10, 20), "dataset": ("a", "b"),
    "eval_tokens": (1024, 2048),
}  # fmt: skip
OF_THE_SPEED = {
    "batch_size": (8, 16),
    "compile": (True, False),
    "threads": (1, 2),
    "parallel": ("ddp", "fsdp"),
}
OF_NEITHER = {
    "log_interval": (1, 2),
    "keep_checkpoints": (1, 2),
    "eval_interval": (1, 2),
    "max_iters": (1, 2),
}


def test_every_kind_but_that_of_unknown_keys_is_of_some_setting() -> None:
    """Amounts make kinds too: of a grad_clip that is there on both sides, of one that is not."""
    found = {kind_of(key, *values) for key in SETTINGS for values in ((0.0, 1.0), (0.5, 0.6))}
    assert found == set(get_args(Kind)) - {"other"}
    assert kind_of("a_setting_of_another_program", 1, 2) == "other"
    assert kind_of("backend", "nccl", "gloo") == "speed"
    assert {kind_of(key, "a", "b") for key in ("name", "wandb_project")} == {"record"}


@pytest.mark.parametrize(
    ("settings", "speed", "loss"),
    [
        (OF_BOTH, True, True),
        (OF_THE_LOSS, False, True),
        (OF_THE_SPEED, True, False),
        (OF_NEITHER, False, False),
    ],
)
def test_what_moves_what(settings: dict[str, tuple[Any, Any]], speed: bool, loss: bool) -> None:
    moved = {key: (moves_speed(key, *values), moves_loss(key, *values)) for key, values in settings.items()}
    assert moved == dict.fromkeys(settings, (speed, loss))


@pytest.mark.parametrize("key", ["grad_clip", "dropout", "logit_softcap"])
@pytest.mark.parametrize("absent", [0.0, None, "none"])
def test_a_pass_costs_time_or_none_and_how_much_it_does_costs_none(key: str, absent: Any) -> None:
    assert moves_speed(key, absent, 0.5)
    assert moves_speed(key, 0.5, absent)
    assert not moves_speed(key, 0.5, 0.6)
    assert moves_loss(key, 0.5, 0.6)


SAMPLES: dict[str, tuple[Any, Any]] = {
    **OF_BOTH, **OF_THE_LOSS, **OF_THE_SPEED, "grad_clip": (0.0, 1.0), "dropout": (0.0, 0.1),
    "n_embd": (128, 256), "tokens_per_iter": (4096, 8192), "batch_size": (1, 2),
}  # fmt: skip
HELD_HERE = {"seed", "eval_tokens", "parallel"}
"""Attribute makes them the same in every corner, and says so."""


@pytest.mark.parametrize("key", sorted(set(SAMPLES) - HELD_HERE - {"dataset"}))
@pytest.mark.parametrize("metric", ["tokens_per_second", "val_loss"])
def test_attribute_measures_what_compare_says_can_move(key: str, metric: Any) -> None:
    base: dict[str, Any] = {"block_size": 1024, "batch_size": 1, "tokens_per_iter": 8192, "positions": "rope"}
    before, after = SAMPLES[key]
    change = SettingChange(key, before, after)
    configs = [build_config(base | {key: value}) for value in (before, after)]
    if change.moves_loss if metric == "val_loss" else change.moves_speed:
        assert key in {
            each for factor in design_of(configs[0], configs[1], metric).factors for each in factor.keys
        }
    else:
        with pytest.raises(NanodynoError, match="cannot affect"):
            design_of(configs[0], configs[1], metric)
