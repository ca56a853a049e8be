"""A file that is read once from front to back, in pieces, however large it is."""

import codecs
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from nanodyno.errors import NanodynoError

CHUNK = 1 << 20
LONGEST_LINE = 1 << 20
EXAMPLE = 120
"""Characters shown of a line that was not understood."""
BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""PowerShell's `>` writes UTF-16."""
WORDS = re.compile(rb"[^\W_]{2}")
ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")

RANK = re.compile(rb"\[(?:rank|default)(\d{1,4})\]")
"""What torchrun and torch's logger put before a process's lines."""
NOTEBOOK = ".ipynb"
LARGEST_NOTEBOOK = 1 << 28

TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")

WatchBytes = Callable[[int], None]
"""Told how many bytes were read since it was last told."""


def timestamp(text: bytes) -> float | None:
    """Return the date and time that a logger put before a line, in seconds; None without one.

    As if they were UTC: what is read from them is differences.
    """
    found = TIMESTAMP.search(text)
    if found is None:
        return None
    day, time, fraction = (part.decode() for part in found.groups(b"0"))
    try:
        return datetime.fromisoformat(f"{day}T{time}+00:00").timestamp() + float(f"0.{fraction}")
    except ValueError:
        return None


class LogSource:
    """Sums up what passes through it, and what its reader made nothing of."""

    def __init__(self, path: Path, watch: WatchBytes = lambda _: None, is_log: bool = False) -> None:
        self.path = path
        self.is_log = is_log
        self.name = clean(path.name)
        self.size_bytes = 0
        self.unread_lines = 0
        self.example: str | None = None
        """The first line with words in it that was not understood."""
        self.in_last_line = False
        """Whether the line at hand has no end: the log was cut there, or is still being written."""
        self.every_line = False
        self._rank: int | None = None
        """Of several processes that print into one log, the first is read."""
        self._sum = hashlib.sha256()
        self._watch = watch

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    self._sum.update(chunk)
                    self.size_bytes += len(chunk)
                    self._watch(len(chunk))
                    yield chunk
        except OSError as error:
            raise unreadable(self.path, error) from None

    def text(self) -> Iterator[bytes]:
        """Yield it as UTF-8; of a notebook what its cells hold and printed."""
        yield from _as_utf8(self.chunks()) if self.path.suffix != NOTEBOOK else (self._notebook(),)

    def _notebook(self) -> bytes:
        data = b""
        for chunk in self.chunks():
            data += chunk
            if len(data) > LARGEST_NOTEBOOK:
                raise NanodynoError(
                    f"{self.name} is a notebook that is too large", "copy its output into a file"
                )
        try:
            return "\n".join(_printed(json.loads(data))).encode(errors="replace")
        except (ValueError, KeyError, RecursionError, AttributeError, TypeError):
            raise NanodynoError(
                f"{self.name} is not a complete notebook", "copy its output into a file"
            ) from None

    def lines(self, marks: Sequence[re.Pattern[bytes]] = ()) -> Iterator[bytes]:
        """Those that hold something, without colours; a carriage return ends a line too.

        With marks, only lines that hold one of them; the others are passed over, unless `every_line` is set
        meanwhile. What is nowhere in a piece of the file is not looked for in each of its lines.
        """
        for lines in self._pieces():
            wanted = _wanted(lines, marks)
            for line in filter(bytes.strip, lines):
                if wanted is None or wanted(line) or self.every_line:
                    yield line
                else:
                    self.pass_over(line)

    def _pieces(self) -> Iterator[list[bytes]]:
        rest, too_long = b"", False
        for chunk in self.text():
            block = chunk if not rest else rest + chunk
            end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            rest = block[end:]
            if end:
                lines = self._of_first_rank(_split(block[:end]))
                yield lines[1:] if too_long else lines
                too_long = False
            if len(rest) > LONGEST_LINE and not too_long:
                self.pass_over(rest)
                too_long = True
            if too_long:
                rest = b""
        self.in_last_line = True
        if not too_long:
            yield self._of_first_rank(_split(rest))

    def _of_first_rank(self, lines: list[bytes]) -> list[bytes]:
        ranks = [int(found[1]) if (found := RANK.search(line)) else None for line in lines if b"[" in line]
        known = [rank for rank in (*ranks, self._rank) if rank is not None]
        if not known:
            return lines
        self._rank = min(known)
        kept: list[bytes] = []
        for line in lines:
            found = RANK.search(line)
            if found is None or int(found[1]) == self._rank:
                kept.append(line)
            else:
                self.pass_over(line)
        return kept

    def pass_over(self, line: bytes) -> None:
        """Notes that nothing was made of a line."""
        if self.example is None and WORDS.search(line):
            self.example = clean(line[: 4 * EXAMPLE].decode(errors="replace").strip())
        self.unread_lines += 1


def clean(text: str, longest: int = EXAMPLE) -> str:
    """What can be shown anywhere: no control characters, not endless."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:longest])
    return shown if len(text) <= longest else f"{shown}..."


def unreadable(path: Path, error: OSError) -> NanodynoError:
    folder = os.path.isdir(path)  # noqa: PTH112 - unlike Path's, false for an impossible name
    hint = "give the log files themselves" if folder else None
    return NanodynoError(f"{clean(str(path))} cannot be read: {error.strerror}", hint)


def _wanted(lines: list[bytes], marks: Sequence[re.Pattern[bytes]]) -> Callable[[bytes], object] | None:
    """What tells the lines that are wanted; None for all of them."""
    if not marks:
        return None
    piece = b"\n".join(lines)
    present = [mark.pattern for mark in marks if mark.search(piece)]
    return re.compile(b"|".join(present)).search if present else lambda _: None


def _printed(notebook: Any) -> Iterator[str]:
    """The source of each cell of code, then what it printed, error streams too."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            parts = [cell["source"], *(each.get("text", "") for each in cell["outputs"])]
            yield from (part if isinstance(part, str) else "".join(part) for part in parts)


def _split(block: bytes) -> list[bytes]:
    if b"\x1b" in block:
        block = ANSI.sub(b"", block)
    if b"\r" in block:
        block = block.replace(b"\r", b"\n")
    return block.split(b"\n")


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    encoding = BOMS.get(first[:2])
    if encoding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first[2:]).encode(errors="replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode(errors="replace")
