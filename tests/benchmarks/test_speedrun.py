"""Trials of a file become settings, and those that are shipped are runs."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from nanodyno.costs.parameters import parameters

SHIPPED = Path(__file__).parents[2] / "benchmarks" / "speedrun.toml"
WRITTEN = """
tokens = 1000
n_layer = 3
muon_lr = 0.1
[one]
[two]
n_layer = 5
muon_lr = "default"
seeds = [7, 8]
"""


@pytest.fixture(scope="module")
def speedrun(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("speedrun")


def test_a_trial_has_what_is_at_the_top_and_what_is_its_own(speedrun: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "trials.toml").write_text(WRITTEN)
    found = list(speedrun.planned(tmp_path / "trials.toml", None, {"bias": True}))
    assert [(name, settings["n_layer"], settings["seed"]) for name, settings in found] == [
        ("one", 3, 1337), ("two", 5, 7), ("two", 5, 8),
    ]  # fmt: skip
    assert found[0][1]["muon_lr"] == 0.1
    assert "muon_lr" not in found[1][1]
    assert all(settings["bias"] for _, settings in found)
    assert [name for name, _ in speedrun.planned(tmp_path / "trials.toml", ["one"], {})] == ["one"]


def test_iterations_follow_the_tokens(speedrun: ModuleType) -> None:
    config = speedrun.config_for({"batch_size": 2, "block_size": 8, "gradient_accumulation_steps": 1}, 100)
    assert config.max_iters == config.lr_decay_iters == 7  # of 16 tokens each


def test_every_shipped_trial_is_a_run_of_at_most_130_million_besides_value_embeddings(
    speedrun: ModuleType,
) -> None:
    found = list(speedrun.planned(SHIPPED, None, {}))
    assert len(found) > 8
    for name, settings in found:
        own = {key: value for key, value in settings.items() if key not in speedrun.SPECIAL}
        config = speedrun.config_for(own, settings["tokens"])
        count = parameters(config.model_shape(50304))
        assert count.total - count.value_embeddings <= 130_000_000
        assert config.model_shape(50304).is_gpt2 == (name == "plain-adamw")


def test_a_trial_that_failed_leaves_nothing_for_the_next(
    benchmark_module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trials = benchmark_module("trials")
    there: list[weakref.ref[object]] = []

    class Failing:
        def __init__(self, *_: object) -> None:
            self.itself = self  # only a collection ends it
            alive = [each for each in there if each() is not None]
            there.append(weakref.ref(self))
            raise RuntimeError(f"{len(alive)} before it")

    monkeypatch.setattr(trials, "Trainer", Failing)
    config = trials.config_for({"device": "cpu", "tokenizer": "bytes", "warmup_iters": 1}, 1)
    gc.disable()
    try:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="0 before it"):
                trials.run_trial(config, tmp_path)
    finally:
        gc.enable()
