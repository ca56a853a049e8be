"""TensorBoard's event files: records with a length and its checksum, each one protobuf message.

Only what scalars need of either format is read: https://github.com/tensorflow/tensorboard, event.proto.
"""

import itertools
import struct
from collections.abc import Iterator

from nanodyno.records.importers.columns import Columns, StepRow
from nanodyno.records.importers.events import LogEvent, Note
from nanodyno.records.importers.source import LogSource, clean

PROGRAM = "TensorBoard"
LOOKED_FOR = "TensorBoard's records"
HEADER = struct.Struct("<QI")
LARGEST_RECORD = 1 << 26
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_TAG = 200

Field = tuple[int, int, int | bytes]


def recognise(chunk: bytes) -> int:
    return int(len(chunk) >= HEADER.size and _length(chunk) is not None)


def read(source: LogSource) -> Iterator[LogEvent]:
    columns, row = Columns(elapsed=True), None
    for record in _records(source):
        for step, wall_time, tag, value in _scalars(record):
            if row is None or row.step != step:
                yield from columns.take(row)
                row = StepRow(step)
            row.add(tag, value)
            row.add("wall_time", wall_time)
    yield from columns.take(row)
    yield from columns.finish()
    if source.in_last_line:
        yield Note(f"{source.name} ends inside a record")


def _records(source: LogSource) -> Iterator[bytes]:
    """Whole records; what follows a damaged length cannot be told apart and is left out."""
    window = b""
    for chunk in source.chunks():
        window += chunk
        place = 0
        while len(window) - place >= HEADER.size:
            length = _length(window[place : place + HEADER.size])
            if length is None:
                source.pass_over(b"a damaged record")
                return
            end = place + HEADER.size + length + 4
            if end > len(window):
                break
            yield window[place + HEADER.size : end - 4]
            place = end
        window = window[place:]
    source.in_last_line = bool(window)


def _length(head: bytes) -> int | None:
    length, checksum = HEADER.unpack_from(head)
    return length if length <= LARGEST_RECORD and _masked_crc(head[:8]) == checksum else None


def _scalars(record: bytes) -> Iterator[tuple[int, float, str, float]]:
    step, wall_time, summaries = 0, 0.0, []
    for number, kind, value in _fields(record):
        if number == 1 and kind == FIXED64 and isinstance(value, bytes):
            (wall_time,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for tag, scalar in itertools.chain.from_iterable(map(_values, summaries)):
        if step < 10**12:
            yield step, wall_time, tag, scalar


def _values(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, _, value in _fields(summary):
        if number == 1 and isinstance(value, bytes):
            tag, scalar = _value(value)
            if scalar is not None:
                yield tag, scalar


def _value(message: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, kind, value in _fields(message):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = clean(value[:LONGEST_TAG].decode(errors="replace"))
        elif number == 2 and kind == FIXED32:
            (scalar,) = struct.unpack("<f", value)
        elif number == 8 and kind == BYTES:
            scalar = _tensor(value)
    return tag, scalar


def _tensor(message: bytes) -> float | None:
    """A scalar in a tensor, as TensorFlow 2 writes them: its bytes, or a list of one."""
    double, content = False, b""
    for number, _, value in _fields(message):
        if number == 1:
            double = value == 2
        elif number in (4, 5, 6) and isinstance(value, bytes):
            content = value
    form = {4: "<f", 8: "<d"}.get(len(content))
    return None if form is None or double != (form == "<d") else struct.unpack(form, content)[0]


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a protobuf message, as far as it is whole."""
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _varint(message, place)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, place = _varint(message, place)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind, end + 1)
        if place + size > end:
            return
        yield number, kind, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, place


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


CRC_TABLE = _crc_table()
"""Of CRC-32C."""


def _masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
