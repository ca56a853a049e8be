"""What is said of a run's end while it trains: at evaluations, once there is enough to go on."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.analysis.losses import cosine, true_loss

from nanodyno.messages.texts import texts
from nanodyno.records.events import Started
from nanodyno.records.types import EvalRecord
from nanodyno.records.writer import RunWriter
from nanodyno.report.outlook import Outlook
from nanodyno.report.progress import LiveDisplay, PlainDisplay

Builder = Callable[..., Any]
FORECAST = re.compile(r"(3\.\d{3}) \(80%: (\d\.\d{3}) to (\d\.\d{3})\)")
SETTINGS = {
    "max_iters": 10_000,
    "lr_decay_iters": 10_000,
    "warmup_iters": 100,
    "learning_rate": 6e-4,
    "min_lr": 6e-5,
}


@pytest.fixture
def started(record: Builder) -> Started:
    return Started(record(SETTINGS), Path("runs/case"), 0)


def evals(evaluation: Builder, until: int, spoiled_from: int = 10**9) -> list[EvalRecord]:
    at = np.arange(0, until + 1, 250)
    losses = true_loss(cosine(10_000), np.maximum(at, 1).astype(float))
    return [
        evaluation(int(x), val_loss=float(y) + max(0, int(x) - spoiled_from) / 1000, train_loss=float(y))
        for x, y in zip(at, losses, strict=True)
    ]


def test_it_is_silent_before_a_tenth_of_the_run_and_at_its_end(started: Started, evaluation: Builder) -> None:
    outlook = Outlook(started)
    said = {each.iteration: outlook.add_eval(each)[0] for each in evals(evaluation, 10_000)}
    assert all(not said[at] for at in (0, 250, 500, 750, 10_000))
    assert all(FORECAST.search(said[at]) for at in (1250, 5000, 9000))


def test_the_end_is_near_what_the_law_says(started: Started, evaluation: Builder) -> None:
    outlook = Outlook(started)
    *_, words = [outlook.add_eval(each)[0] for each in evals(evaluation, 5000)]
    true = float(true_loss(cosine(10_000), np.array([10_000.0]))[0])
    found = FORECAST.search(words)
    assert found is not None
    middle, low, high = map(float, found.groups())
    assert middle == pytest.approx(true, abs=0.03)
    assert low < middle < high


@pytest.mark.parametrize(
    ("train_rises", "code"), [(True, "warning-diverging"), (False, "forecast-overfitting")]
)
def test_a_warning_is_given_once(started: Started, evaluation: Builder, train_rises: bool, code: str) -> None:
    outlook = Outlook(started)
    reported = evals(evaluation, 6000, spoiled_from=3000)
    if train_rises:
        reported = [each.model_copy(update={"train_loss": each.val_loss}) for each in reported]
    said = [outlook.add_eval(each) for each in reported]
    given = [warning for _, warnings in said for warning in warnings]
    first = texts("en").forms[f"finding.{code}"][0].partition(".")[0].replace("{run}", "case")
    assert sum(warning.startswith(first) for warning in given) == 1
    assert bool(said[-1][0]) == train_rises  # a run that overfits is not said to end on its curve


def test_a_resumed_run_goes_on_from_its_records(tmp_path: Path, record: Builder, evaluation: Builder) -> None:
    folder, reported = tmp_path / "one", evals(evaluation, 5000)
    with RunWriter.create(folder, record(SETTINGS)) as writer:
        for each in reported[:-1]:
            writer.append(each)
    resumed = Outlook(Started(record(SETTINGS), folder, 4750))
    whole = Outlook(Started(record(SETTINGS), folder, 0))
    *_, expected = [whole.add_eval(each) for each in reported]
    assert resumed.add_eval(reported[-1]) == expected


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_a_display_says_it_beside_the_evaluation(kind: Any, started: Started, evaluation: Builder) -> None:
    screen = Console(file=io.StringIO(), width=200, force_terminal=kind is LiveDisplay, color_system=None)
    display = kind(screen)
    for event in (started, *evals(evaluation, 2500)):
        display(event)
    display.close()
    assert isinstance(screen.file, io.StringIO)
    line = next(line for line in screen.file.getvalue().splitlines() if "eval at 2500" in line)
    assert FORECAST.search(line)
