"""Tables and pages, read off a console."""

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from nanodyno.analysis.summary import summarise
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.records.store import Run
from nanodyno.report.document import run_document, to_json
from nanodyno.report.runs import FIRST_PAGE_LINES, loss_plot, run_page, runs_table

Builder = Callable[..., Any]
say, say_plural = ENGLISH.say, ENGLISH.say_plural


def text_of(renderable: RenderableType, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def on_gpu(run: Builder, step: Builder, evaluation: Builder) -> Run:
    """The case's wide run on an RTX 4070: 9.34 s an iteration."""
    steps = [step(i, step_seconds=9.34, loss=6 - i / 20) for i in range(20)]
    return run(steps=steps, evals=[evaluation(0, val_loss=10.9), evaluation(10, val_loss=5.5194)])


def test_a_page_holds_rate_against_the_named_peak_and_a100(on_gpu: Run) -> None:
    page = " ".join(text_of(run_page(on_gpu, summarise(on_gpu), 100), 100).split())
    interval = {"level": "95%", "low": "56,134", "high": "56,134"}
    assert say_plural("show.speed.mean-with-interval", 17, value="56,134 tokens/s", **interval) in page
    # 56,134 x 797.87 MFLOP = 44.79 TFLOP/s: 76.8% of 58.3, and 15.4% by nanoGPT's formula.
    parts = [
        say("show.work.share-of-peak", share="76.8%", gpu="RTX 4070", peak="58.3 TFLOP/s"),
        say("show.work.rate", rate="44.8 TFLOP/s", work="797.9"),
        say("show.work.nanogpt-mfu", share="15.4%"),
    ]
    assert ENGLISH.clauses(parts) in page
    assert say("show.loss.val-at", loss="5.5194", iteration="10", perplexity="249.5") in page


def test_a_run_that_never_got_going_has_a_page(run: Builder) -> None:
    page = text_of(run_page(run(), summarise(run()), 80), 80)
    assert say("show.speed.too-few-times") in page or say("show.speed.not-known-yet") in page
    assert say("losses.plot.empty") in page


def test_a_narrow_window_cuts_no_cell(on_gpu: Run) -> None:
    table = text_of(runs_table([(on_gpu, summarise(on_gpu))], 80), 80)
    assert "…" not in table
    assert "5.5194" in table
    assert "76.8%" in table


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (60, "run state params val loss tok/s"),
        (72, "run state params tokens val loss tok/s"),
        (84, "run state params tokens val loss tok/s peak mem"),
        (85, "run state params tokens val loss tok/s MFU peak mem"),
    ],
)
def test_columns_go_before_a_cell_is_cut(
    run: Builder, step: Builder, evaluation: Builder, width: int, titles: str
) -> None:
    # The widest cells: 14 + 9 + 6 + 8 + 9 and four gaps of 2 are 54; tokens make it 62, memory 74, peak 85.
    fast = run(
        steps=[step(i, step_seconds=0.5, peak_allocated_bytes=100 * 2**30) for i in range(9)],
        evals=[evaluation(0, val_loss=10.9881)],
    )
    rows = [dataclasses.replace(each, folder=Path("fourteen-chars")) for each in (fast, run())]
    table = text_of(runs_table([(each, summarise(each)) for each in rows], width), width)
    assert "…" not in table
    assert " ".join(table.splitlines()[0].split()) == titles
    assert table.count("fourteen-chars") == 2


def test_a_page_begins_with_the_state_and_what_to_do(
    run: Builder, step: Builder, start: Builder, save: Builder
) -> None:
    died = run([step(i) for i in range(20)], history=[start(), save(10)])
    page = " ".join(text_of(run_page(died, summarise(died), 60), 60).split())
    go_on = say("state.resume.same-command", command="nanodyno train --resume runs/case", iteration="10")
    assert say("state.died.at-iteration", iteration="20", planned="19,073", go_on=go_on) in page


def test_a_page_tells_where_the_run_was_resumed(run: Builder, record: Builder) -> None:
    resumed = run(record=record(resumed_at=(500, 1200)))
    words = say_plural("show.resumed.iterations", 2, iterations="500, 1,200")
    assert words in text_of(run_page(resumed, summarise(resumed), 100), 100)
    assert say("show.row.resumed") not in text_of(run_page(run(), summarise(run()), 100), 100)


