"""Overriding a setting drops what it makes stale, and nothing else."""

import pytest

from nanodyno.config import ConfigError, build_config
from nanodyno.recipes import Settings, changed, override


def overridden(
    base: dict[str, object], assumed: set[str] | None = None, **overrides: object
) -> dict[str, object]:
    return override(Settings("base", base, assumed=frozenset(assumed or ())), overrides).values


def test_the_base_is_left_as_it_was():
    base = Settings("base", {"n_layer": 2})
    assert override(base, {"n_layer": 3}) == Settings("base", {"n_layer": 3})
    assert base.values == {"n_layer": 2}


def test_tokens_per_iter_and_accumulation_replace_each_other():
    assert overridden({"gradient_accumulation_steps": 40}, tokens_per_iter=8) == {"tokens_per_iter": 8}
    assert overridden({"tokens_per_iter": 8}, gradient_accumulation_steps=2) == {
        "gradient_accumulation_steps": 2
    }
    both = override(
        Settings("base", {"tokens_per_iter": 1}), {"tokens_per_iter": 8, "gradient_accumulation_steps": 2}
    )
    assert both.values == {"tokens_per_iter": 8, "gradient_accumulation_steps": 2}


def test_eval_tokens_and_eval_iters_replace_each_other():
    assert overridden({"eval_iters": 200}, eval_tokens=8) == {"eval_tokens": 8}
    assert overridden({"eval_tokens": 8}, eval_iters=2) == {"eval_iters": 2}


def test_heads_that_nobody_chose_follow_an_overridden_width():
    assert overridden({"n_embd": 384, "n_head": 12}, {"n_head"}, n_embd=768) == {"n_embd": 768}
    assert overridden({"n_embd": 384, "n_head": 6}, n_embd=768) == {"n_embd": 768, "n_head": 6}
    assert overridden({"n_head": 12}, {"n_head"}, n_embd=512, n_head=4) == {"n_embd": 512, "n_head": 4}


def test_a_schedule_that_was_written_out_stays():
    base = {"max_iters": 600_000, "lr_decay_iters": 600_000, "learning_rate": 6e-4, "min_lr": 6e-5}
    shorter = overridden(dict(base), max_iters=1000, learning_rate=1e-3)
    assert shorter == base | {"max_iters": 1000, "learning_rate": 1e-3}


def test_keys_without_effect_are_noted_once_and_not_stored():
    base = Settings("base", {}, ("wandb_log",))
    result = override(base, {"wandb_log": True, "backend": "gloo", "n_layer": 2})
    assert result.values == {"n_layer": 2}
    assert result.ignored == ("wandb_log", "backend")


def test_an_overridden_key_is_assumed_no_longer():
    base = Settings(
        "base", {"n_head": 12, "dataset": "openwebtext"}, assumed=frozenset({"n_head", "dataset"})
    )
    assert override(base, {"dataset": "python"}).assumed == {"n_head"}
    assert override(base, {"n_embd": 512}).assumed == {"dataset"}


def test_an_override_wins_over_a_base_instead_of_conflicting_with_it():
    base = Settings("base", {"gradient_accumulation_steps": 5, "eval_iters": 200})
    config = build_config(override(base, {"tokens_per_iter": 24_576, "eval_tokens": 4096}).values)
    assert (config.gradient_accumulation_steps, config.eval_tokens) == (2, 4096)


def test_what_a_command_line_changed_is_reported_from_what_it_only_repeated():
    base = Settings("base", {"n_layer": 12, "tokens_per_iter": 524_288})
    again = override(base, {"n_layer": 12, "recompute": "auto", "wandb_log": True})
    assert changed(base, again) == {}
    other = override(base, {"n_layer": 24, "gradient_accumulation_steps": 4, "compile": False})
    assert changed(base, other) == {"n_layer": 24, "gradient_accumulation_steps": 4, "compile": False}


def test_hours_change_only_where_a_recipe_is_for_some():
    made = Settings("best", {}, hours=8)
    assert override(made, {"hours": 3.0}) == Settings("best", {}, hours=3)
    assert changed(made, override(made, {"hours": 3, "n_layer": 4})) == {"hours": 3, "n_layer": 4}
    assert changed(made, made) == {}
    given = {"n_layer": 12, "batch_ramp": None}  # as by default, but otherwise they would be chosen
    assert changed(made, override(made, given)) == given
    with pytest.raises(ConfigError, match="hours: run "):
        override(Settings("run", {}), {"hours": 3})
    with pytest.raises(ConfigError, match="auto_batch_size: "):
        override(made, {"auto_batch_size": True})


def test_a_given_micro_batch_is_not_fitted():
    made = Settings("run", {"batch_size": 8}, auto_batch_size=True)
    assert override(made, {"n_layer": 4}).auto_batch_size
    assert not override(made, {"batch_size": 4}).auto_batch_size
