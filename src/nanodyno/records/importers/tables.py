"""Tables with a heading: a plain CSV, or what Weights & Biases exports."""

import csv
from collections.abc import Iterator

from nanodyno.records.importers.columns import COUNTERS, Columns, StepRow, meaning
from nanodyno.records.importers.events import LogEvent
from nanodyno.records.importers.source import LogSource

PROGRAM = "a table"
LOOKED_FOR = "a heading such as `step,train_loss,val_loss,lr,seconds`"
SEPARATORS = ",\t;"
LOSSES = {"train_loss", "val_loss"}
LONGEST_HEADING = 20_000
MOST_COLUMNS = 500


def recognise(chunk: bytes) -> int:
    first = chunk.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n ")[:LONGEST_HEADING].split(b"\n")[0]
    return int(_heading(first) is not None)


def read(source: LogSource) -> Iterator[LogEvent]:
    lines, columns = source.lines(), Columns()
    heading = _heading(next(lines, b""))
    if heading is None:
        return
    separator, names = heading
    place = next(names.index(counter) for counter in COUNTERS if counter in names)
    for line in lines:
        row = _row(line, separator, names, place)
        if row is None or (source.in_last_line and line.count(separator.encode()) < len(names) - 1):
            source.pass_over(line)
        else:
            yield from columns.take(row)
    yield from columns.finish()


def _row(line: bytes, separator: str, names: list[str | None], place: int) -> StepRow | None:
    cells = _cells(line, separator)
    step = _number(cells[place]) if place < len(cells) else None
    if step is None or not 0 <= step < 10**12:
        return None
    row = StepRow(int(step))
    for name, cell in zip(names, cells, strict=False):
        if name and name not in COUNTERS and (value := _number(cell)) is not None:
            row.numbers.setdefault(name, value)
    return row


def _heading(line: bytes) -> tuple[str, list[str | None]] | None:
    """The separator and what each column means; None when it has no step or no loss."""
    for separator in SEPARATORS:
        meanings = [meaning(cell) for cell in _cells(line, separator)[:MOST_COLUMNS]]
        if set(COUNTERS) & set(meanings) and LOSSES & set(meanings):
            return separator, meanings
    return None


def _cells(line: bytes, separator: str) -> list[str]:
    text = line.decode(errors="replace").rstrip("\r\n").replace("\0", "")
    if '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return []


def _number(text: str) -> float | None:
    """None for an empty cell; NaN for one that says so."""
    try:
        return float(text) if text else None
    except ValueError:
        return None
