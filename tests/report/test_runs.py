"""Tables and pages, read off a console."""

import dataclasses
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console, RenderableType

from nanodyno.analysis.summary import summarise
from nanodyno.records.store import Run
from nanodyno.report.document import run_document, to_json
from nanodyno.report.runs import loss_plot, run_page, runs_table

Builder = Callable[..., Any]


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
    assert "56,134 tokens/s (mean of 17, 95% interval 56,134 to 56,134)" in page
    # 56,134 x 797.87 MFLOP = 44.79 TFLOP/s: 76.8% of 58.3, and 15.4% by nanoGPT's formula.
    assert "44.8 TFLOP/s (exact causal FLOPs, 797.9 MFLOP/token) = 76.8% of" in page
    assert "RTX 4070's datasheet peak of 58.3 TFLOP/s (dense); nanoGPT's MFU (A100): 15.4%" in page
    assert "5.5194 at 10 (perplexity 249.5)" in page


def test_a_run_that_never_got_going_has_a_page(run: Builder) -> None:
    page = text_of(run_page(run(), summarise(run()), 80), 80)
    assert "not known yet" in page
    assert "nothing to plot" in page


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
        (85, "run state params tokens val loss tok/s % of peak peak mem"),
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
    named = fast.record.model_copy(update={"name": "fourteen-chars"})
    rows = [dataclasses.replace(each, record=named) for each in (fast, run())]
    table = text_of(runs_table([(each, summarise(each)) for each in rows], width), width)
    assert "…" not in table
    assert " ".join(table.splitlines()[0].split()) == titles
    assert table.count("fourteen-chars") == 2


def test_a_page_begins_with_the_state_and_what_to_do(
    run: Builder, step: Builder, start: Builder, save: Builder
) -> None:
    died = run([step(i) for i in range(20)], history=[start(), save(10)])
    page = " ".join(text_of(run_page(died, summarise(died), 60), 60).split())
    assert "state died at iteration 20 of 19,073 (killed, or the machine went down): " in page
    assert "`nanodyno train --resume runs/case` goes on from iteration 10" in page


def test_a_page_tells_where_the_run_was_resumed(run: Builder, record: Builder) -> None:
    resumed = run(record=record(resumed_at=(500, 1200)))
    assert "at iteration 500, 1,200" in text_of(run_page(resumed, summarise(resumed), 100), 100)
    assert "resumed" not in text_of(run_page(run(), summarise(run()), 100), 100)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (1, "(of the only iteration)"),
        (7, "(mean of the last 7 iterations)"),
        (20, "of the last 10 iterations)"),
    ],
)
def test_a_page_counts_the_iterations_behind_the_train_loss(
    run: Builder, step: Builder, steps: int, words: str
) -> None:
    some = run(steps=[step(i) for i in range(steps)])
    assert words in text_of(run_page(some, summarise(some), 100), 100)


def test_a_page_says_how_much_was_read_and_evaluated_on(on_gpu: Run) -> None:
    page = " ".join(text_of(run_page(on_gpu, summarise(on_gpu), 200), 200).split())
    # 20 iterations of 524,288 tokens out of 10 billion.
    assert "0.0010 epochs seen" in page
    assert "5.5194 at 10 (perplexity 249.5), evaluated on 1,048,576 tokens" in page


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


def test_a_wide_window_shows_when_it_started(on_gpu: Run) -> None:
    rows = [(on_gpu, summarise(on_gpu))]
    assert "2026-01-01" in text_of(runs_table(rows, 140), 140)
    assert "2026-01-01" not in text_of(runs_table(rows, 80), 80)


def test_the_peak_column_needs_a_gpu(run: Builder, record: Builder, step: Builder) -> None:
    on_cpu = run(steps=[step(i) for i in range(9)], record=record(gpu=None))
    assert "% of peak" not in text_of(runs_table([(on_cpu, summarise(on_cpu))], 120), 120)


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
