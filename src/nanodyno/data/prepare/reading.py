"""Input files as rows of raw text: parquet, JSON lines (plain, gzip, zstd) and plain text.

A row is what may become a document. Rows are numbered within their input, so that reading can go on in the
middle of one. Text stays bytes here: it is decoded where it is encoded, by many threads.
"""

import codecs
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nanodyno.data.prepare.plan import Input, PreparationPlan
from nanodyno.errors import NanodynoError

BLOCK_ROWS = 256
SCORE = "score"
JSON_LINES = {".jsonl": None, ".jsonl.gz": "gzip", ".jsonl.zst": "zstd"}
PARQUET, TEXT, PYTHON = ".parquet", ".txt", ".py"
SUFFIXES = (PARQUET, *JSON_LINES, TEXT)

# Text files beyond this are never held as a whole.
LONG_BYTES = 16 * 2**20
_BUFFER_BYTES = 2**20
_BLOCK_BYTES = 8 * 2**20


_NO_SCORES = "leave out --min-score"


class BadInput(NanodynoError):
    """An input file that is not what its name says; --skip-bad goes on with the next."""


@dataclass(frozen=True)
class LongText:
    """A text file, or a stretch of one, that is one document too long to be held: read piece by piece."""

    path: Path
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Broken:
    """A row that holds no text, and why."""

    why: str


RowText = bytes | LongText | Broken | None


@dataclass(frozen=True)
class RowBlock:
    """Rows that follow each other, and the share of the input that has been read after them."""

    first_row: int
    texts: Sequence[RowText]
    scores: Sequence[float | None] | None
    fraction: float


def blocks(path: Path, given: Input, plan: PreparationPlan, start: int = 0) -> Iterator[RowBlock]:
    """The rows of an input from row start on; path is the file, or for a bundle the folder of its members."""
    if given.members:
        return _in_blocks(_bundle_rows(path, given, plan), start)
    if given.name.endswith(PARQUET):
        return _parquet_blocks(path, given, plan, start)
    compression = JSON_LINES[suffix_of(given.name)]
    return _in_blocks(_json_rows(path, given, plan, compression), start)


