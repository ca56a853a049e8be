"""What is shown while a run trains, read off a console of 200 columns."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.plan_words import says

from nanodyno.hardware.ceilings import Ceilings
from nanodyno.messages.language import ENGLISH
from nanodyno.records.events import Message, RunEvent, Started
from nanodyno.records.types import EvalRecord, MachineRecord, RunRecord, StepRecord
from nanodyno.report.meter import Meter
from nanodyno.report.progress import LiveDisplay, NanogptDisplay, PlainDisplay, make_display
from nanodyno.report.words import LINE_WIDTH, SEPARATOR, short_step_parts

Builder = Callable[..., Any]
GIB = 2**30


def full(screen: Console) -> PlainDisplay:
    return PlainDisplay(screen, full=True)


def live_in_full(screen: Console) -> LiveDisplay:
    return LiveDisplay(screen, full=True)


def console(terminal: bool = False, width: int = 200) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def shown(
    display_of: Callable[[Console], Any], events: list[RunEvent], terminal: bool = False, width: int = 200
) -> str:
    screen = console(terminal, width)
    display = display_of(screen)
    for event in events:
        display(event)
    display.close()
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.fixture
def h200(record: Builder) -> RunRecord:
    """The wide model of the case on an H200, 64 micro-steps an iteration."""
    return record(gpu=("NVIDIA H200", 139.8))


@pytest.fixture
def events(h200: RunRecord, step: Builder, evaluation: Builder) -> list[RunEvent]:
    """Four iterations of one second: 524,288 tokens/s."""
    memory = {"peak_allocated_bytes": 7 * GIB, "peak_reserved_bytes": 8 * GIB}
    steps: list[RunEvent] = [step(i, step_seconds=1.0, **memory) for i in range(4)]
    return [Started(h200, Path("runs/case"), 0), evaluation(0), *steps]


def test_a_line_has_the_rates_of_a_known_gpu(events: list[RunEvent]) -> None:
    # 524,288 tokens/s x 797.87 MFLOP = 418.3 TFLOP/s: 42.3% of 989; nanoGPT's formula: 143.6% of an A100.
    last = shown(full, events).splitlines()[-1]
    assert "1,000 ms/iter | 15.6 ms/micro-batch | 524,288 tok/s | MFU 42.3% of H200 | " in last
    assert "143.6%" in last
    assert "peak 7.00 GiB allocated, 8.00 GiB reserved" in last
    short = shown(PlainDisplay, events).splitlines()[-1]
    assert short == (
        "iter     4/19073 | loss 5.0000 | lr 3.0e-04 | 524,288 tok/s | MFU 42.3% of H200 | 7.0 GiB | "
        "ETA 5 h 19 min"
    )


@pytest.mark.parametrize("skipped", [None, "not-finite"])
@pytest.mark.parametrize("max_iters", [20, 600_000_000])
@pytest.mark.parametrize("processes", [1, 16])
def test_a_line_is_at_most_120_characters(
    record: Builder, step: Builder, processes: int, max_iters: int, skipped: str | None
) -> None:
    longest = record({"max_iters": max_iters}, gpu=("NVIDIA H200 NVL", 139.8), processes=processes)
    memory = {"peak_allocated_bytes": 139 * GIB, "peak_reserved_bytes": 140 * GIB, "micro_steps": 4}
    first = step(0, step_seconds=0.01, loss=12345.5, skipped=skipped, **memory)
    meter = Meter(Started(longest, Path("r"), 0))
    parts = short_step_parts(first, meter.add_step(first), meter)
    assert len(SEPARATOR.join(parts)) <= LINE_WIDTH == 120
    assert [parts[0].split()[0], parts[-1].split()[0]] == ["iter", "ETA"]
    assert bool(skipped) == any("update not applied" in each for each in parts)


def test_a_line_without_a_known_peak_has_the_achieved_rate(record: Builder, step: Builder) -> None:
    started = Started(record(gpu=None, dtype="float32"), Path("r"), 0)
    last = shown(PlainDisplay, [started, step(0, peak_host_bytes=GIB // 2)]).splitlines()[-1]
    # 131,072 tokens/s x 797.87 MFLOP.
    assert "104.6 TFLOP/s | 0.50 GiB | ETA" in last
    assert "MFU" not in last


@pytest.mark.parametrize("display", [PlainDisplay, LiveDisplay, NanogptDisplay])
def test_a_batch_that_grew_is_reported_once(
    display: Callable[[Console], Any], events: list[RunEvent], step: Builder
) -> None:
    more = [step(i, step_seconds=1.0, tokens=1_048_576) for i in range(4, 7)]
    text = shown(display, [*events, *more], terminal=display is LiveDisplay)
    (line,) = (line for line in text.splitlines() if line.rstrip().endswith("at iteration 5"))
    assert line.index("524,288") < line.index("1,048,576")


def test_a_line_and_the_header_name_the_measured_ceiling_where_there_is_one(
    events: list[RunEvent], h200: RunRecord, ceilings: Builder
) -> None:
    def recall(machine: MachineRecord) -> Ceilings | None:
        return ceilings() if machine == h200.machine else None

    first, *_, last = shown(lambda console: PlainDisplay(console, recall, full=True), events).splitlines()[1:]
    assert "datasheet peak 989.0 TFLOP/s dense, measured ceiling 791.2 TFLOP/s" in first
    # 418.3 of 791.2 TFLOP/s.
    assert "MFU 42.3% of H200 | 52.9% of the measured ceiling | " in last


def test_the_time_left_counts_iterations_and_evaluations(events: list[RunEvent]) -> None:
    # 19,069 iterations of 1 s, and evaluations of 10 s at 2000, 4000 ... 18000 and 19073: 19,169 s.
    assert "ETA 5 h 19 min" in shown(PlainDisplay, events).splitlines()[-1]


def test_a_resumed_run_shows_the_time_left_before_its_first_evaluation(
    h200: RunRecord, step: Builder
) -> None:
    resumed = [Started(h200, Path("r"), 19_071), step(19_071, step_seconds=7.0)]
    assert "ETA 7 s" in shown(PlainDisplay, resumed).splitlines()[-1]


def test_the_first_iterations_do_not_stay_in_the_rates(
    h200: RunRecord, step: Builder, evaluation: Builder
) -> None:
    slow = [step(i, step_seconds=60.0) for i in range(3)]
    steady = [step(3, step_seconds=1.0)]
    last = shown(full, [Started(h200, Path("r"), 0), evaluation(0), *slow, *steady]).splitlines()[-1]
    assert "1,000 ms/iter" in last


def test_lines_come_at_the_log_interval_and_at_the_start(record: Builder, step: Builder) -> None:
    started = Started(record({"log_interval": 5, "max_iters": 20}), Path("r"), 0)
    lines = shown(PlainDisplay, [started, *(step(i) for i in range(12))]).splitlines()
    assert [line.split(" |")[0].split() for line in lines if line.startswith("iter")] == [
        ["iter", "1/20"],
        ["iter", "5/20"],
        ["iter", "10/20"],
    ]


def test_an_overflow_in_fp16_is_reported(record: Builder, step: Builder) -> None:
    started = Started(record(dtype="float16"), Path("r"), 0)
    assert "update not applied (fp16 overflow)" in shown(PlainDisplay, [started, step(0, skipped="overflow")])


def test_the_header_says_what_runs_on_what(h200: RunRecord) -> None:
    noted = h200.model_copy(update={"notes": ("accepted and ignored: wandb_log",)})
    text = shown(PlainDisplay, [Message("preparing"), Started(noted, Path("runs/case"), 7)])
    assert "preparing" in text
    assert "124.4M parameters, 12 layers of 768, 12 heads, context 1024, resumed at iteration 7" in text
    assert "NVIDIA H200: bfloat16, compiled; datasheet peak 989.0 TFLOP/s dense" in text
    assert "524,288 tokens/iteration = 8 x 1024 x 64 micro-steps; " in text
    assert "accepted and ignored: wandb_log" in text


@pytest.mark.parametrize(
    ("eval_tokens", "val_tokens", "words"),
    [
        (8192, 10**8, "evaluated on 8,192 tokens of each split"),
        # 1,999 targets fill 15 sequences of 128.
        (8192, 2000, "evaluated on 1,920 val and 8,192 train tokens"),
        (1, 10**8, "evaluated on 128 tokens of each split"),
    ],
)
def test_the_header_says_on_how_many_tokens_it_evaluates(
    record: Builder, eval_tokens: int, val_tokens: int, words: str
) -> None:
    plain: RunRecord = record({"block_size": 128, "eval_tokens": eval_tokens})
    data = plain.data.model_copy(update={"val_tokens": val_tokens})
    started = Started(plain.model_copy(update={"data": data}), Path("r"), 0)
    assert words in shown(PlainDisplay, [started])


@pytest.mark.parametrize("display", [PlainDisplay, LiveDisplay, NanogptDisplay])
def test_what_looks_like_markup_is_shown_as_it_is(
    display: Callable[[Console], Any], h200: RunRecord, evaluation: Builder, save: Builder
) -> None:
    noted = h200.model_copy(update={"notes": ("from [/b] and :smile:",)})
    events: list[RunEvent] = [Message("in x[/b]y"), Started(noted, Path("x[/b]y"), 0), evaluation(0)]
    text = shown(display, [*events, save(0)], terminal=True)
    assert "in x[/b]y" in text
    assert "from [/b] and :smile:" in text
    assert ("to x[/b]y" if display is NanogptDisplay else "run x[/b]y:") in text


def test_an_evaluation_shows_loss_and_perplexity(evaluation: Builder, h200: RunRecord) -> None:
    entry: EvalRecord = evaluation(500, val_loss=3.0910, train_loss=3.05)
    text = shown(PlainDisplay, [Started(h200, Path("r"), 0), entry])
    assert "eval at 500: val loss 3.0910 (perplexity 22.0), train loss 3.0500, 10.0 s" in text


def test_a_terminal_gets_a_bar_and_keeps_the_evaluations(events: list[RunEvent], evaluation: Builder) -> None:
    text = shown(LiveDisplay, [*events, evaluation(4)], terminal=True)
    assert "iter     4/19073" in text
    assert "524,288 tok/s" in text
    assert "eval at 4" in text


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_tears_no_number_from_its_unit(events: list[RunEvent], width: int) -> None:
    text = shown(live_in_full, events, terminal=True, width=width)
    for whole in (
        "15.6 ms/micro-batch",
        "MFU 42.3% of H200",
        "peak 7.00 GiB allocated, 8.00 GiB reserved",
    ):
        assert whole in text


def test_nanogpt_lines_are_nanogpts(
    h200: RunRecord, step: Builder, evaluation: Builder, save: Builder, stop: Builder
) -> None:
    steps: list[StepRecord] = [step(i, loss=6.5, step_seconds=9.34) for i in range(6)]
    events: list[RunEvent] = [Started(h200, Path("out"), 0), evaluation(0), *steps, save(6), stop(6)]
    lines = shown(NanogptDisplay, events).splitlines()
    assert lines[:3] == [
        "tokens per iteration will be: 524,288",
        "number of parameters: 123.59M",
        "step 0: train loss 5.0000, val loss 5.0000",
    ]
    assert lines[3] == "iter 0: loss 6.5000, time 9340.00ms, mfu -100.00%"
    assert lines[8] == "iter 5: loss 6.5000, time 9340.00ms, mfu 15.38%"
    assert lines[9:] == ["saving checkpoint to out"]


def test_the_display_follows_where_it_is_shown() -> None:
    assert isinstance(make_display("auto", console(terminal=True)), LiveDisplay)
    assert isinstance(make_display("auto", console()), PlainDisplay)
    assert isinstance(make_display("plain", console(terminal=True)), PlainDisplay)
    assert isinstance(make_display("full", console(terminal=True)), LiveDisplay)
    assert isinstance(make_display("full", console()), PlainDisplay)
    assert isinstance(make_display("nanogpt", console(terminal=True)), NanogptDisplay)


def test_a_line_names_the_noise_scale_once_it_has_settled(h200: RunRecord, step: Builder) -> None:
    """Squares of 1 + 524,288 / tokens: 65 over 8,192 and 2, or 2.02, over 524,288."""
    norms = {"micro_grad_norm": 65**0.5, "micro_tokens": 8192}
    steps: list[RunEvent] = [step(i, grad_norm=(2.0 + 0.02 * (i % 2)) ** 0.5, **norms) for i in range(50)]
    lines = shown(full, [Started(h200, Path("r"), 0), *steps]).splitlines()
    assert "| noise scale settling | " in lines[-50]
    assert "| noise scale 51" in lines[-1]


def test_the_rate_after_a_batch_has_grown_is_of_its_own_iterations(h200: RunRecord, step: Builder) -> None:
    small = [step(i, step_seconds=1.0) for i in range(30)]
    grown = step(30, step_seconds=2.0, tokens=2 * 524_288, micro_steps=128)
    last = shown(full, [Started(h200, Path("r"), 0), *small, grown]).splitlines()[-1]
    assert "2,000 ms/iter | 15.6 ms/micro-batch | 524,288 tok/s" in last


def test_a_ramp_is_reported_in_the_header_and_its_size_in_every_line(record: Builder, step: Builder) -> None:
    settings = {"batch_size": 8, "tokens_per_iter": 524_288, "max_iters": 100}
    steps = [step(0), step(1, tokens=1_048_576)]
    scheduled = record(settings=settings | {"batch_ramp": "100k:1_048_576"})
    text = shown(full, [Started(scheduled, Path("r"), 0), *steps])
    step_words = ENGLISH.say("batch.ramp.step", size="1,048,576", since="100.0k")
    assert says(text, "batch.ramp.growing", steps=f"{step_words};")
    assert "x 64 micro-steps" in text
    assert [line.split(" | ")[3] for line in text.splitlines() if line.startswith("iter ")] == [
        "524,288 tokens/iter",
        "1,048,576 tokens/iter",
    ]
    by_noise = record(settings=settings | {"batch_ramp": "noise"})
    text = shown(PlainDisplay, [Started(by_noise, Path("r"), 0)])
    assert says(text, "batch.ramp.by-noise", most="8,388,608;")
