"""Tables with a heading: a plain CSV, what Weights & Biases exports, Lightning's and litgpt's metrics.csv."""

import csv
from collections.abc import Iterator

from nanodyno.records.importers.columns import COUNTERS, EPOCH_MEANS, Columns, StepRow, meaning
from nanodyno.records.importers.events import LogEvent, Note
from nanodyno.records.importers.source import LogSource

PROGRAM = "a table"
LOOKED_FOR = "a heading such as `step,train_loss,val_loss,lr,seconds`"
LIGHTNING, LITGPT = "Lightning", "litgpt"
LIGHTNING_LOOKED_FOR = "CSVLogger's metrics.csv, with a heading such as `epoch,step,train_loss_step,val_loss`"
LITGPT_LOOKED_FOR = (
    "its metrics.csv, with a heading such as `iter,iter_time,loss,remaining_time,step,total_tokens`"
)
SEPARATORS = ",\t;"
LOSSES = {"train_loss", "val_loss"}
LONGEST_HEADING = 20_000
MOST_COLUMNS = 500
MICRO_STEPS = "litgpt's metrics.csv counts micro-batches: an iteration here is one of them"


def recognise(chunk: bytes) -> int:
    return int(_heading(_first(chunk)) is not None)


def recognise_lightning(chunk: bytes) -> int:
    """Two, which is more than a plain table's, for the columns of its CSVLogger with rows that have gaps."""
    names = _names(_first(chunk))
    if not {"epoch", "step"} <= {*names} or not recognise(chunk) or recognise_litgpt(chunk):
        return 0
    own = any(name.endswith(("_step", "_epoch")) or name.startswith("lr-") for name in names)
    gaps = any(b",," in line or line.endswith(b",") for line in chunk.replace(b"\r", b"").split(b"\n")[1:])
    return 2 * int(own or gaps)


def recognise_litgpt(chunk: bytes) -> int:
    wanted = {"iter", "iter_time", "remaining_time", "step", "total_tokens"}
    return 3 * int(wanted <= {*_names(_first(chunk))})


def read(source: LogSource) -> Iterator[LogEvent]:
    yield from _read(source, PROGRAM)


def read_lightning(source: LogSource) -> Iterator[LogEvent]:
    yield from _read(source, LIGHTNING)


def read_litgpt(source: LogSource) -> Iterator[LogEvent]:
    yield Note(MICRO_STEPS)
    yield from _read(source, LITGPT)


def _read(source: LogSource, program: str) -> Iterator[LogEvent]:
    lines, columns = source.lines(), Columns()
    first = next(lines, b"")
    heading = _heading(first)
    if heading is None:
        return
    separator, names = heading
    counters = COUNTERS if program == PROGRAM else COUNTERS[::-1]  # litgpt's iter is empty in evaluations
    place = next(names.index(counter) for counter in counters if counter in names)
    tokens = _TokensPerRow(_names(first)) if program == LITGPT else None
    held: StepRow | None = None
    for line in lines:
        cells = _cells(line, separator)
        row = _row(cells, names, place)
        if row is None or (source.in_last_line and line.count(separator.encode()) < len(names) - 1):
            source.pass_over(line)
            continue
        if program != PROGRAM:
            row.evaluated_after = row.step + 1  # its step is the iteration, from 0, behind which it evaluates
        if tokens is not None:
            row.tokens = tokens.of(cells)
        if held is not None and held.step == row.step and not held.numbers.keys() & row.numbers.keys():
            held.numbers.update(row.numbers)  # a row each for the rate, the loss and the evaluation of a step
            held.tokens = held.tokens or row.tokens
        else:
            yield from columns.take(held)
            held = row
    yield from columns.take(held)
    yield from columns.finish()


class _TokensPerRow:
    def __init__(self, names: list[str]) -> None:
        self._total, self._iterations = names.index("total_tokens"), names.index("iter")

    def of(self, cells: list[str]) -> int | None:
        """Return the tokens of one micro-batch of all devices."""
        if len(cells) <= max(self._total, self._iterations):
            return None
        total, iterations = _number(cells[self._total]), _number(cells[self._iterations])
        if not total or not iterations or not 0 < iterations <= total < 1e18:
            return None
        return round(total / iterations)


def _row(cells: list[str], names: list[str | None], place: int) -> StepRow | None:
    step = _number(cells[place]) if place < len(cells) else None
    if step is None or not 0 <= step < 10**12:
        return None
    row = StepRow(int(step))
    for name, cell in zip(names, cells, strict=False):
        if name and name not in COUNTERS and (value := _number(cell)) is not None:
            row.numbers.setdefault(name, value)
    return row


def _first(chunk: bytes) -> bytes:
    return chunk.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n ")[:LONGEST_HEADING].split(b"\n")[0]


def _names(heading: bytes) -> list[str]:
    return [cell.strip().lower() for cell in _cells(heading, ",")[:MOST_COLUMNS]]


def _heading(line: bytes) -> tuple[str, list[str | None]] | None:
    """The separator and what each column means; None when it has no step or no loss."""
    for separator in SEPARATORS:
        cells = _cells(line, separator)[:MOST_COLUMNS]
        meanings = [meaning(cell) for cell in cells]
        if "train_loss" not in meanings:
            means = [cell.strip().lower() in EPOCH_MEANS for cell in cells]
            meanings = ["train_loss" if mean else known for mean, known in zip(means, meanings, strict=True)]
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
