"""Settings from recipes and TOML files."""

from pathlib import Path

import pytest

from nanodyno.config import ConfigError, build_config
from nanodyno.errors import NanodynoError
from nanodyno.recipes import load_settings, recipe_names


def refusal_of(source: object) -> NanodynoError:
    with pytest.raises(NanodynoError) as caught:
        load_settings(str(source))
    return caught.value


def toml(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_every_recipe_builds_and_sets_nothing_without_effect():
    assert recipe_names() == (
        "best-1h", "best-8h", "best-weekend", "demo", "gpt2-384", "gpt2-768", "speedrun-124m",
    )  # fmt: skip
    for name in recipe_names():
        settings = load_settings(name)
        assert settings.name == name
        assert settings.ignored == ()
        build_config(settings.values)


@pytest.mark.parametrize(
    ("name", "n_head", "n_embd", "batch_size", "accumulation", "learning_rate", "min_lr"),
    [("gpt2-384", 6, 384, 16, 32, 1e-3, 1e-4), ("gpt2-768", 12, 768, 8, 64, 3e-4, 3e-5)],
)
def test_the_two_runs_of_the_case(name, n_head, n_embd, batch_size, accumulation, learning_rate, min_lr):  # noqa: PLR0913
    config = build_config(load_settings(name).values)
    assert (config.n_layer, config.n_head, config.n_embd, config.block_size) == (12, n_head, n_embd, 1024)
    assert (config.batch_size, config.gradient_accumulation_steps) == (batch_size, accumulation)
    assert (config.learning_rate, config.min_lr) == (learning_rate, min_lr)
    assert config.tokens_per_iter == 524_288
    assert (config.compile, config.bias) == (True, False)
    assert 10e9 - 524_288 < config.max_iters * config.tokens_per_iter <= 10e9


def test_the_demo_needs_neither_a_tokenizer_file_nor_a_compiler():
    config = build_config(load_settings("demo").values)
    assert (config.dataset, config.tokenizer, config.compile) == ("python", "bytes", False)


def test_an_unknown_recipe_names_the_nearest_and_all_others():
    error = refusal_of("gpt2-786")
    assert error.message == "gpt2-786: no such recipe; did you mean gpt2-768?"
    assert error.hint is not None
    assert "demo, gpt2-384, gpt2-768" in error.hint


def test_a_recipe_for_other_hours_is_reported_how_to_ask_for_them():
    assert (refusal_of("best-24h").hint or "").startswith("for 24 hours: best-8h --hours=24; recipes: ")


def test_a_toml_file_is_read_flat_with_its_keys_without_effect_noted(tmp_path: Path):
    text = '\ufeffn_layer = 2\nwandb_log = true\ndataset = "x"\nbackend = "nccl"\nn_layr = 1e3\n'
    settings = load_settings(toml(tmp_path, text))
    assert settings.name == "mine"
    assert settings.values == {"n_layer": 2, "dataset": "x", "n_layr": 1000.0}
    assert settings.ignored == ("wandb_log", "backend")


def test_tables_are_refused_by_name(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        load_settings(toml(tmp_path, "n_layer = 2\nbatch.size = 3\n[model]\nn_embd = 64\n[[runs]]\nx = 1\n"))
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["batch", "model", "runs"]
    assert "mine.toml" in caught.value.message


def test_a_toml_mistake_is_reported_with_its_line(tmp_path: Path):
    error = refusal_of(toml(tmp_path, "n_layer = 2\ndataset = python\n"))
    assert "mine.toml: not valid TOML" in error.message
    assert "line 2" in error.message


@pytest.mark.parametrize(
    "text", ["n_layer = " + "9" * 5000, "n_layer = " + "[" * 50_000], ids=["digits", "brackets"]
)
def test_a_toml_file_that_breaks_the_parser_is_only_a_mistake(tmp_path: Path, text: str):
    assert "not valid TOML" in refusal_of(toml(tmp_path, text)).message


@pytest.mark.parametrize("name", ["missing.toml", "missing.py"])
def test_a_missing_file_is_reported(tmp_path: Path, name: str):
    error = refusal_of(tmp_path / name)
    assert error.message.endswith(f"{name}: no such file")
    assert error.hint is not None
    assert "demo" in error.hint


def test_what_is_no_settings_file_is_reported(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("n_layer = 2")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    assert "neither a recipe nor" in refusal_of(tmp_path / "notes.txt").message
    assert "cannot be read" in refusal_of(tmp_path / "folder.toml").message
    assert "UTF-8" in refusal_of(tmp_path / "binary.py").message


def test_the_recipes_for_a_time_are_one_but_for_their_hours():
    hours = {name: load_settings(name).hours for name in recipe_names() if name.startswith("best-")}
    assert hours == {"best-1h": 1, "best-8h": 8, "best-weekend": 48}
    assert load_settings("best-1h").values == load_settings("best-8h").values
    assert load_settings("best-8h").values == load_settings("best-weekend").values
    assert not {"n_layer", "n_embd", "batch_size", "learning_rate"} & load_settings("best-8h").values.keys()


def test_a_file_of_ones_own_may_be_for_hours_or_fitted(tmp_path: Path):
    settings = load_settings(toml(tmp_path, "hours = 2.5\nblock_size = 512"))
    assert (settings.hours, settings.auto_batch_size, settings.values) == (2.5, False, {"block_size": 512})
    assert load_settings(toml(tmp_path, "fitted = true")).auto_batch_size


@pytest.mark.parametrize("text", ["hours = 0", 'hours = "8"', "hours = true", "hours = 1e9", "fitted = 1"])
def test_hours_that_are_none_are_refused(tmp_path: Path, text: str):
    assert "must be" in refusal_of(toml(tmp_path, text)).message
