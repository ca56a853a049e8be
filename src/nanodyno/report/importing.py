"""What was made of a log: what was recognized, what was read, what is unknown, what to do next."""

import shlex
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from nanodyno.config import keys_where
from nanodyno.messages import quantities
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.importers.joining import Imported

WORTH_A_BAR = 20 * 2**20
"""Bytes that take more than a moment."""
SECONDS_BETWEEN_LINES = 10.0
ASKED_FOR = keys_where(lambda each: "import" in each.asked_by)
"""Settings that a comparison asks for first."""


def import_page(imported: Imported, other: str | None = None) -> RenderableType:
    """`other` is a run to compare it with."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for title, words in import_rows(imported):
        table.add_row(title, Text(words))
    name = shlex.quote(imported.record.name)
    compare = "" if other is None else f", nanodyno compare {shlex.quote(other)} {name}"
    return Group(table, Text(f"\nnext: nanodyno show {name}{compare}"))


def import_rows(imported: Imported) -> list[tuple[str, str]]:
    record = imported.record
    origin = record.origin
    rows = [
        ("imported", f"{record.name}, {imported.folder}"),
        ("recognized", f"{origin.program}: {', '.join(file.name for file in origin.files)}"),
        ("read", _read(imported)),
        ("settings", ", ".join(f"{key}={value}" for key, value in record.settings.items()) or "none"),
    ]
    known = list(_known(record))
    if known:
        rows.append(("also known", ", ".join(known)))
    if missing := unknown(record):
        rows.append(
            ("unknown", f"{', '.join(missing)} (add what you know with --config, --gpu or --set key=value)")
        )
    unread = sum(file.unread_lines for file in origin.files)
    if unread:
        lines = "1 line" if unread == 1 else f"{unread:,} lines"
        rows.append(("skipped", f"{lines} without data of a run, such as: {imported.example}"))
    return [*rows, *(("note", note) for note in record.notes)]


def unknown(record: ImportedRecord) -> list[str]:
    """What neither the log nor the user told, of what matters most."""
    missing = [key for key in ASKED_FOR if key not in record.settings]
    if record.tokens_per_iter is None:
        missing.insert(0, "tokens per iteration")
    if not record.origin.timed_iterations:
        missing.insert(0, "time per iteration")
    if record.device_name is None:
        missing.append("GPU")
    return missing


def import_document(imported: Imported) -> dict[str, object]:
    return {
        "folder": str(imported.folder),
        "run": imported.record.model_dump(mode="json"),
        "unknown": unknown(imported.record),
        "dropped_iterations": imported.dropped_iterations,
        "unread_example": imported.example,
    }


def _read(imported: Imported) -> str:
    origin = imported.record.origin
    parts = [
        _number(origin.iterations, "iteration"),
        "none of them timed" if not origin.timed_iterations else f"{origin.timed_iterations:,} timed",
        _number(origin.evaluations, "evaluation"),
    ]
    if origin.restarts:
        again = imported.dropped_iterations
        dropped = f" ({_number(again, 'iteration')} logged twice; the later ones count)" if again else ""
        parts.append(_number(origin.restarts, "restart") + dropped)
    return ", ".join(parts if origin.iterations else parts[::2])


def _known(record: ImportedRecord) -> Iterator[str]:
    if record.tokens_per_iter is not None:
        yield f"{record.tokens_per_iter:,} tokens per iteration"
    if record.parameters is not None:
        yield f"{quantities.count(record.parameters)} parameters, as logged"
    if record.device_name is not None:
        yield record.device_name
    if record.processes is not None:
        yield _number(record.processes, "process", "processes")


def _number(value: int, one: str, many: str | None = None) -> str:
    return f"1 {one}" if value == 1 else f"{value:,} {many or one + 's'}"


@contextmanager
def make_import_display(console: Console, files: Sequence[Path]) -> Generator[Callable[[int], None]]:
    """A bar on a terminal and a line now and then elsewhere, for files that take their time."""
    total = sum(path.stat().st_size for path in files if path.is_file())
    if total < WORTH_A_BAR:
        yield lambda _: None
    elif console.is_terminal:
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("reading", total=total)
            yield lambda size: progress.advance(task, size)
    else:
        yield _Lines(console, total)


class _Lines:
    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total = console, total
        self._done, self._reported = 0, time.monotonic()

    def __call__(self, size: int) -> None:
        self._done += size
        if time.monotonic() - self._reported >= SECONDS_BETWEEN_LINES:
            self._reported = time.monotonic()
            self._console.print(f"{self._done / self._total:.0%} read", highlight=False)
