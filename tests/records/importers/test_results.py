"""Files that say they are results of nanodyno: anybody may have written them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.store import Run

STEPS = [{"iteration": at, "loss": 5.0, "tokens": 1024, "step_seconds": 0.5} for at in range(10)]


def result(**changes: Any) -> str:
    values: dict[str, Any] = {
        "format": "nanodyno-result",
        "version": 1,
        "name": "theirs",
        "program": "nanodyno 1",
        "settings": {"n_layer": 12},
        "logged_iterations": 10,
        "logged_evaluations": 1,
        "summary": {},
        "steps": STEPS,
        "evals": [{"iteration": 10, "val_loss": 4.5}],
    }
    return json.dumps(values | changes)


def test_the_least_that_a_result_has_becomes_a_run(imported: Callable[..., Run]) -> None:
    run = imported(result(), names=("theirs.json",))
    assert (run.iterations_done, run.evals[0].val_loss, run.settings) == (10, 4.5, {"n_layer": 12})
    assert (run.record.machine, run.record.data, run.record.notes) == (None, None, ())


def test_a_thinned_curve_is_noted(imported: Callable[..., Run]) -> None:
    run = imported(result(logged_iterations=5000), names=("theirs.json",))
    assert "10 of 5,000 iterations" in run.record.notes[0]


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"version": 3}, "newer nanodyno"),
        ({"version": "x"}, "version"),
        ({"settings": {"n_layer": [1]}}, "settings.n_layer"),
        ({"surprise": 1}, "surprise"),
        ({"steps": [], "evals": []}, "no step and no evaluation"),
        ({"steps": STEPS[::-1]}, "not in order"),
        ({"steps": [STEPS[0], STEPS[0]]}, "not in order"),
        ({"evals": [{"iteration": -1, "val_loss": 4.5}]}, "not in order"),
        ({"steps": [{"iteration": 10**15}]}, "not in order"),
        ({"steps": [{"iteration": 0, "step_seconds": -1.0}]}, "took -1.0 s"),
        ({"steps": [{"iteration": 0, "step_seconds": "Infinity"}]}, "took inf s"),
        ({"steps": [{"iteration": 0, "tokens": 0}]}, "has 0 tokens"),
        ({"tokens_per_iter": -5}, "-5 tokens per iteration"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(
    imported: Callable[..., Run], changes: dict[str, Any], reported: str
) -> None:
    with pytest.raises(NanodynoError, match=reported):
        imported(result(**changes), names=("theirs.json",))


@pytest.mark.parametrize("text", [result()[:-40], result().replace('"steps"', "[" * 100_000 + '"steps"')])
def test_a_damaged_result_is_reported(imported: Callable[..., Run], text: str) -> None:
    with pytest.raises(NanodynoError, match="not a complete result"):
        imported(text, names=("theirs.json",))


def test_a_result_is_a_run_of_its_own(imported: Callable[..., Run]) -> None:
    with pytest.raises(NanodynoError, match="cannot be joined"):
        imported(result(), result(), names=("one.json", "two.json"))


def test_one_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(result())
    with path.open("ab") as file:
        file.truncate(1 << 25)
    with pytest.raises(NanodynoError, match="too large"):
        import_run(ImportRequest((path,), tmp_path / "run"))


def test_nothing_in_it_can_reach_a_terminal(imported: Callable[..., Run]) -> None:
    evil = "\x1b[31m\x07x"
    run = imported(result(program=evil, settings={evil: evil}, device_name=evil), names=("theirs.json",))
    assert "\x1b" not in str(run.record)
    assert r"\x1b[31m\x07x" in run.settings
