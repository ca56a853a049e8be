"""How a run stands, in a cell and in a sentence."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.summary import summarise
from nanodyno.records.store import Run
from nanodyno.report.state import state_cell, state_words

Builder = Callable[..., Any]
NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC


@pytest.fixture
def steps(step: Builder) -> list[Any]:
    """7,630 of 19,073 iterations: 40.004%."""
    return [step(7_629)]


def words(run: Run) -> str:
    return state_words(run, summarise(run))


def cell(run: Run) -> str:
    return state_cell(summarise(run))


def test_a_running_one_names_its_process_and_how_to_stop_it(
    run: Builder, steps: list[Any], start: Builder
) -> None:
    now = run(steps, history=[start(wall_time=NOON)], running=True)
    assert cell(now) == "running 40%"
    assert words(now) == (
        "running: process 123 on home since 2026-01-01 12:00 UTC; `kill 123` saves and stops it"
    )


def test_a_running_one_of_several_processes_names_the_first(run: Builder, start: Builder) -> None:
    assert "process 123 (the first of 4) on home" in words(run(history=[start(processes=4)], running=True))


def test_one_that_is_being_started_has_no_process_yet(run: Builder) -> None:
    assert words(run(running=True)) == "running: it is just being started"


def test_a_finished_one_is_done(run: Builder, steps: list[Any], start: Builder, stop: Builder) -> None:
    done = run(steps, history=[start(), stop(19_073, wall_time=NOON)])
    assert cell(done) == "done"
    assert words(done) == "done, 2026-01-01 12:00 UTC"


def test_one_that_died_says_from_where_it_goes_on(
    run: Builder, steps: list[Any], start: Builder, save: Builder
) -> None:
    died = run(steps, history=[start(), save(6_000)])
    assert cell(died) == "died 40%"
    assert words(died) == (
        "died at iteration 7,630 of 19,073 (killed, or the machine went down): "
        "`nanodyno train --resume runs/case` goes on from iteration 6,000"
    )


def test_one_that_saved_nothing_begins_anew(run: Builder, steps: list[Any], start: Builder) -> None:
    assert words(run(steps, history=[start()])).endswith("begins anew, as nothing was saved yet")


def test_one_that_was_stopped_says_by_whom(
    run: Builder, steps: list[Any], start: Builder, save: Builder, stop: Builder
) -> None:
    stopped = run(steps, history=[start(), save(7_630), stop(7_630, "terminated", wall_time=NOON)])
    assert cell(stopped) == "stopped 40%"
    assert words(stopped) == (
        "stopped by SIGTERM at iteration 7,630 of 19,073, 2026-01-01 12:00 UTC: "
        "`nanodyno train --resume runs/case` goes on from iteration 7,630"
    )


@pytest.mark.parametrize(
    ("reason", "what_to_do"),
    [
        ("diverged", "`nanodyno train --resume runs/case` with a lower --learning_rate goes on"),
        ("no-space", "`nanodyno train --resume runs/case`, once there is room, goes on"),
        ("no-memory", "`nanodyno train --resume runs/case` with a smaller --batch_size goes on"),
        ("failed", "`nanodyno train --resume runs/case` goes on"),
    ],
)
def test_one_that_failed_says_why_and_what_to_do(
    run: Builder, start: Builder, save: Builder, stop: Builder, reason: str, what_to_do: str
) -> None:
    history = [start(), save(5), stop(7_630, reason, words="the disk is on fire", wall_time=NOON)]
    failed = run(history=history)
    assert cell(failed) == "failed 40%"
    assert words(failed) == (
        "failed at iteration 7,630 of 19,073, 2026-01-01 12:00 UTC: the disk is on fire; "
        f"{what_to_do} from iteration 5"
    )


def test_a_share_is_not_rounded_up_to_the_end(run: Builder, step: Builder, start: Builder) -> None:
    assert cell(run([step(19_071)], history=[start()])) == "died 99%"


def test_a_run_that_only_evaluates_has_no_share(run: Builder, record: Builder, start: Builder) -> None:
    looking = run(record=record({"eval_only": True}), history=[start()])
    assert cell(looking) == "died"
    assert words(looking).startswith("died (killed")


def test_one_without_any_history_is_not_begun(run: Builder) -> None:
    assert cell(run()) == "not begun"


def test_a_folder_with_a_blank_is_quoted(run: Builder, start: Builder) -> None:
    died = replace(run(history=[start()]), folder=Path("my runs/case"))
    assert "`nanodyno train --resume 'my runs/case'`" in words(died)
