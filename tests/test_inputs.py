"""Requests of recipes, files and runs: what becomes of their settings, and what is worked out only once."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.cli.tuned_file import how_to_train, train_command
from nanodyno.config import build_config
from nanodyno.costs.target import Target, named_target
from nanodyno.errors import NanodynoError
from nanodyno.inputs import Request, request_of_run, resolve
from nanodyno.recipes import load_settings, recipe_names
from nanodyno.records.store import read_run

RUNS = Path("runs")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_hand(device: str, gpu: str | None, limit: int | None) -> Target:
        del device
        return named_target(gpu or "RTX 4070", limit)

    monkeypatch.setattr("nanodyno.inputs.target_of", at_hand)


def test_a_tuned_run_is_trained_by_a_file_that_the_same_search_writes() -> None:
    settings = load_settings("demo")
    run = Request("my run", settings, settings, "run", ("--device=cpu",), ("device",))
    options = {"--budget": "40s", "--memory-limit": "12GB", "--allow": None}
    assert how_to_train(run, run.changed({"batch_size": 2}), options, None) == (
        "nanodyno tune 'my run' --device=cpu --budget 40s --memory-limit 12GB --write tuned.toml && "
        "nanodyno train tuned.toml"
    )
    recipe = resolve("demo", [], RUNS)
    after = recipe.changed({"batch_size": 2})
    assert how_to_train(recipe, after, options, None) == "nanodyno train demo --batch_size=2"
    assert how_to_train(recipe, after, options, Path("a.toml")) == "nanodyno train a.toml"


@pytest.mark.parametrize("name", recipe_names())
def test_the_fewest_settings_of_a_run_make_its_config(
    name: str, record: Callable[..., Any], tmp_path: Path
) -> None:
    made = record(load_settings(name).values)
    (tmp_path / "run.json").write_text(made.model_dump_json(), encoding="utf-8")
    request = resolve(str(tmp_path), [], RUNS)
    assert (request.origin, request.config) == ("run", made.config)
    assert ("n_head" in request.given.values) == (made.config.n_embd != 64 * made.config.n_head)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("recipe", ["best-8h", "speedrun-124m"])
def test_a_rate_to_be_found_is_left_to_be_found(recipe: str) -> None:
    request = resolve(recipe, ["--learning_rate=auto"], RUNS)
    found, plain = request.settings, resolve(recipe, [], RUNS).settings
    assert found.values == plain.values | {"learning_rate": "auto"}
    assert set(found.chosen) == set(plain.chosen) - {"learning_rate"}
    assert request.at_any_rate().config == (
        build_config(plain.values) if recipe == "best-8h" else request.config
    )


@pytest.mark.usefixtures("gpu")
def test_what_was_chosen_is_in_the_command_that_tune_advises() -> None:
    """Else a micro-batch that is given would make another choice."""
    request = resolve("best-1h", ["--n_embd=384"], RUNS)
    settings = request.settings
    assert set(settings.chosen) == {
        "n_layer", "tokens_per_iter", "batch_ramp", "batch_size", "learning_rate", "max_iters",
        "warmup_iters", "eval_interval", "eval_tokens",
    }  # fmt: skip
    after = request.changed({"batch_size": 1})
    command = train_command("best-1h", (*request.typed, *settings.chosen), settings, after.settings)
    source, *words = shlex.split(command)[2:]
    assert resolve(source, words, RUNS).config == after.config
    assert resolve("speedrun-124m", [], RUNS).settings.chosen == ("batch_size",)


def test_a_request_knows_where_it_is_from(tmp_path: Path) -> None:
    file, nanogpt = tmp_path / "mine.toml", tmp_path / "mine.py"
    file.write_text("n_layer = 2\n", encoding="utf-8")
    nanogpt.write_text("n_layer = 2\nwandb_log = True\n", encoding="utf-8")
    origins = {source: resolve(source, [], RUNS).origin for source in ("demo", str(file), str(nanogpt))}
    assert list(origins.values()) == ["recipe", "file", "file"]
    request = resolve(str(nanogpt), ["--n_layer=3", "--always_save_checkpoint"], RUNS)
    assert (request.name, request.typed) == ("mine", ("n_layer", "always_save_checkpoint"))
    assert request.settings.ignored == ("wandb_log", "always_save_checkpoint")
    assert (request.own.values["n_layer"], request.config.n_layer) == (2, 3)
    assert {"n_head", "min_lr"} <= request.settings.assumed


def test_no_gpu_and_no_data_are_looked_at_for_a_config_that_leaves_nothing_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent of a probe must take no memory on the GPU."""

    def refuse(*_: object) -> None:
        raise AssertionError

    for name in ("target_of", "vocabulary_of", "choose_size", "fitted_batch"):
        monkeypatch.setattr(f"nanodyno.inputs.{name}", refuse)
    assert resolve("gpt2-768", ["--batch_size=4"], RUNS).config.batch_size == 4


@pytest.mark.usefixtures("gpu")
def test_what_follows_from_a_request_is_worked_out_once() -> None:
    request = resolve("best-1h", [], RUNS)
    assert request.choice is not None
    assert request.choice is request.choice
    assert request.target is request.target
    assert request.vocabulary is request.vocabulary
    assert request.config is request.config
    assert request.config == request.choice.chosen.config
    assert request.changed({"max_iters": 50}).choice is None


def test_a_run_is_refused_where_a_recipe_is_expected(record: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "run.json").write_text(record({}).model_dump_json(), encoding="utf-8")
    assert resolve("mine", [], tmp_path).is_run
    with pytest.raises(NanodynoError, match="mine is a run"):
        resolve("mine", [], tmp_path, takes_runs=False)
    with pytest.raises(NanodynoError, match="no such recipe"):
        resolve("other", [], tmp_path, takes_runs=False)


@pytest.mark.parametrize(
    ("gpu", "watts", "drawn"),
    [("RTX 4070", 183.0, 183.0), ("RTX 4090", 183.0, None), ("RTX 4070", None, None)],
)
def test_the_power_of_a_run_counts_for_the_gpu_it_trained_on(
    record: Callable[..., Any],
    sample: Callable[..., Any],
    tmp_path: Path,
    gpu: str,
    watts: float | None,
    drawn: float | None,
) -> None:
    """The median of three samples."""
    made = [sample(at, power_watts=watts and watts + more) for at, more in ((5, 0.0), (6, 9.0), (7, -9.0))]
    (tmp_path / "run.json").write_text(record().model_dump_json(), encoding="utf-8")
    (tmp_path / "telemetry.jsonl").write_text("".join(f"{each.model_dump_json()}\n" for each in made))
    request = resolve(str(tmp_path), [], RUNS, gpu=gpu)
    assert request.target.drawn_watts == drawn
    assert request_of_run(read_run(tmp_path)).power_drawn == request.power_drawn


def test_a_run_on_a_cpu_and_one_without_telemetry_tell_no_power(
    record: Callable[..., Any], sample: Callable[..., Any], tmp_path: Path
) -> None:
    for name, gpu in (("cpu", None), ("silent", ("NVIDIA GeForce RTX 4070", 11.99))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(record(gpu=gpu).model_dump_json(), encoding="utf-8")
    (tmp_path / "cpu" / "telemetry.jsonl").write_text(f"{sample(5, power_watts=99.0).model_dump_json()}\n")
    assert [resolve(str(tmp_path / name), [], RUNS).power_drawn for name in ("cpu", "silent")] == [None, None]
