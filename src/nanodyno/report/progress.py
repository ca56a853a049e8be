"""What a person sees while a run trains: live on a terminal, plain lines elsewhere, or nanoGPT's format."""

import statistics
from collections import deque
from dataclasses import dataclass
from typing import Literal, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.eta import eta_seconds
from nanodyno.analysis.summary import perplexity
from nanodyno.analysis.throughput import WARMUP_STEPS, Rates, Yardstick, rates
from nanodyno.costs.parameters import parameters
from nanodyno.records.events import Event, Message, Saved, Started
from nanodyno.records.types import EvalRecord, RunRecord, StepRecord
from nanodyno.report import quantities
from nanodyno.report.nanogpt_log import NanogptLog, eval_line

LogStyle = Literal["auto", "plain", "nanogpt"]
WINDOW = 20


class Display(Protocol):
    """Shows events; closed when the run ends, however it ends."""

    def __call__(self, event: Event) -> None: ...

    def close(self) -> None: ...


def make_display(style: LogStyle, console: Console) -> Display:
    if style == "nanogpt":
        return NanogptDisplay(console)
    return LiveDisplay(console) if style == "auto" and console.is_terminal else PlainDisplay(console)


def say(console: Console, line: str, style: str = "", soft_wrap: bool = True) -> None:
    """One line exactly as it is: folders and notes may hold what rich would read as markup or an emoji."""
    console.print(Text(line, style=style), soft_wrap=soft_wrap)


@dataclass(frozen=True)
class Speed:
    """The rates of the latest steps and the time left."""

    rates: Rates
    eta_seconds: float | None


class Meter:
    """Keeps the few latest steps, without the run's first, and the time evaluations take."""

    def __init__(self, started: Started) -> None:
        self.config = started.record.config
        self.yardstick = Yardstick.of(started.record)
        self._first = started.iteration
        self._steps: deque[StepRecord] = deque(maxlen=WINDOW)
        self._eval_seconds: list[float] = []
        self._last_eval: int | None = None

    def add_eval(self, entry: EvalRecord) -> None:
        self._eval_seconds.append(entry.eval_seconds)
        self._last_eval = entry.iteration

    def add_step(self, step: StepRecord) -> Speed:
        if step.iteration == self._first + WARMUP_STEPS:
            self._steps.clear()
        self._steps.append(step)
        speed = rates(self._steps, self.yardstick)
        assert speed is not None
        # A resumed run has not evaluated yet; until it does, the time left is that of its iterations.
        eval_seconds = statistics.median(self._eval_seconds) if self._eval_seconds else 0.0
        eta = eta_seconds(self.config, step.iteration + 1, self._last_eval, speed.step_seconds, eval_seconds)
        return Speed(speed, eta)


class PlainDisplay:
    """One line per logged iteration: for files, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._meter: Meter | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Message():
                self._print(event.text)
            case Started():
                self._meter = Meter(event)
                for line in header(event):
                    self._print(line)
            case StepRecord() if self._meter:
                speed = self._meter.add_step(event)
                done = event.iteration + 1
                if done == 1 or done % self._meter.config.log_interval == 0:
                    self._print(" | ".join(step_parts(event, speed, self._meter)))
            case EvalRecord() if self._meter:
                self._meter.add_eval(event)
                self._print(eval_words(event))
            case Saved():
                self._print(saved_words(event))
            case _:
                raise AssertionError(f"{event} came before the run started")

    def close(self) -> None:
        pass

    def _print(self, line: str) -> None:
        say(self._console, line)


class LiveDisplay:
    """A progress bar with the latest numbers below it; evaluations stay above as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._meter: Meter | None = None
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Message():
                self._print(event.text, "yellow")
            case Started():
                self._meter = Meter(event)
                for line in header(event):
                    self._print(line, "bold" if line.startswith("run ") else "")
                self._live = Live(console=self._console, refresh_per_second=4, transient=True)
                self._live.start()
            case StepRecord() if self._meter and self._live:
                self._live.update(self._lines(event, self._meter.add_step(event), self._meter))
            case EvalRecord() if self._meter:
                self._meter.add_eval(event)
                self._print(eval_words(event))
            case Saved():
                pass
            case _:
                raise AssertionError(f"{event} came before the run started")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _print(self, line: str, style: str = "") -> None:
        # Rich draws the bar with the options of the line above it: unwrapped, a long bar would leave traces.
        say(self._console, line, style, soft_wrap=False)

    def _lines(self, step: StepRecord, speed: Speed, meter: Meter) -> Group:
        where, *numbers = step_parts(step, speed, meter)
        bar = Table.grid(padding=(0, 1))
        done, planned = step.iteration + 1, meter.config.max_iters
        bar.add_row(
            where,
            ProgressBar(total=planned, completed=done, width=24),
            f"{done / planned:.0%}",
            numbers.pop(),
        )
        return Group(bar, Text("  ".join(numbers), style="dim"))


