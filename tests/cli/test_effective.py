"""`tune --critical-batch-size` and `--learning_rate=auto` from the command line, on the tiniest of models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plan_words import says

Run = Callable[..., Any]


def test_a_run_that_was_too_short_is_reported_so_and_exits_with_1(nanodyno: Run, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=short").exit_code == 0
    done = nanodyno("tune", "short", "--critical-batch-size")
    assert done.exit_code == 1
    assert says(done.output, "batch.title.from-records", name="short", seen="4 iterations, 256 tokens")
    assert says(done.output, "batch.unsettled.too-few", number="32")
    document = json.loads(nanodyno("tune", "short", "--critical-batch-size", "--json").stdout)
    assert (document["settled"], document["verdict"], document["critical_batch_range"]) == (
        False,
        "not-settled",
        None,
    )


def test_a_config_is_trained_a_short_while_and_leaves_nothing(
    nanodyno: Run, tiny: list[str], tmp_path: Path
) -> None:
    one = [each for each in tiny[2:] if "accumulation" not in each and "max_iters" not in each]
    done = nanodyno(
        "tune", "demo", *one, "--tokens_per_iter=32", "--max_iters=40", "--critical-batch-size", "--json"
    )
    document = json.loads(done.stdout)
    assert "micro-batches of 1" in done.stderr
    assert document["of"] == {
        "name": "demo", "whence": "short-training", "iterations": 40, "tokens_seen": 1280,
    }  # fmt: skip
    assert document["noise_scale"]["n"] == 32  # the latest, as the first outweigh them
    assert document["decayed_at"] is None  # the demo's schedule would have come to half of its peak
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["demo", "--critical-batch-size", "--write=a.toml"], "--critical-batch-size measures gradients"),
        (["demo", "--critical-batch-size", "--budget=off"], "--budget=off would train without end"),
        (
            ["demo", "--critical-batch-size", "--batch_size=1", "--gradient_accumulation_steps=1"],
            "cannot be halved",
        ),
        (["demo", "--critical-batch-size", "--dataset=nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_asked_is_reported(nanodyno: Run, words: list[str], reported: str) -> None:
    done = nanodyno("tune", *words)
    assert done.exit_code == 2
    assert reported in " ".join(done.output.split())


def test_a_rate_that_is_found_is_reported_and_noted(
    nanodyno: Run, tiny: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        "nanodyno.experiments.rates.train_shortly", lambda config, _: 3 + abs(config.learning_rate - 1e-3)
    )
    done = nanodyno(*tiny, "--learning_rate=auto", "--name=found")
    assert done.exit_code == 0, done.output
    assert "a range test of 15 or more trainings of 4 iterations" in done.stderr
    record = json.loads((tmp_path / "runs/found/run.json").read_text())
    (note,) = [each for each in record["notes"] if "auto" in each]
    assert note.startswith(f"learning_rate=auto chose {record['config']['learning_rate']:g}")
    assert record["config"]["min_lr"] == pytest.approx(record["config"]["learning_rate"] / 10)
    assert (
        nanodyno(*tiny, "--learning_rate=auto", "--name=found").exit_code == 0
    )  # the same run: it has ended
    (tmp_path / "auto.toml").write_text('learning_rate = "auto"\n')
    for words in (["--learning_rate=auto"], ["auto.toml"]):
        again = nanodyno("train", *words, "--resume", "found")
        assert again.exit_code == 2
        assert "learning_rate=auto" in again.output


def test_what_does_not_train_takes_a_rate_that_is_to_be_found(nanodyno: Run) -> None:
    done = nanodyno("plan", "demo", "--learning_rate=auto", "--gpu=RTX 4070")
    assert done.exit_code == 0, done.output
