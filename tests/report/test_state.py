"""How a run stands, in a cell and in a sentence."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.summary import summarise
from nanodyno.messages.language import ENGLISH
from nanodyno.records.store import Run
from nanodyno.report.state import state_cell, state_words

Builder = Callable[..., Any]
NOON = 1_767_268_800.0
WHEN = "2026-01-01 12:00 UTC"
COMMAND = "nanodyno train --resume runs/case"
say = ENGLISH.say


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
    assert words(now) == say("state.running.one-process", process="123", host="home", when=WHEN)
    assert "`kill 123`" in words(now)


def test_a_running_one_of_several_processes_names_the_first(run: Builder, start: Builder) -> None:
    now = run(history=[start(processes=4, wall_time=NOON)], running=True)
    expected = say("state.running.several-processes", process="123", processes="4", host="home", when=WHEN)
    assert words(now) == expected


def test_one_that_is_being_started_has_no_process_yet(run: Builder) -> None:
    assert words(run(running=True)) == say("state.running.starting")


def test_a_finished_one_is_done(run: Builder, steps: list[Any], start: Builder, stop: Builder) -> None:
    done = run(steps, history=[start(), stop(19_073, wall_time=NOON)])
    assert cell(done) == say("state.cell.done")
    assert words(done) == say("state.done.at", when=WHEN)


def test_one_that_died_says_from_where_it_goes_on(
    run: Builder, steps: list[Any], start: Builder, save: Builder
) -> None:
    died = run(steps, history=[start(), save(6_000)])
    assert cell(died) == "died 40%"
    go_on = say("state.resume.same-command", command=COMMAND, iteration="6,000")
    assert words(died) == say("state.died.at-iteration", iteration="7,630", planned="19,073", go_on=go_on)


def test_one_that_saved_nothing_begins_anew(run: Builder, steps: list[Any], start: Builder) -> None:
    assert words(run(steps, history=[start()])).endswith(say("state.restart.same-command", command=COMMAND))


def test_one_that_was_stopped_says_by_whom(
    run: Builder, steps: list[Any], start: Builder, save: Builder, stop: Builder
) -> None:
    stopped = run(steps, history=[start(), save(7_630), stop(7_630, "terminated", wall_time=NOON)])
    assert cell(stopped) == "stopped 40%"
    go_on = say("state.resume.same-command", command=COMMAND, iteration="7,630")
    assert words(stopped) == say(
        "state.stopped.by-sigterm", iteration="7,630", planned="19,073", when=WHEN, go_on=go_on
    )


@pytest.mark.parametrize(
    ("reason", "what_to_do"),
    [
        ("diverged", "state.resume.after-divergence"),
        ("no-space", "state.resume.after-full-disk"),
        ("no-memory", "state.resume.after-out-of-memory"),
        ("failed", "state.resume.same-command"),
    ],
)
def test_one_that_failed_says_why_and_what_to_do(
    run: Builder, start: Builder, save: Builder, stop: Builder, reason: str, what_to_do: str
) -> None:
    history = [start(), save(5), stop(7_630, reason, words="the disk is on fire", wall_time=NOON)]
    failed = run(history=history)
    assert cell(failed) == "failed 40%"
    go_on = say(what_to_do, command=COMMAND, iteration="5")
    assert words(failed) == say(
        "state.failed.at-iteration-why",
        iteration="7,630", planned="19,073", when=WHEN, why="the disk is on fire", go_on=go_on,
    )  # fmt: skip
    assert [each in go_on for each in ("--learning_rate", "--batch_size")] == [
        reason == "diverged",
        reason == "no-memory",
    ]


def test_a_run_that_died_of_nan_names_the_iteration_that_its_progress_has(
    run: Builder, step: Builder, start: Builder, stop: Builder
) -> None:
    """The eleventh iteration is recorded, and the stop is of the tenth, the last whose update counted."""
    lost = [step(i, loss=float("nan"), skipped="not-finite") for i in range(1, 11)]
    failed = run([step(0), *lost], history=[start(), stop(10, "diverged", words="NaN.", wall_time=NOON)])
    summary = summarise(failed)
    assert (summary.state.iteration, summary.iterations_done) == (11, 11)
    assert "11 of 19,073" in words(failed)
    assert ".." not in words(failed)


def test_a_share_is_not_rounded_up_to_the_end(run: Builder, step: Builder, start: Builder) -> None:
    assert cell(run([step(19_071)], history=[start()])) == "died 99%"


def test_a_run_that_only_evaluates_has_no_share(run: Builder, record: Builder, start: Builder) -> None:
    looking = run(record=record({"eval_only": True}), history=[start()])
    assert cell(looking) == "died"
    go_on = say("state.restart.same-command", command=COMMAND)
    assert words(looking) == say("state.died.evaluation-only", go_on=go_on)


def test_one_without_any_history_is_not_begun(run: Builder) -> None:
    assert cell(run()) == say("state.cell.not-begun")


def test_a_folder_with_a_blank_is_quoted(run: Builder, start: Builder) -> None:
    died = replace(run(history=[start()]), folder=Path("my runs/case"))
    assert "`nanodyno train --resume 'my runs/case'`" in words(died)
