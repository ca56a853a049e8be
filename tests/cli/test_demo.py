import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.messages.language import ENGLISH


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's own widths take seconds an evaluation."""
    monkeypatch.setattr("nanodyno.cli.demo.WIDTHS", {"demo-narrow": 16, "demo-wide": 32})
    monkeypatch.setattr("nanodyno.cli.demo.SAMPLE_TOKENS", 20)


def test_the_demo_trains_two_runs_and_samples_from_the_better_one(
    nanodyno: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there was no time to tune."""
    monkeypatch.setattr("nanodyno.cli.demo.TUNE_BUDGET", "0.5s")
    result = nanodyno("demo", "--max-iters", "2", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    skipped = ENGLISH.say("demo.tune.skipped", reason="--budget of 0.5 s")
    assert skipped in result.stderr
    document = json.loads(result.stdout)
    assert document["tuned"] == {}
    narrow, wide = document["runs"]
    assert wide["run"]["config"]["n_embd"] == 2 * narrow["run"]["config"]["n_embd"]
    assert narrow["summary"]["tokens_seen"] == wide["summary"]["tokens_seen"]
    losses = {run["summary"]["name"]: run["summary"]["last_val"]["loss"] for run in document["runs"]}
    assert document["better"] == min(losses, key=lambda name: losses[name])
    assert document["sample"].startswith("def ")
    (change,) = document["comparison"]["changes"]
    assert (change["key"], change["before"], change["after"]) == ("n_embd", 16, 32)
    assert "report: runs/demo.html" in result.stderr
    report = Path("runs/demo.html").read_text(encoding="utf-8")
    assert "<bdi>demo-narrow-1</bdi>" in report
    assert "<pre>def " in report


def test_an_interrupted_demo_goes_on_with_what_it_had(nanodyno: Callable[..., Any]) -> None:
    command = ("demo", "--max-iters", "2", "--device", "cpu", "--no-tune", "--json")
    nanodyno(*command)
    history = Path("runs/demo-wide-1/history.jsonl")
    lines = history.read_text().splitlines(keepends=True)
    assert '"stop"' in lines[-1]
    history.write_text("".join(lines[:-1]))  # as if it had been killed before its last word
    again = json.loads(nanodyno(*command).stdout)
    assert [run["summary"]["name"] for run in again["runs"]] == ["demo-narrow-1", "demo-wide-1"]
    assert sorted(path.name for path in Path("runs").glob("*/")) == ["demo-narrow-1", "demo-wide-1"]
    shown = nanodyno(*command[:-1]).output
    sample = shown.index(ENGLISH.say("demo.sample.title", name="demo"))
    assert sample < shown.index("n_embd", sample) < shown.index("nanodyno compare demo-narrow-2")
    assert len(list(Path("runs").glob("*/"))) == 4


def test_asked_to_it_also_measures_which_change_does_what(
    nanodyno: Callable[..., Any], tunings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a made-up machine: four times the work in four times the time, whatever the micro-batch."""

    def answer(config: Any) -> Any:
        return tunings.repetition(config, (config.n_embd / 128) ** 2, 2**20)

    stopwatch = tunings.stopwatch(answer, repetition_seconds=1.0)
    bench = stopwatch.bench(None, tunings.host_place())
    monkeypatch.setattr("nanodyno.cli.attribute.bench", lambda: bench)
    command = ("demo", "--max-iters", "1", "--device", "cpu", "--no-tune", "--attribute", "--json")
    parts = json.loads(nanodyno(*command).stdout)["attribution"]["contributions"]
    assert {name: round(part["value"], 3) for name, part in parts.items()} == {
        "n_embd": -1.386,  # ln 4
        "batch_size": 0.0,
    }
