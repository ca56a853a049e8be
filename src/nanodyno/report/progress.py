"""What a person sees while a run trains: live on a terminal, plain lines elsewhere, or nanoGPT's format."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nanodyno.hardware.ceilings import Ceilings
from nanodyno.records.events import Message, RunEvent, Started
from nanodyno.records.types import EvalRecord, MachineRecord, SaveRecord, SplitRecord, StepRecord, StopRecord
from nanodyno.report.meter import Meter
from nanodyno.report.nanogpt_log import NanogptLog, eval_line, nanogpt_header
from nanodyno.report.outlook import Outlook
from nanodyno.report.words import (
    SEPARATOR,
    eval_words,
    grown_words,
    header,
    save_words,
    short_step_parts,
    skip_words,
    split_words,
    step_parts,
    stop_words,
)

LogStyle = Literal["auto", "plain", "full", "nanogpt"]
ProgressEvent = StepRecord | EvalRecord | SaveRecord | SplitRecord | StopRecord
"""What comes after Started."""


class Display(Protocol):
    """Shows events; closed when the run ends, however it ends."""

    def __call__(self, event: RunEvent) -> None: ...

    def close(self) -> None: ...


Recall = Callable[[MachineRecord], Ceilings | None]
"""What a machine was measured to reach, if it was."""


def make_display(style: LogStyle, console: Console, recall: Recall = lambda _: None) -> Display:
    if style == "nanogpt":
        return NanogptDisplay(console)
    kind = LiveDisplay if style != "plain" and console.is_terminal else PlainDisplay
    return kind(console, recall, full=style == "full")


def say(console: Console, line: str | None, style: str = "", soft_wrap: bool = True) -> None:
    """One line exactly as it is: folders and notes may hold what rich would read as markup or an emoji."""
    if line is not None:
        console.print(Text(line, style=style), soft_wrap=soft_wrap)


class PlainDisplay:
    """One line per logged iteration and per event: for files, pipes and CI. In full, with all numbers."""

    def __init__(self, console: Console, recall: Recall = lambda _: None, full: bool = False) -> None:
        self._console = console
        self._parts = step_parts if full else short_step_parts
        self._recall = recall
        self._meter: Meter | None = None
        self._outlook: Outlook | None = None

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Message():
                self._print(event.text)
            case Started():
                ceilings = self._recall(event.record.machine)
                self._meter = Meter(event, ceilings)
                self._outlook = Outlook(event)
                for line in header(event, ceilings):
                    self._print(line)
            case _:
                assert self._meter is not None, f"{event} came before the run started"
                self._print(self._line(event, self._meter))

    def close(self) -> None:
        pass

    def _line(self, event: ProgressEvent, meter: Meter) -> str | None:
        match event:
            case StepRecord():
                return self._step_line(event, meter)
            case EvalRecord():
                meter.add_eval(event)
                assert self._outlook is not None
                ahead, warnings = self._outlook.add_eval(event)
                return "\n".join([SEPARATOR.join(filter(None, (eval_words(event), ahead))), *warnings])
            case SaveRecord():
                meter.add_save(event)
                return save_words(event)
            case SplitRecord():
                meter.add_split(event)
                return split_words(event)
            case StopRecord():
                return stop_words(event, meter)

    def _step_line(self, step: StepRecord, meter: Meter) -> str | None:
        progress = meter.add_step(step)
        assert self._outlook is not None
        self._outlook.add_step(step)
        done = step.iteration + 1
        is_logged = done == 1 or done % meter.config.log_interval == 0
        line = SEPARATOR.join(self._parts(step, progress, meter)) if is_logged else skip_words(step)
        return "\n".join(filter(None, (grown_words(step, progress.grew_from), line))) or None

    def _print(self, line: str | None) -> None:
        say(self._console, line)


class LiveDisplay:
    """A progress bar with the latest numbers below it; evaluations and what went wrong stay above.

    Saves are many and in order: the latest is one of the numbers.
    """

    def __init__(self, console: Console, recall: Recall = lambda _: None, full: bool = False) -> None:
        self._console = console
        self._parts = step_parts if full else short_step_parts
        self._recall = recall
        self._meter: Meter | None = None
        self._outlook: Outlook | None = None
        self._live: Live | None = None

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Message():
                self._print(event.text, "yellow")
            case Started():
                ceilings = self._recall(event.record.machine)
                self._meter = Meter(event, ceilings)
                self._outlook = Outlook(event)
                for line in header(event, ceilings):
                    self._print(line, "bold" if line.startswith("run ") else "")
                self._live = Live(console=self._console, refresh_per_second=4, transient=True)
                self._live.start()
            case _:
                assert self._meter is not None, f"{event} came before the run started"
                assert self._live is not None
                assert self._outlook is not None
                self._show(event, self._meter, self._live, self._outlook)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _show(self, event: ProgressEvent, meter: Meter, live: Live, outlook: Outlook) -> None:
        match event:
            case StepRecord():
                outlook.add_step(event)
                progress = meter.add_step(event)
                live.update(_lines(event, self._parts(event, progress, meter), meter, self._console.width))
                self._print(grown_words(event, progress.grew_from))
                self._print(skip_words(event), "yellow")
            case EvalRecord():
                meter.add_eval(event)
                ahead, warnings = outlook.add_eval(event)
                self._print(SEPARATOR.join(filter(None, (eval_words(event), ahead))))
                for warning in warnings:
                    self._print(warning, "yellow")
            case SaveRecord():
                meter.add_save(event)
            case SplitRecord():
                meter.add_split(event)
                self._print(split_words(event), "yellow")
            case StopRecord():
                self._print(stop_words(event, meter), "bold")

    def _print(self, line: str | None, style: str = "") -> None:
        # Rich draws the bar with the options of the line above it: unwrapped, a long bar would leave traces.
        say(self._console, line, style, soft_wrap=False)


def _lines(step: StepRecord, parts: Sequence[str], meter: Meter, width: int) -> Group:
    where, *numbers = parts
    bar = Table.grid(padding=(0, 1))
    done, planned = step.iteration + 1, meter.config.max_iters
    bar.add_row(
        where,
        ProgressBar(total=planned, completed=done, width=24),
        f"{done / planned:.0%}",
        numbers.pop(),
    )
    if meter.saved_iteration is not None:
        numbers.append(f"saved at {meter.saved_iteration}")
    return Group(bar, Text(_between(numbers, width), style="dim"))


def _between(numbers: Sequence[str], width: int) -> str:
    """Lines that end between two numbers, so that none is torn from its unit."""
    lines = [""]
    for each in numbers:
        longer = f"{lines[-1]}  {each}" if lines[-1] else each
        if lines[-1] and cell_len(longer) > width:
            lines.append(each)
        else:
            lines[-1] = longer
    return "\n".join(lines)


class NanogptDisplay:
    """nanoGPT's own lines, so that scripts which read them go on working."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._log: NanogptLog | None = None
        self._meter: Meter | None = None
        self._folder = ""

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Message():
                say(self._console, event.text)
            case Started():
                self._log = NanogptLog(event.record)
                self._meter = Meter(event)
                self._folder = str(event.folder)
                say(self._console, nanogpt_header(event.record))
            case _:
                assert self._log is not None, f"{event} came before the run started"
                assert self._meter is not None
                say(self._console, self._line(event, self._log, self._meter))

    def close(self) -> None:
        pass

    def _line(self, event: ProgressEvent, log: NanogptLog, meter: Meter) -> str | None:
        match event:
            case StepRecord():
                grown = grown_words(event, meter.add_step(event).grew_from)
                return "\n".join(filter(None, (grown, log.step_line(event)))) or None
            case EvalRecord():
                return eval_line(event)
            case SaveRecord():
                meter.add_save(event)
                return f"saving checkpoint to {self._folder}"
            case SplitRecord():
                return split_words(event)
            case StopRecord():
                return stop_words(event, meter)
