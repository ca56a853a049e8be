"""Recipes, files and runs in the commands that take them; names that are none; what is left to the GPU."""

import json
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.plan_words import says

from nanodyno.config import RunConfig, build_config
from nanodyno.costs.target import Target, named_target
from nanodyno.inputs import resolve
from nanodyno.messages.language import ENGLISH
from nanodyno.recipes import load_settings, override
from nanodyno.records.store import read_run, read_run_record

Run = Callable[..., Any]
CASE = Path(__file__).parents[2] / "examples" / "train2.log"
RUNS = Path("runs")
SMALL = [
    "--n_layer=2", "--n_embd=64", "--block_size=32", "--tokens_per_iter=64", "--max_iters=2",
    "--eval_interval=1", "--eval_tokens=64", "--dataset=python", "--tokenizer=bytes", "--compile=False",
    "--loss_chunk_size=None", "--value_embeddings=1",
]  # fmt: skip


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card at hand, whose training the CPU does."""

    def at_hand(device: str, gpu: str | None, limit: int | None) -> Target:
        del device
        return named_target(gpu or "RTX 4070", limit)

    monkeypatch.setattr("nanodyno.inputs.target_of", at_hand)


def test_a_run_is_planned_as_it_was_trained(nanodyno: Run, tiny: list[str], tmp_path: Path) -> None:
    assert nanodyno(*tiny, "--name=mine", "--learning_rate=0.01").exit_code == 0
    trained = read_run_record(tmp_path / "runs" / "mine").config
    origin = resolve("mine", [], RUNS).given
    again = build_config(origin.values)
    assert again.model_copy(update={"device": "cpu"}) == trained
    faster = build_config(override(origin, {"learning_rate": 0.1, "max_iters": 9}).values)
    assert (faster.min_lr, faster.lr_decay_iters, faster.n_head) == (0.01, 9, 1)
    document = json.loads(nanodyno("plan", "mine", "--gpu", "H200", "--json").stdout)
    assert (document["tokens_per_iter"], document["max_iters"]) == (64, 4)
    refused = nanodyno("train", "mine")
    assert refused.exit_code == 2
    assert "nanodyno train --resume mine" in " ".join(refused.stderr.split())


def test_what_a_log_does_not_tell_is_reported_or_asked_for(nanodyno: Run, tmp_path: Path) -> None:
    assert nanodyno("import", str(CASE)).exit_code == 0
    planned = nanodyno("plan", "train2", "--gpu", "RTX 3060 12GB")
    assert says(planned.stdout, "option.log.defaults-assumed", run="train2")
    assert "41.0M parameters" in planned.stdout
    little = tmp_path / "little.log"
    little.write_text("iter 0: loss 4.0, time 10.0ms\niter 1: loss 3.9, time 10.0ms\n", encoding="utf-8")
    assert nanodyno("import", str(little)).exit_code == 0
    for command in ("plan", "probe", "tune"):
        refused = nanodyno(command, "little")
        assert refused.exit_code == 2
        assert "the log of little does not report n_layer, n_embd" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("command", ["plan", "probe", "tune"])
def test_a_misspelt_name_is_reported_what_there_is(nanodyno: Run, command: str) -> None:
    assert nanodyno("import", str(CASE)).exit_code == 0
    refused = nanodyno(command, "train3")
    reported = " ".join(refused.stderr.split())
    assert refused.exit_code == 2
    assert "; did you mean train2?" in reported
    assert "gpt2-768, speedrun-124m; runs: train2;" in reported


def test_the_plan_says_what_one_will_get(nanodyno: Run) -> None:
    document = json.loads(nanodyno("plan", "best-8h", "--gpu", "NVIDIA GeForce RTX 4070", "--json").stdout)
    made, sizes = document["chosen"], document["chosen"]["sizes"]
    assert made["hours"] == 8
    config = build_config(made["settings"])
    assert (config.tokens_per_iter, config.max_iters) == (document["tokens_per_iter"], document["max_iters"])
    assert document["fits"] is True
    assert 7.5 < document["hours"]["value"] <= 0.95 * 8 < document["hours"]["high"]
    expected = made["expected_val_loss"]
    assert expected["low_80"] < expected["median"] < expected["high_80"]
    assert expected["data"] == "fineweb-edu"
    least = min(
        (each for each in sizes if each["fits"]), key=lambda each: each["expected_val_loss"]["median"]
    )
    assert (least["n_layer"], least["n_embd"]) == (config.n_layer, config.n_embd)


def test_the_hours_asked_for_are_those_it_is_made_for(nanodyno: Run) -> None:
    page = nanodyno("plan", "best-8h", "--gpu", "H200", "--hours", "3").stdout
    assert page.startswith("best-8h with hours=3 on H200")
    document = json.loads(nanodyno("plan", "best-8h", "--gpu", "H200", "--hours", "3", "--json").stdout)
    assert document["chosen"]["hours"] == 3
    assert document["hours"]["value"] <= 0.95 * 3
    refused = nanodyno("plan", "best-8h", "--gpu", "H200", "--tokens", "1B")
    assert refused.exit_code == 2
    assert "best-8h" in refused.stderr
    assert "--tokens" in refused.stderr
    other = nanodyno("train", "demo", "--device=cpu", "--hours=3").stderr
    assert "hours: demo " in other
    assert "train --max-hours 3" in " ".join(other.split())
    in_vain = nanodyno("plan", "speedrun-124m", "--gpu", "H200", "--auto_batch_size").stderr
    assert "auto_batch_size: " in in_vain


def test_other_plans_have_no_choice(nanodyno: Run) -> None:
    assert json.loads(nanodyno("plan", "gpt2-768", "--gpu", "H200", "--json").stdout)["chosen"] is None


@pytest.mark.parametrize("command", ["train", "plan", "tune"])
def test_without_a_gpu_nothing_is_chosen(nanodyno: Run, command: str) -> None:
    refused = nanodyno(command, "best-1h", "--device=cpu")
    assert refused.exit_code == 2
    assert "best-1h depends on the GPU" in refused.stderr


@pytest.mark.usefixtures("gpu")
def test_the_chosen_settings_are_the_runs_own(nanodyno: Run, tmp_path: Path) -> None:
    done = nanodyno("train", "best-1h", *SMALL, "--device=cpu", "--name=mine")
    assert done.exit_code == 0, done.output
    run = read_run(tmp_path / "runs" / "mine").own
    assert (run.config.n_layer, run.config.tokens_per_iter) == (2, 64)
    assert (run.config.optimizer, run.config.schedule, run.config.positions) == ("muon", "wsd", "rope")
    assert run.config.learning_rate != build_config({}).learning_rate
    assert run.notes[0].startswith("best-1h for RTX 4070: 2 layers of 64 for 1 h")


@pytest.mark.usefixtures("gpu")
def test_a_run_goes_on_as_it_was_made(nanodyno: Run) -> None:
    nanodyno("train", "best-1h", *SMALL, "--device=cpu", "--name=mine")
    refused = nanodyno("train", "best-8h", "--resume", "mine")
    assert refused.exit_code == 2
    assert "best-8h" in refused.stderr
    assert nanodyno("train", "--resume", "mine", "--max_iters=3", "--lr_decay_iters=3").exit_code == 0


@pytest.mark.usefixtures("gpu")
def test_a_rate_is_found_for_the_model_that_was_chosen(
    nanodyno: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[RunConfig] = []

    def attempt(config: RunConfig, _: object) -> float:
        tried.append(config)
        return 3 + abs(config.learning_rate - 1e-3)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("nanodyno.experiments.rates.train_shortly", attempt)
    done = nanodyno("train", "best-1h", *SMALL, "--device=cpu", "--learning_rate=auto", "--name=mine")
    assert done.exit_code == 0, done.output
    run = read_run(tmp_path / "runs" / "mine").own
    assert [note.split(" ")[0] for note in run.notes[:2]] == ["best-1h", "learning_rate=auto"]
    assert {(each.n_layer, each.optimizer, each.muon_lr) for each in tried} == {(2, "muon", None)}
    assert (run.config.min_lr, run.config.batch_size) == (0.0, tried[0].batch_size)
    assert 2.5e-4 < run.config.learning_rate < 4e-3


def test_a_plan_at_a_rate_to_be_found_is_the_plan(nanodyno: Run) -> None:
    plain = json.loads(nanodyno("plan", "best-1h", "--gpu", "H200", "--json").stdout)
    found = json.loads(nanodyno("plan", "best-1h", "--gpu", "H200", "--learning_rate=auto", "--json").stdout)
    assert (found["chosen"], found["hours"]) == (plain["chosen"], plain["hours"])
    page = nanodyno("plan", "best-1h", "--gpu", "H200", "--learning_rate=auto", "--all").stdout
    assert "   RoPE, " in page
    assert "Muon" in page
    assert not says(page, "model.optimizer-rate", optimizer="Muon")
    title = ENGLISH.say("plan.row.learning-rate")
    assert not [line for line in page.splitlines() if line.startswith(f"{title} ")]


@pytest.mark.usefixtures("gpu")
def test_a_short_training_for_the_noise_takes_the_rate_that_a_recipe_would(nanodyno: Run) -> None:
    small = [*(each for each in SMALL if "max_iters" not in each), "--batch_size=1", "--max_iters=3"]
    done = nanodyno(
        "tune", "best-1h", *small, "--device=cpu", "--learning_rate=auto", "--critical-batch-size", "--json"
    )
    rate = resolve("best-1h", small, RUNS).settings.values["learning_rate"]
    assert f"learning_rate=auto: this short training run uses {rate:g}" in done.stderr
    assert json.loads(done.stdout)["of"]["iterations"] == 3


def test_a_short_training_for_the_noise_takes_the_rate_that_a_recipe_has(nanodyno: Run) -> None:
    small = ["--n_layer=1", "--n_embd=32", "--n_head=1", "--max_iters=2", "--learning_rate=auto"]
    done = nanodyno("tune", "demo", *small, "--critical-batch-size", "--json")
    rate = load_settings("demo").values["learning_rate"]
    assert f"learning_rate=auto: this short training run uses {rate}" in done.stderr
    assert "ended with the config's own 2 iterations (--max_iters)" in done.stderr


def test_a_log_is_of_no_recipe_for_hours(nanodyno: Run) -> None:
    log = Path(__file__).parents[2] / "examples" / "train1.log"
    refused = nanodyno("import", str(log), "--config", "best-8h")
    assert refused.exit_code == 2
    assert "not a complete config" in refused.stderr


def test_a_given_model_has_the_micro_batch_of_the_gpu(nanodyno: Run) -> None:
    def batch(*arguments: str) -> int:
        reported = nanodyno("plan", "speedrun-124m", "--tokens_per_iter=65536", *arguments, "--json").stdout
        return json.loads(reported)["batch_size"]

    assert batch("--gpu", "H200") > batch("--gpu", "H200", "--memory-limit", "11.2GiB") > 2
    assert batch("--gpu", "H200", "--tokens_per_iter=16384") == 16
    assert batch("--gpu", "RTX 4070", "--tokens_per_iter=16384") == 4
    assert batch("--gpu", "H200", "--batch_size=2") == 2
    assert batch("--device=cpu") == 8


@pytest.mark.parametrize(("dataset", "folder_name"), [("few", "few"), ("python", "python-gpt2")])
def test_data_that_would_be_seen_too_often_are_reported(
    nanodyno: Run, tmp_path: Path, dataset: str, folder_name: str
) -> None:
    """The embedded corpus too, by its tokens where it was prepared."""
    folder = tmp_path / "data" / folder_name
    folder.mkdir(parents=True)
    for split in ("train", "val"):
        (folder / f"{split}.bin").write_bytes(bytes(2 * 5000))
    page = nanodyno("plan", "best-1h", "--gpu", "H200", f"--dataset={dataset}", "--vocab_size=50257").stdout
    assert says(page, "size.data.repeated", dataset=dataset, tokens="5.00k")


def test_a_plan_tells_that_training_would_refuse_the_data(nanodyno: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "bare"
    folder.mkdir(parents=True)
    for split in ("train", "val"):
        (folder / f"{split}.bin").write_bytes(bytes(2 * 5000))
    asked = ("plan", "best-1h", "--gpu", "H200", "--dataset=bare")
    page = " ".join(nanodyno(*asked).stdout.split())
    assert says(page, "size.data.refused")
    assert "data/bare does not report" in page
    assert "its vocabulary (the first 5,000 tokens of train.bin go up to 0, so vocab_size=1 or more" in page
    assert says(page, "size.data.repeated", dataset="bare", tokens="5.00k")
    assert not says(page, "size.data.vocabulary-assumed")
    assert not says(nanodyno(*asked, "--vocab_size=50304").stdout, "size.data.refused")
    (folder / "val.bin").write_bytes(b"odd")
    assert "has an odd number of bytes" in nanodyno(*asked, "--vocab_size=50304").stdout


def test_an_empty_folder_is_no_dataset_that_training_would_refuse(nanodyno: Run, tmp_path: Path) -> None:
    (tmp_path / "data" / "edu").mkdir(parents=True)
    page = nanodyno("plan", "best-1h", "--gpu", "H200").stdout
    assert says(page, "size.data.vocabulary-assumed", dataset="edu")
    assert "nanodyno prepare fineweb-edu" in page


@pytest.mark.parametrize("tokenizer", ["gpt2", "bytes"])
def test_the_embedded_corpus_is_seen_too_often_before_it_is_prepared(
    nanodyno: Run, tmp_path: Path, tokenizer: str
) -> None:
    arguments = ("--gpu", "H200", "--dataset=python", f"--tokenizer={tokenizer}")
    page = nanodyno("plan", "best-1h", *arguments).stdout
    assert says(page, "size.data.embedded-repeated")
    assert not (tmp_path / "data").exists()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each part of an input was resolved, by whatever module."""
    counts: Counter[str] = Counter()

    def count(place: str, name: str) -> None:
        function = getattr(import_module(place), name)

        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(f"{place}.{name}", counted)

    for name in ("_read_toml", "read_nanogpt"):
        count("nanodyno.recipes.reading", name)
    for name in ("parse_overrides", "target_of", "vocabulary_of", "choose_size", "fitted_batch", "read_run"):
        count("nanodyno.inputs", name)
    count("nanodyno.costs.plan", "make_plan")
    return counts


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("gpt2-768", {"_read_toml"}),
        ("best-8h", {"_read_toml", "choose_size"}),
        ("speedrun-124m", {"_read_toml", "fitted_batch"}),
        ("mine.py", {"read_nanogpt"}),
        ("train2", {"read_run"}),
    ],
)
def test_a_plan_resolves_each_part_once(
    nanodyno: Run, counts: Counter[str], tmp_path: Path, source: str, expected: set[str]
) -> None:
    (tmp_path / "mine.py").write_text("n_layer = 6\n", encoding="utf-8")
    assert nanodyno("import", str(CASE)).exit_code == 0
    counts.clear()
    assert nanodyno("plan", source, "--gpu", "H200", "--json").exit_code == 0
    assert counts == dict.fromkeys(
        expected | {"parse_overrides", "target_of", "vocabulary_of", "make_plan"}, 1
    )