def suffix_of(name: str) -> str:
    """The suffix that says how a file is read; empty for a file of no known kind."""
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def _parquet_blocks(path: Path, given: Input, plan: PreparationPlan, start: int) -> Iterator[RowBlock]:
    """Each row group from its beginning: damage then ends the reading at the same row whatever start is."""
    try:
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        columns = _checked_columns(file.schema_arrow, given, plan)
        total, row = max(1, file.metadata.num_rows), 0
        for group in range(file.num_row_groups):
            if row + (rows := file.metadata.row_group(group).num_rows) <= start:
                row += rows
                continue
            at_once = _rows_at_once(file.metadata.row_group(group))
            for batch in file.iter_batches(at_once, [group], columns=columns, use_threads=False):
                row += batch.num_rows
                if row > start:
                    rest = batch.slice(max(0, batch.num_rows - (row - start)))
                    yield _parquet_block(rest, row, row / total, plan)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{given.name} is a damaged parquet file: {error}", "fetch it again, or use --skip-bad"
        ) from error


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """Fewer of long rows, such as whole books."""
    return max(1, min(BLOCK_ROWS, group.num_rows * _BLOCK_BYTES // max(1, group.total_byte_size)))


def _parquet_block(batch: pa.RecordBatch, end: int, fraction: float, plan: PreparationPlan) -> RowBlock:
    texts = batch.column(plan.text_column).cast(pa.large_binary()).to_pylist()
    scores = None if plan.min_score is None else batch.column(SCORE).to_pylist()
    return RowBlock(end - len(texts), texts, scores, fraction)


def _checked_columns(schema: pa.Schema, given: Input, plan: PreparationPlan) -> list[str]:
    wanted = [plan.text_column, *([] if plan.min_score is None else [SCORE])]
    for column in wanted:
        if column not in schema.names:
            raise BadInput(
                f"{given.name} has no column {column!r}; its columns: {', '.join(schema.names)}",
                "name the text column with --text-column" if column != SCORE else _NO_SCORES,
            )
    if plan.min_score is not None and not _is_number(scores := schema.field(SCORE).type):
        raise BadInput(f"{given.name}: column {SCORE!r} holds {scores}, not numbers", _NO_SCORES)
    kind = schema.field(plan.text_column).type
    if kind not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        raise BadInput(
            f"{given.name}: column {plan.text_column!r} holds {kind}, not text",
            "choose another --text-column",
        )
    return wanted


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


TextRow = tuple[RowText, float | None, float]


def _json_rows(path: Path, given: Input, plan: PreparationPlan, compression: str | None) -> Iterator[TextRow]:
    try:
        with pa.OSFile(str(path)) as raw:
            size = max(1, raw.size())
            stream = pa.CompressedInputStream(raw, compression) if compression else raw
            for number, line in enumerate(io.BufferedReader(stream, _BUFFER_BYTES), start=1):
                if line.strip():
                    text, score = _json_row(line, plan)
                    if isinstance(text, Broken):
                        text = Broken(f"line {number} of {given.name} {text.why}")
                    yield text, score, raw.tell() / size
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{given.name} cannot be read to its end: {error}", "fetch it again, or use --skip-bad"
        ) from error


def _json_row(line: bytes, plan: PreparationPlan) -> tuple[RowText, float | None]:
    try:
        reported = json.loads(line.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError):
        return Broken("is not JSON"), None
    if not isinstance(reported, dict) or plan.text_column not in reported:
        keys = f"; it has: {', '.join(reported)}" if isinstance(reported, dict) else ""
        return Broken(f"has no {plan.text_column!r}{keys}"), None
    text, score = reported[plan.text_column], reported.get(SCORE)
    if text is not None and not isinstance(text, str):
        return Broken(f"has a {plan.text_column!r} that is not text"), None
    return text if text is None else _utf8(text), score if isinstance(score, int | float) else None


def _utf8(text: str) -> bytes:
    """The text's bytes as they stood in the file; half a surrogate pair becomes what is no UTF-8 either."""
    for errors in ("strict", "surrogateescape"):
        try:
            return text.encode("utf-8", errors)
        except UnicodeEncodeError:
            continue
    return text.encode("utf-8", "surrogatepass")


def _bundle_rows(root: Path, given: Input, plan: PreparationPlan) -> Iterator[TextRow]:
    read = _paragraphs if plan.split == "blank-lines" else _whole
    for number, member in enumerate(given.members):
        try:
            for text, fraction in read(root / member):
                yield text, None, (number + fraction) / len(given.members)
        except OSError as error:
            yield Broken(f"{member} cannot be read: {error.strerror}"), None, 0.0


def _whole(path: Path) -> Iterator[tuple[RowText, float]]:
    if path.stat().st_size > LONG_BYTES:
        yield LongText(path), 0.0
    elif path.suffix == PYTHON:
        yield path.read_bytes().replace(b"\r\n", b"\n"), 1.0
    else:
        yield path.read_bytes(), 1.0


def _paragraphs(path: Path) -> Iterator[tuple[RowText, float]]:
    """What blank lines part, without its last line end. A line beyond a MiB is no blank one."""
    size = max(1, path.stat().st_size)
    held: list[bytes] = []
    start = end = 0
    last = b"\n"
    with path.open("rb") as file:
        for piece in iter(partial(file.readline, _BUFFER_BYTES), b""):
            if last.endswith(b"\n") and not piece.strip():
                if end > start:
                    yield _paragraph(path, start, end, held), file.tell() / size
                start = end = file.tell()
                held = []
            else:
                end = file.tell() - len(piece) + len(piece.rstrip(b"\r\n"))
                held.append(piece)
                if end - start > LONG_BYTES:
                    held.clear()
            last = piece
    if end > start:
        yield _paragraph(path, start, end, held), 1.0


def _paragraph(path: Path, start: int, end: int, held: list[bytes]) -> RowText:
    return LongText(path, start, end) if end - start > LONG_BYTES else b"".join(held)[: end - start]


def _in_blocks(rows: Iterator[TextRow], start: int) -> Iterator[RowBlock]:
    """Rows from start on in blocks; what was read before an input turned out bad comes before the error."""
    texts: list[RowText] = []
    scores: list[float | None] = []
    first, size, fraction = start, 0, 0.0
    bad = None
    try:
        for number, (text, score, fraction) in enumerate(rows):
            if number < start:
                continue
            texts.append(text)
            scores.append(score)
            size += len(text) if isinstance(text, bytes) else 0
            if len(texts) == BLOCK_ROWS or size > _BUFFER_BYTES:
                yield RowBlock(first, texts, scores, fraction)
                first, size, texts, scores = first + len(texts), 0, [], []
    except BadInput as error:
        bad = error
    yield RowBlock(first, texts, scores, fraction)
    if bad:
        raise bad
