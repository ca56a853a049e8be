"""What was probably meant: settings, recipes, GPUs and commands, as people of other programs type them."""

import pytest

from nanodyno.config import RunConfig, nearest_setting
from nanodyno.config.build import ALIASES
from nanodyno.errors import NanodynoError, did_you_mean, nearest_names
from nanodyno.hardware.gpus import gpu_named
from nanodyno.recipes import load_settings, override, parse_overrides, recipe_names
from nanodyno.recipes.reading import BY_SIZE, no_such


def test_the_nearest_comes_first_and_an_alias_that_is_typed_exactly_is_alone() -> None:
    known = ["learning_rate", "min_lr", "n_layer"]
    assert nearest_names("learning_rat", known) == ["learning_rate"]
    assert nearest_names("LR", known, {"lr": "learning_rate"}, most=3) == ["learning_rate"]
    assert nearest_names("zzzz", known) == []
    assert did_you_mean([]) == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lr", "learning_rate"),
        ("LR", "learning_rate"),
        ("bs", "batch_size"),
        ("batch-sise", "batch_size"),
        ("seq_len", "block_size"),
        ("num_layers", "n_layer"),
        ("max_steps", "max_iters"),
        ("wd", "weight_decay"),
        ("grad_accum", "gradient_accumulation_steps"),
        ("n_layer", "n_layer"),
        ("zzzzzzzz", None),
    ],
)
def test_a_setting_is_found_by_the_names_of_other_programs(typed: str, meant: str | None) -> None:
    assert nearest_setting(typed) == meant


def test_every_alias_means_a_setting_and_is_none_itself() -> None:
    assert {*ALIASES.values()} <= {*RunConfig.model_fields}
    assert {*ALIASES} & {*RunConfig.model_fields} == set()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gpt2", "gpt2-768"),
        ("gpt-2", "gpt2-768"),
        ("gpt2-small", "gpt2-768"),
        ("gpt2-124m", "gpt2-768"),
        ("GPT2-124M", "gpt2-768"),
        ("124m", "gpt2-768"),
        ("117M", "gpt2-768"),
        ("gpt2-41m", "gpt2-384"),
        ("gpt2-medium", "gpt2-768 --n_layer=24 --n_embd=1024"),
        ("350m", "gpt2-768 --n_layer=24 --n_embd=1024"),
        ("gpt2-xl", "gpt2-768 --n_layer=48 --n_embd=1600"),
        ("1.5b", "gpt2-768 --n_layer=48 --n_embd=1600"),
        ("gpt2-758", "gpt2-768"),
        ("speedrun-125m", "speedrun-124m"),
        ("speedrun", "speedrun-124m"),
    ],
)
def test_a_recipe_is_found_by_its_size(typed: str, meant: str) -> None:
    assert did_you_mean([meant]) in no_such(typed).message


def test_a_run_of_nearly_that_name_comes_before_a_recipe_of_that_size() -> None:
    assert did_you_mean(["gpt2-124"]) in no_such("gpt2-124m", ["other", "gpt2-124"]).message


@pytest.mark.parametrize("millions", BY_SIZE)
def test_what_is_suggested_for_a_size_has_it(millions: int) -> None:
    """12 layers' worth of 12 n_embd squared each, and 50,304 embeddings."""
    name, *options = BY_SIZE[millions].split()
    assert name in recipe_names()
    values = override(load_settings(name), parse_overrides(options)).values
    width, depth = int(str(values["n_embd"])), int(str(values["n_layer"]))
    assert (12 * depth * width**2 + (50_304 + 1024) * width) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize(
    ("typed", "meant"), [("4071", "RTX 4070"), ("rtx 409", "RTX 4090"), ("h20O", "H200")]
)
def test_a_gpu_is_found_by_its_model_alone(typed: str, meant: str) -> None:
    with pytest.raises(NanodynoError) as refused:
        gpu_named(typed)
    assert meant in str(refused.value.hint)