class NanogptDisplay:
    """nanoGPT's own lines, so that scripts which read them go on working."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._log: NanogptLog | None = None
        self._folder = ""

    def __call__(self, event: Event) -> None:
        line: str | None = None
        match event:
            case Message():
                line = event.text
            case Started():
                self._log = NanogptLog(event.record)
                self._folder = str(event.folder)
                line = nanogpt_header(event.record)
            case StepRecord() if self._log:
                line = self._log.step_line(event)
            case EvalRecord():
                line = eval_line(event)
            case Saved():
                line = f"saving checkpoint to {self._folder}"
            case _:
                raise AssertionError(f"{event} came before the run started")
        if line is not None:
            say(self._console, line)

    def close(self) -> None:
        pass


def nanogpt_header(record: RunRecord) -> str:
    size = parameters(record.config.model_shape(record.vocab_size)).nanogpt
    tokens = f"tokens per iteration will be: {record.config.tokens_per_iter:,}"
    return "\n".join((tokens, f"number of parameters: {size / 1e6:.2f}M", *record.notes))


def header(started: Started) -> list[str]:
    """What is trained, on what, in which arithmetic."""
    record, config = started.record, started.record.config
    shape = config.model_shape(record.vocab_size)
    size = quantities.count(parameters(shape).total)
    machine = record.machine
    threads = f", {quantities.threads(machine.cpu_threads)}" if machine.device_type == "cpu" else ""
    compiled = "compiled" if record.arithmetic.compiled else "not compiled"
    if record.arithmetic.compile_seconds is not None:
        compiled += f" in {quantities.duration(record.arithmetic.compile_seconds)}"
    resumed = f", resumed at iteration {started.iteration}" if started.iteration else ""
    peak = Yardstick.of(record).peak_flops
    known = f"datasheet peak {quantities.flop_rate(peak)} dense" if peak else "no datasheet peak known"
    return [
        f"run {started.folder}: {size} parameters, {shape.n_layer} layers of {shape.n_embd}, "
        f"{shape.n_head} heads, context {shape.block_size}{resumed}",
        f"on {machine.device_name}{threads}: {record.arithmetic.dtype}, {compiled}; {known}",
        f"data {record.data.dataset}: {quantities.count(record.data.train_tokens)} train tokens; "
        f"{config.tokens_per_iter:,} tokens/iteration = {config.batch_size} x {shape.block_size} "
        f"x {config.gradient_accumulation_steps} micro-steps; {evaluation_words(record)}",
        *record.notes,
    ]


def evaluation_words(record: RunRecord) -> str:
    """What an evaluation reads of each split: whole sequences, and no more than there are."""
    size = record.config.block_size
    val, train = (
        max(size, min(record.config.eval_tokens, tokens - 1) // size * size)
        for tokens in (record.data.val_tokens, record.data.train_tokens)
    )
    if val == train:
        return f"evaluated on {val:,} tokens of each split"
    return f"evaluated on {val:,} val and {train:,} train tokens"


def step_parts(step: StepRecord, speed: Speed, meter: Meter) -> list[str]:
    """One iteration in words, the most wanted first."""
    now = speed.rates
    width = len(str(meter.config.max_iters))
    return [
        f"iter {step.iteration + 1:>{width}}/{meter.config.max_iters}",
        f"loss {step.loss:.4f}",
        f"lr {step.learning_rate:.2e}",
        f"{quantities.milliseconds(now.step_seconds)}/iter",
        f"{quantities.milliseconds(now.micro_step_seconds)}/micro-batch",
        f"{quantities.rate(now.tokens_per_second)} tok/s",
        peak_words(now),
        f"nanoGPT's MFU (A100) {quantities.percent(now.nanogpt_mfu)}",
        *memory_words(step),
        *(["update skipped (fp16 overflow)"] if step.update_skipped else []),
        f"ETA {quantities.clock(speed.eta_seconds)}",
    ]


def peak_words(now: Rates) -> str:
    if now.card_share is None:
        return quantities.flop_rate(now.flops_per_second)
    return f"{quantities.percent(now.card_share)} of {now.card_name}'s peak"


def memory_words(step: StepRecord) -> list[str]:
    if step.peak_allocated_bytes is not None and step.peak_reserved_bytes is not None:
        allocated, reserved = (
            quantities.gib(step.peak_allocated_bytes),
            quantities.gib(step.peak_reserved_bytes),
        )
        return [f"peak {allocated} allocated, {reserved} reserved"]
    return [f"peak {quantities.gib(step.peak_host_bytes)} of host memory"] if step.peak_host_bytes else []


def eval_words(entry: EvalRecord) -> str:
    val = f"val loss {entry.val_loss:.4f} (perplexity {perplexity(entry.val_loss):,.1f})"
    seconds = quantities.duration(entry.eval_seconds)
    return f"eval at {entry.iteration}: {val}, train loss {entry.train_loss:.4f}, {seconds}"


def saved_words(event: Saved) -> str:
    return f"saved {event.folder} in {quantities.duration(event.save_seconds)}"