@pytest.mark.usefixtures("gpu")
def test_a_training_resolves_each_part_once(nanodyno: Run, counts: Counter[str]) -> None:
    done = nanodyno("train", "best-1h", *SMALL, "--device=cpu")
    assert done.exit_code == 0, done.output
    parts = ("_read_toml", "parse_overrides", "target_of", "vocabulary_of", "choose_size")
    assert counts == dict.fromkeys(parts, 1)


def test_tune_and_attribute_resolve_each_part_once(
    nanodyno: Run, counts: Counter[str], tunings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(config: RunConfig) -> Any:
        return tunings.repetition(config, 4 / config.batch_size, 2**20)

    bench = tunings.stopwatch(answer).bench(tmp_path / "cache", tunings.host_place())
    monkeypatch.setattr("nanodyno.cli.tune.bench_for", lambda _: bench)
    monkeypatch.setattr("nanodyno.cli.attribute.bench", lambda: bench)
    tuned = nanodyno("tune", "demo", "--device=cpu", "--budget=1m")
    assert tuned.exit_code == 0, tuned.output
    assert counts == {"_read_toml": 1, "parse_overrides": 1, "vocabulary_of": 1}
    counts.clear()
    attributed = nanodyno("attribute", "demo", "demo,batch_size=4", "--device=cpu")
    assert attributed.exit_code == 0, attributed.output
    assert counts == {"_read_toml": 2, "parse_overrides": 2}
