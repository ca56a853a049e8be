"""The kinds of file that can be imported, and how one is told from another: by what stands in it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nanodyno.errors import NanodynoError
from nanodyno.records.importers import (
    build_nanogpt,
    litgpt,
    llmc,
    modded,
    nanochat,
    nanogpt,
    results,
    tables,
    tensorboard,
    trainer_log,
    trainer_state,
)
from nanodyno.records.importers.events import LogEvent
from nanodyno.records.importers.source import ANSI, BOMS, NOTEBOOK, LogSource, clean

CONTROLS = bytes({*range(32)} - {*b"\t\n\r\f\b\x1b"})
UNPACK = {
    b"\x1f\x8b\x08": "gunzip",
    b"PK\x03\x04": "unzip",
    b"BZh91AY&SY": "bunzip2",
    b"\xfd7zXZ\0": "unxz",
    b"(\xb5/\xfd": "unzstd",
    b"7z\xbc\xaf'\x1c": "7z x",
}
COMPRESSED = re.compile(b"|".join(map(re.escape, UNPACK)))
MOST_CONTROLS = 0.02
"""Of a text: a machine that lost its power leaves zeros in its logs."""


@dataclass(frozen=True)
class LogFormat:
    kind: str
    program: str
    looked_for: str
    recognise: Callable[[bytes], int]
    """How many lines of a piece of the file it knows."""
    read: Callable[[LogSource], Iterator[LogEvent]]
    in_lines: bool = True
    """Whether it may begin after any amount of other text."""
    clock_holds_evaluations: bool = False
    settings_come_first: bool = False
    """Whether settings hold for the iterations behind them: those behind the last are of none."""
    batch_is_of_all: bool = False
    """Whether its accumulation counts all processes: then the batch's settings make tokens_per_iter."""


FORMATS = (
    LogFormat(
        "nanogpt-log",
        nanogpt.PROGRAM,
        nanogpt.LOOKED_FOR,
        nanogpt.recognise,
        nanogpt.read,
        clock_holds_evaluations=True,
        settings_come_first=True,
        batch_is_of_all=True,
    ),
    LogFormat("llmc-log", llmc.PROGRAM, llmc.LOOKED_FOR, llmc.recognise, llmc.read, settings_come_first=True),
    LogFormat("modded-nanogpt-log", modded.PROGRAM, modded.LOOKED_FOR, modded.recognise, modded.read),
    LogFormat("nanochat-log", nanochat.PROGRAM, nanochat.LOOKED_FOR, nanochat.recognise, nanochat.read),
    LogFormat(
        "autoresearch-log",
        nanochat.AUTORESEARCH,
        nanochat.AUTORESEARCH_LOOKED_FOR,
        nanochat.recognise_autoresearch,
        nanochat.read,
    ),
    LogFormat(
        "build-nanogpt-log",
        build_nanogpt.PROGRAM,
        build_nanogpt.LOOKED_FOR,
        build_nanogpt.recognise,
        build_nanogpt.read,
        clock_holds_evaluations=True,
        settings_come_first=True,
    ),
    LogFormat(
        "trainer-log", trainer_log.PROGRAM, trainer_log.LOOKED_FOR, trainer_log.recognise, trainer_log.read
    ),
    LogFormat(
        "trainer-state",
        trainer_state.PROGRAM,
        trainer_state.LOOKED_FOR,
        trainer_state.recognise,
        trainer_state.read,
        in_lines=False,
    ),
    LogFormat(
        "tensorboard",
        tensorboard.PROGRAM,
        tensorboard.LOOKED_FOR,
        tensorboard.recognise,
        tensorboard.read,
        in_lines=False,
    ),
    LogFormat("litgpt-log", litgpt.PROGRAM, litgpt.LOOKED_FOR, litgpt.recognise, litgpt.read),
    LogFormat(
        "litgpt-table",
        tables.LITGPT,
        tables.LITGPT_LOOKED_FOR,
        tables.recognise_litgpt,
        tables.read_litgpt,
        in_lines=False,
    ),
    LogFormat(
        "lightning-table",
        tables.LIGHTNING,
        tables.LIGHTNING_LOOKED_FOR,
        tables.recognise_lightning,
        tables.read_lightning,
        in_lines=False,
    ),
    LogFormat("table", tables.PROGRAM, tables.LOOKED_FOR, tables.recognise, tables.read, in_lines=False),
)


def recognise(path: Path) -> LogFormat | None:
    """What a file is; None for text that no importer knows. The first piece that one knows decides."""
    source = LogSource(path)
    rest = b""
    for number, chunk in enumerate(source.text() if path.suffix == NOTEBOOK else source.chunks()):
        if number == 0 and (packed := COMPRESSED.match(chunk)):
            raise NanodynoError(f"{source.name} is compressed", f"unpack it first, with {UNPACK[packed[0]]}")
        piece = rest + _plain(chunk)
        found = [(each.recognise(piece), each) for each in FORMATS if each.in_lines or number == 0]
        best = max(found, key=lambda entry: entry[0])
        if best[0]:
            return best[1]
        if number == 0 and _is_binary(chunk):
            raise NanodynoError(f"{source.name} is a binary file, but not a TensorBoard event file", hint())
        rest = piece[piece.rfind(b"\n") + 1 :][-LONGEST_CUT:]
    if not source.size_bytes:
        raise NanodynoError(f"{source.name} is empty", "was the output of the training written elsewhere?")
    return None


LONGEST_CUT = 4096
"""Of a line that goes on in the next piece."""


def not_known(path: Path) -> NanodynoError:
    return NanodynoError(f"{clean(path.name)} is not a log that nanodyno knows", hint())


def hint() -> str:
    kinds = [(each.program, each.looked_for) for each in FORMATS]
    kinds.append((results.PROGRAM, results.LOOKED_FOR))
    return "looked for:" + "".join(f"\n  {program}: {looked_for}" for program, looked_for in kinds)


def _plain(chunk: bytes) -> bytes:
    encoding = BOMS.get(chunk[:2])
    if encoding is not None:
        chunk = chunk[2:].decode(encoding, errors="replace").encode(errors="replace")
    return ANSI.sub(b"", chunk) if b"\x1b" in chunk else chunk


def _is_binary(chunk: bytes) -> bool:
    controls = len(chunk) - len(chunk.translate(None, CONTROLS))
    return chunk[:2] not in BOMS and controls > MOST_CONTROLS * len(chunk)
