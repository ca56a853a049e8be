"""Saves, splits, skipped updates and stops, as each display tells them."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nanodyno.messages.language import ENGLISH
from nanodyno.records.events import RunEvent, Started
from nanodyno.report.progress import LiveDisplay, NanogptDisplay, PlainDisplay

Builder = Callable[..., Any]


def full(screen: Console) -> PlainDisplay:
    return PlainDisplay(screen, full=True)


ALL = [PlainDisplay, LiveDisplay, NanogptDisplay]


def shown(display_of: Callable[[Console], Any], events: list[RunEvent]) -> str:
    screen = Console(
        file=io.StringIO(), width=250, force_terminal=display_of is LiveDisplay, color_system=None
    )
    display = display_of(screen)
    for event in events:
        display(event)
    display.close()
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.fixture
def started(record: Builder) -> Started:
    return Started(record(gpu=("NVIDIA H200", 139.8)), Path("runs/case"), 0)


def test_plain_lines_tell_every_save_with_its_size_and_time(started: Started, save: Builder) -> None:
    last = shown(PlainDisplay, [started, save(500, reason="autosave", save_seconds=1.24)]).splitlines()[-1]
    assert last == "saved iteration 500 (autosave): 1.50 GiB in 1.2 s"


def test_a_terminal_keeps_the_latest_save_among_its_numbers(
    started: Started, step: Builder, save: Builder
) -> None:
    text = shown(LiveDisplay, [started, step(0), save(500), step(500)])
    assert "saved at 500" in text
    assert "saved iteration" not in text


def test_the_time_left_counts_the_saves_at_evaluations(
    started: Started, step: Builder, evaluation: Builder, save: Builder
) -> None:
    events = [started, evaluation(16_000), save(16_000, save_seconds=3590.0), step(16_999, step_seconds=1.0)]
    # 2,073 s of iterations; at 18,000 and 19,073 an evaluation of 10 s and a save of 3,590 s.
    assert "ETA 2 h 35 min" in shown(PlainDisplay, events).splitlines()[-1]


@pytest.mark.parametrize("display", ALL)
def test_running_out_of_memory_is_reported_everywhere(
    display: Callable[[Console], Any], started: Started, split: Builder
) -> None:
    assert "out of memory at iteration 500: micro-batch cut from 8 to 4" in shown(
        display, [started, split(500)]
    )


def test_after_a_split_the_rates_begin_anew(started: Started, step: Builder, split: Builder) -> None:
    before = [step(i, step_seconds=6.4, micro_steps=64) for i in range(19)]
    after = [step(19, step_seconds=12.8, micro_steps=128)]
    last = shown(full, [started, *before, split(19), *after]).splitlines()[-1]
    assert "12,800 ms/iter | 100.0 ms/micro-batch" in last


def test_the_first_iterations_after_a_split_do_not_stay_in_the_rates(
    started: Started, step: Builder, split: Builder
) -> None:
    after = [step(i, step_seconds=90.0 if i < 99 else 12.8, micro_steps=128) for i in range(96, 100)]
    last = shown(full, [started, step(95), split(96), *after]).splitlines()[-1]
    assert "12,800 ms/iter" in last


def test_a_skipped_update_is_reported_between_the_logged_iterations_too(
    record: Builder, step: Builder
) -> None:
    started = Started(record({"log_interval": 10}), Path("r"), 0)
    spike = step(512, loss=9.25, grad_norm=31.0, skipped="loss-spike")
    words = "update not applied in iteration 513 (loss spike): loss 9.2500, gradient norm 31"
    assert shown(PlainDisplay, [started, spike]).splitlines()[-1] == words
    assert words in shown(LiveDisplay, [started, spike])


def test_an_overflow_comes_in_order_and_makes_no_line_of_its_own(record: Builder, step: Builder) -> None:
    started = Started(record({"log_interval": 10}, dtype="float16"), Path("r"), 0)
    assert "skipped" not in shown(PlainDisplay, [started, step(512, skipped="overflow")])


@pytest.mark.parametrize(
    ("reason", "how"),
    [
        ("interrupted", "by Ctrl-C"),
        ("terminated", "by SIGTERM"),
        ("max-hours", "by --max-hours"),
        ("stop-at", "by --stop-at"),
    ],
)
@pytest.mark.parametrize("display", ALL)
def test_a_stop_says_where_it_stands_and_how_it_goes_on(
    display: Callable[[Console], Any], started: Started, save: Builder, stop: Builder, reason: str, how: str
) -> None:
    text = shown(display, [started, save(500, reason="stop"), stop(500, reason)])
    assert f"stopped {how} at iteration 500 of 19073, saved" in text


@pytest.mark.parametrize("display", ALL)
def test_the_end_and_a_failure_are_reported_elsewhere(
    display: Callable[[Console], Any], started: Started, stop: Builder
) -> None:
    assert "stop" not in shown(display, [started, stop(19_073)])
    assert "stop" not in shown(display, [started, stop(7, "diverged", words="the loss leapt")])


def test_a_stop_at_once_goes_on_from_what_was_saved(started: Started, save: Builder, stop: Builder) -> None:
    last = shown(PlainDisplay, [started, save(480), stop(500, "interrupted")]).splitlines()[-1]
    assert "at iteration 500 of 19073; " in last
    assert last.endswith("from iteration 480")


def test_a_stop_before_anything_was_saved_says_so(started: Started, stop: Builder) -> None:
    last = shown(PlainDisplay, [started, stop(0, "interrupted")]).splitlines()[-1]
    assert "nothing was saved" in last


def test_a_resumed_run_stopped_in_its_first_iteration_is_still_saved(record: Builder, stop: Builder) -> None:
    resumed = Started(record(), Path("r"), 500)
    last = shown(PlainDisplay, [resumed, stop(500, "interrupted")]).splitlines()[-1]
    assert "at iteration 500 of 19073, saved" in last


def test_two_gpus_are_named_with_their_peak_together(record: Builder, step: Builder) -> None:
    started = Started(record(gpu=("NVIDIA H200", 139.8), processes=2), Path("r"), 0)
    text = shown(full, [started, step(0, step_seconds=0.5, micro_steps=32)])
    assert "on 2 x NVIDIA H200: bfloat16, compiled; datasheet peak 1.98 PFLOP/s dense" in text
    assert "524,288 tokens/iteration = 8 x 1024 x 32 micro-steps x 2 processes" in text
    # 1,048,576 tokens/s x 797.87 MFLOP = 836.6 TFLOP/s: 42.3% of 2 x 989; each is 143.6% of an A100.
    assert "15.6 ms/micro-batch | 1,048,576 tok/s | MFU 42.3% of 2 x H200 | " in text
    assert "143.6%" in text


def test_two_processes_on_a_cpu_are_two_processes(record: Builder) -> None:
    started = Started(record(gpu=None, dtype="float32", processes=2), Path("r"), 0)
    threads = ENGLISH.say_plural("common.processes-with-threads", 2, threads="8 threads")
    assert f"on some CPU, {threads}: float32" in shown(PlainDisplay, [started])