@pytest.mark.parametrize(("steps", "counted"), [(1, 1), (7, 7), (20, 10)])
def test_a_page_counts_the_iterations_behind_the_train_loss(
    run: Builder, step: Builder, steps: int, counted: int
) -> None:
    some = run(steps=[step(i) for i in range(steps)])
    words = say_plural("show.loss.train-mean", counted, loss="5.0000")
    assert words in text_of(run_page(some, summarise(some), 100), 100)


def test_a_page_says_how_much_was_read_and_evaluated_on(on_gpu: Run) -> None:
    page = " ".join(text_of(run_page(on_gpu, summarise(on_gpu), 200), 200).split())
    # 20 iterations of 524,288 tokens out of 10 billion.
    assert say("show.data.seen", dataset="edu", tokens="10.0B", epochs="0.0010") in page
    assert say("show.loss.val-tokens", tokens="1,048,576") in page


def test_the_time_left_is_a_column_when_one_is_running(
    run: Builder, record: Builder, step: Builder, evaluation: Builder
) -> None:
    settings = record({"max_iters": 100, "warmup_iters": 2, "eval_interval": 50})
    steps, evals = [step(i) for i in range(40)], [evaluation(0)]
    going, dead = run(steps, evals, settings, running=True), run(steps, evals, settings)
    # 60 iterations of 4 s and evaluations of 10 s at 50 and 100: 260 s.
    both = text_of(runs_table([(each, summarise(each)) for each in (going, dead)], 80), 80).splitlines()
    assert both[0].split()[:3] == ["run", "state", "ETA"]
    assert "running 40%  4 min 20 s" in both[1]
    assert "died 40%              -" in both[2]
    assert "ETA" not in text_of(runs_table([(dead, summarise(dead))], 80), 80)


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda each: each.code)
def test_the_first_page_fits_and_names_the_way_to_the_rest(
    run: Builder, record: Builder, step: Builder, language: Any
) -> None:
    many = record().model_copy(update={"notes": tuple(f"note {each}" for each in range(40))})
    noted = run([step(i, loss=6 - i / 20) for i in range(20)], record=many)
    page = text_of(run_page(noted, summarise(noted), 100, language), 100).splitlines()
    assert len(page) <= FIRST_PAGE_LINES
    assert language.say("show.more", run="runs/case") in page[-1]
    whole = text_of(run_page(noted, summarise(noted), 100, language, everything=True), 100)
    assert all(f"note {each}" in whole for each in range(40))
    assert language.say("show.more", run="runs/case") not in whole


def test_a_wide_window_shows_when_it_started(on_gpu: Run) -> None:
    rows = [(on_gpu, summarise(on_gpu))]
    assert "2026-01-01" in text_of(runs_table(rows, 140), 140)
    assert "2026-01-01" not in text_of(runs_table(rows, 80), 80)


def test_the_peak_column_needs_a_gpu(run: Builder, record: Builder, step: Builder) -> None:
    on_cpu = run(steps=[step(i) for i in range(9)], record=record(gpu=None))
    assert say("runs.table.share-of-peak") not in text_of(runs_table([(on_cpu, summarise(on_cpu))], 120), 120)


def test_a_loss_that_is_not_a_number_does_not_break_the_plot(run: Builder, step: Builder) -> None:
    broken = run(steps=[step(0, loss=5.0), step(1, loss=float("nan"))])
    assert "train loss" in loss_plot([broken], 60).plain


def test_the_document_is_standard_json_even_with_nan(run: Builder, step: Builder) -> None:
    broken = run(steps=[step(0, loss=float("nan"))])
    document = json.loads(to_json(run_document(broken, summarise(broken))))
    assert document["summary"]["last_train_loss"] is None
    assert document["summary"]["parameters"]["total"] == 124_373_760
    assert document["summary"]["parameters"]["nanogpt"] == 123_587_328


def test_the_document_has_the_state_and_the_history(
    run: Builder, step: Builder, start: Builder, save: Builder
) -> None:
    died = run([step(0, skipped="overflow"), step(1)], history=[start(), save(1)])
    document = json.loads(to_json(run_document(died, summarise(died))))
    assert document["summary"]["state"] == {
        "kind": "died",
        "iteration": 2,
        "saved_iteration": 1,
        "reason": None,
        "words": None,
    }
    assert document["summary"]["skipped_updates"] == {"overflow": 1}
    assert [entry["kind"] for entry in document["history"]] == ["start", "save"]
