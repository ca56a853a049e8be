"""What a person sees while text becomes tokens, and what came of it."""

import dataclasses
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from nanodyno.messages import quantities
from nanodyno.records.events import Message
from nanodyno.records.preparation import (
    PreparationEvent,
    PreparationProgress,
    PreparationRecord,
    PreparationStarted,
)
from nanodyno.report.progress import say

SECONDS_BETWEEN_LINES = 10.0


class PreparationDisplay(Protocol):
    """Shows events; closed when the preparation ends, however it ends."""

    def __call__(self, event: PreparationEvent) -> None: ...

    def close(self) -> None: ...


def make_preparation_display(console: Console) -> PreparationDisplay:
    return LivePreparation(console) if console.is_terminal else PlainPreparation(console)


class PreparationRate:
    """The rate of this attempt and the time left, both since its first batch was written."""

    def __init__(self, started: PreparationStarted) -> None:
        self._done_tokens = started.done_tokens
        self._first: PreparationProgress | None = None

    def parts(self, now: PreparationProgress) -> list[str]:
        """Progress in words: tokens so far, rate, time left."""
        first = self._first = self._first or now
        seconds = now.seconds - first.seconds
        rate = (now.tokens - first.tokens) / seconds if seconds > 0 else None
        gained = now.fraction - first.fraction
        left = seconds * (1 - now.fraction) / gained if gained > 0 else None
        return [
            f"{quantities.count(self._done_tokens + now.tokens)} tokens",
            f"{quantities.rate(rate)} tok/s" if rate else "",
            f"ETA {quantities.clock(left)}",
        ]


class PlainPreparation:
    """A line every ten seconds: for files, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace: PreparationRate | None = None
        self._reported_seconds = 0.0

    def __call__(self, event: PreparationEvent) -> None:
        match event:
            case Message():
                say(self._console, event.text)
            case PreparationStarted():
                self._pace = PreparationRate(event)
                say(self._console, header(event))
            case PreparationProgress():
                assert self._pace is not None
                words = self._pace.parts(event)
                if event.seconds - self._reported_seconds >= SECONDS_BETWEEN_LINES:
                    self._reported_seconds = event.seconds
                    say(self._console, " | ".join([f"{event.fraction:.0%}", *words]))

    def close(self) -> None:
        pass


class LivePreparation:
    """A progress bar with tokens, rate and time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace: PreparationRate | None = None
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __call__(self, event: PreparationEvent) -> None:
        match event:
            case Message():
                say(self._console, event.text, "yellow", soft_wrap=False)
            case PreparationStarted():
                self._pace = PreparationRate(event)
                say(self._console, header(event), "bold", soft_wrap=False)
                self._live.start()
            case PreparationProgress():
                assert self._pace is not None
                bar = Table.grid(padding=(0, 1))
                progress = ProgressBar(total=1.0, completed=event.fraction, width=24)
                bar.add_row(progress, f"{event.fraction:.0%}", *self._pace.parts(event))
                self._live.update(bar)

    def close(self) -> None:
        self._live.stop()


def header(event: PreparationStarted) -> str:
    files = "1 file" if event.inputs == 1 else f"{event.inputs:,} files"
    wanted = f", up to {quantities.count(event.wanted_tokens)} tokens" if event.wanted_tokens else ""
    done = f"; {quantities.count(event.done_tokens)} tokens are there already" if event.done_tokens else ""
    return (
        f"preparing {event.folder} from {event.source}: {files} of {quantities.gib(event.input_bytes)}"
        f"{wanted}, tokenizer {event.tokenizer}, {quantities.threads(event.workers)}{done}"
    )


def preparation_table(record: PreparationRecord) -> Table:
    """What is there now, and what was left out on the way."""
    table = Table(title=str(record.folder), title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    rate = f"{quantities.rate(record.new_tokens / record.seconds)} tok/s" if record.new_tokens else None
    rows: dict[str, str | None] = {
        "train tokens": f"{record.train_tokens:,}",
        "val tokens": f"{record.val_tokens:,}",
        "documents": f"{record.train_documents:,} train, {record.val_documents:,} val",
        "shards": f"{record.shards:,} of {record.dtype}, {quantities.gib(record.bytes)}",
        "tokenizer": f"{record.tokenizer} ({record.vocab_size:,})",
        "identical documents": _if_any(record.duplicates, "left out"),
        "empty documents": _if_any(record.empty, "left out"),
        "below --min-score": _if_any(record.low_score, "left out"),
        "broken lines": _if_any(record.broken, "left out"),
        "bad files": _if_any(len(record.bad_inputs), "left out from where they break"),
        "invalid UTF-8": _if_any(record.invalid_utf8, "documents, replaced"),
        "parts made again": _if_any(record.repaired_parts, ""),
        "time": quantities.duration(record.seconds),
        "rate": rate,
    }
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, value)
    return table


def preparation_document(record: PreparationRecord) -> dict[str, object]:
    return {**dataclasses.asdict(record), "folder": str(record.folder)}


def _if_any(number: int, words: str) -> str | None:
    return f"{number:,} {words}".rstrip() if number else None
