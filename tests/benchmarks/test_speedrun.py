"""Trials of a file become settings, and those that are shipped are runs."""

import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from nanodyno.costs.parameters import parameters
from nanodyno.recipes import load_settings
from nanodyno.train.engine import Prepared

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WRITTEN = """
tokens = 1000
n_layer = 3
muon_lr = 0.1
[one]
[two]
n_layer = 5
muon_lr = "default"
seeds = [7, 8]
[after]
over = "two"
seeds = [1]
[later]
over = "after"
muon_lr = 0.3
[search]
over = "best"
muon_lr = 0.2
"""


@pytest.fixture(scope="module")
def speedrun(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("speedrun")


def test_a_trial_has_what_is_at_the_top_and_what_is_its_own(speedrun: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "trials.toml").write_text(WRITTEN)
    plan = list(speedrun.planned(tmp_path / "trials.toml", ["one", "two"], {"bias": True}))
    found = [(each.name, each.settings(None)) for each in plan]
    assert [(name, settings["n_layer"], settings["seed"]) for name, settings in found] == [
        ("one", 3, 1337), ("two", 5, 7), ("two", 5, 8),
    ]  # fmt: skip
    assert found[0][1]["muon_lr"] == 0.1
    assert "muon_lr" not in found[1][1]
    assert all(settings["bias"] for _, settings in found)


def test_a_trial_begins_with_another_or_with_the_best_so_far(speedrun: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "trials.toml").write_text(WRITTEN)
    after, search = speedrun.planned(tmp_path / "trials.toml", ["after", "search"], {})
    assert after.settings({"n_layer": 9})["n_layer"] == 5
    (later,) = speedrun.planned(tmp_path / "trials.toml", ["later"], {})
    assert {key: later.settings(None)[key] for key in ("n_layer", "muon_lr", "seed")} == {
        "n_layer": 5, "muon_lr": 0.3, "seed": 1,
    }  # fmt: skip
    assert search.settings(None)["n_layer"] == 3
    assert search.settings({"n_layer": 9, "bias": True, "muon_lr": 0.3}) == {
        "over": "best", "n_layer": 9, "bias": True, "muon_lr": 0.2, "seed": 1337,
    }  # fmt: skip


def test_a_trial_that_is_not_there_is_reported_before_any_other_begins(
    speedrun: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "trials.toml").write_text(WRITTEN)
    with pytest.raises(SystemExit, match="called tow; there are one, two, after"):
        next(speedrun.planned(tmp_path / "trials.toml", ["one", "tow"], {}))


def test_what_was_packed_is_unpacked_to_the_same_tokens(
    speedrun: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tokens = np.random.default_rng(1).integers(0, 50257, speedrun.EVALUATED + 1000).astype(np.uint16)
    speedrun.write(*speedrun.split_of(tokens), tmp_path / "here")
    for words in (["pack", "here", "tokens.xz"], ["unpack", "tokens.xz", "--out", "there"]):
        monkeypatch.setattr(speedrun.sys, "argv", ["speedrun.py", *words])
        monkeypatch.chdir(tmp_path)
        speedrun.main()
    assert np.array_equal(
        np.fromfile(tmp_path / "there" / "val.bin", np.uint16), tokens[: speedrun.EVALUATED]
    )
    assert np.array_equal(np.fromfile(tmp_path / "there" / "train.bin", np.uint16), tokens[-1000:])


def test_of_a_source_that_is_held_out_and_of_the_other_val_set_nothing_is_trained_on(
    speedrun: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speedrun, "EVALUATED", 3)
    end = speedrun.END_OF_TEXT
    tokens = np.array([end, 1, 2, 3, end, 4, 5, 6, end, 7, 8, end, 9], dtype=np.uint16)
    sources = np.array(["novels", "books", "novels", "books"])
    train, val = speedrun.held_out(tokens, sources, "books")
    assert train.tolist() == [3, end, 7, 8]
    assert val.tolist() == [end, 4, 5]
    with pytest.raises(SystemExit, match="the sources are books, novels"):
        speedrun.held_out(tokens, sources, "letters")


@pytest.mark.parametrize("words", ['over = "later"', 'over = "search"'])
def test_a_trial_over_itself_or_over_one_that_has_to_be_searched_for_is_refused(
    speedrun: ModuleType, tmp_path: Path, words: str
) -> None:
    (tmp_path / "trials.toml").write_text(WRITTEN.replace('over = "two"', words))
    with pytest.raises(SystemExit, match="a trial is over another"):
        next(speedrun.planned(tmp_path / "trials.toml", ["after"], {}))


def test_iterations_follow_the_tokens(speedrun: ModuleType) -> None:
    config = speedrun.config_for({"batch_size": 2, "block_size": 8, "gradient_accumulation_steps": 1}, 100)
    assert config.max_iters == config.lr_decay_iters == 7  # of 16 tokens each


@pytest.mark.parametrize("file", ["speedrun.toml", "best.toml", "best_bytes.toml"])
def test_every_shipped_trial_is_a_run_of_at_most_130_million_besides_value_embeddings(
    speedrun: ModuleType, file: str
) -> None:
    found = list(speedrun.planned(BENCHMARKS / file, None, {}))
    assert len(found) > 8
    for each in found:
        settings = each.settings(None)
        own = {key: value for key, value in settings.items() if key not in speedrun.SPECIAL}
        config = speedrun.config_for(own, settings["tokens"])
        count = parameters(config.model_shape(50304))
        assert count.total - count.value_embeddings <= 130_000_000
        assert config.model_shape(50304).is_gpt2 == each.name.startswith("plain")


VARIED = ("-decay", "-no-values", "-slow-embeddings")
"""Runs of one size that differ in one setting: what keeps data that repeat from overfitting."""


def test_the_grid_is_the_recipe_in_other_sizes_and_batches(speedrun: ModuleType) -> None:
    configs = {}
    for each in speedrun.planned(BENCHMARKS / "grid.toml", None, {}):
        settings = each.settings(None) | {"max_iters": speedrun.MEASURED}
        own = {key: value for key, value in settings.items() if key not in speedrun.SPECIAL}
        configs[each.name] = speedrun.config_for(own, None)
    sizes = {
        name: (config.n_layer, config.n_embd, config.tokens_per_iter) for name, config in configs.items()
    }
    assert len(set(sizes.values())) == 12
    own_sizes = [size for name, size in sizes.items() if not any(part in name for part in VARIED)]
    assert len(own_sizes) == len(set(own_sizes)) == 12
    recipe = load_settings("speedrun-124m").values
    own = configs["speedrun-124m"].model_dump()
    beside = {"dataset", "max_iters", "eval_interval", "eval_tokens", "batch_size"}
    assert {key: own[key] for key in recipe.keys() - beside} == {
        key: value for key, value in recipe.items() if key not in beside
    }


@pytest.mark.parametrize(
    ("file", "name"), [("best.toml", "values-fast"), ("best_bytes.toml", "values-faster")]
)
def test_one_of_the_trials_is_the_recipe(speedrun: ModuleType, file: str, name: str) -> None:
    first, *_ = speedrun.planned(BENCHMARKS / file, [name], {})
    recipe = load_settings("best-1h").values
    of_the_data = {"dataset", "tokenizer", "block_size"}
    assert {key: first.settings(None).get(key) for key in recipe.keys() - of_the_data} == {
        key: value for key, value in recipe.items() if key not in of_the_data
    }


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


def test_a_trial_whose_kernels_failed_is_not_trained_on_torchs(
    benchmark_module: Callable[[str], ModuleType],
) -> None:
    trials = benchmark_module("trials")
    prepared = Prepared(seconds=1.0, compiled=False, triton=True)
    trials.refuse_torchs_kernels(prepared)
    failed = replace(prepared, triton=False, notes=("a kernel failed: no such instruction",))
    with pytest.raises(RuntimeError, match="no such instruction"):
        trials.refuse_torchs_kernels(failed)


def test_looks_on_the_way_count_the_tokens_of_a_batch_that_grew(
    benchmark_module: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    trials = benchmark_module("trials")
    settings = {
        "device": "cpu", "dataset": "python", "tokenizer": "bytes", "compile": False, "n_layer": 1,
        "n_head": 1, "n_embd": 8, "block_size": 8, "batch_size": 2, "tokens_per_iter": 16,
        "batch_ramp": "32:32", "max_iters": 4, "warmup_iters": 1,
    }  # fmt: skip
    trial = trials.run_trial(trials.config_for(settings, None), tmp_path, val_tokens=64, looks=3)
    assert [tokens for tokens, _, _ in trial.losses] == [16, 32, 64]
    assert trial.tokens == 96


def test_a_trial_is_expected_to_take_what_the_slowest_took_for_a_token_and_besides(
    speedrun: ModuleType,
) -> None:
    pace = speedrun.Pace()
    assert pace.expected(10**9) == 0.0
    pace.learn(SimpleNamespace(train_seconds=10.0, tokens=1000), 13.0)
    pace.learn(SimpleNamespace(train_seconds=2.0, tokens=100), 4.0)
    assert pace.expected(500) == pytest.approx(3 + 500 * 0.02)


TWO_TRIALS = "device = 'cpu'\nwarmup_iters = 1\nmax_iters = 2\nlr_decay_iters = 2\n[one]\n[two]\n"


def arguments(tmp_path: Path, *more: str) -> list[str]:
    (tmp_path / "trials.toml").write_text(TWO_TRIALS)
    return ["run", str(tmp_path / "trials.toml"), "--data", str(tmp_path), *more]


@pytest.mark.parametrize("lost", [False, True])
def test_a_fault_that_takes_the_gpu_away_lets_another_process_go_on_with_the_next(
    speedrun: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: bool
) -> None:
    begun: list[int] = []
    processes: list[list[str]] = []

    def fails(*_: object, **__: object) -> None:
        begun.append(1)
        raise RuntimeError("an illegal memory access was encountered")

    def replaced(_: str, words: list[str]) -> None:
        processes.append(words)
        raise SystemExit

    monkeypatch.setattr(speedrun, "run_trial", fails)
    monkeypatch.setattr(speedrun, "gpu_is_lost", lambda: lost)
    monkeypatch.setattr(speedrun.os, "execv", replaced)
    monkeypatch.setattr(speedrun.sys, "argv", ["speedrun.py", *arguments(tmp_path, "--seconds", "50")])
    with pytest.raises(SystemExit) if lost else nullcontext():
        speedrun.main()
    assert len(begun) == (1 if lost else 2)
    if lost:
        _, *words = processes[0]
        assert words[: len(speedrun.sys.argv)] == speedrun.sys.argv
        assert words[-4:-1] == ["--first", "1", "--seconds"]
        assert 0 < float(words[-1]) <= 50


def test_the_process_that_goes_on_begins_with_the_trial_it_is_reported(
    speedrun: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(speedrun, "run_trial", fails)
    monkeypatch.setattr(speedrun.sys, "argv", ["speedrun.py", *arguments(tmp_path, "--first", "1")])
    speedrun.main()
    assert "two: RuntimeError: no" in (out := capsys.readouterr().out)
    assert "one" not in out
