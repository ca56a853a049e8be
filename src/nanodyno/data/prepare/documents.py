"""Rows to documents: what is dropped and counted, which split a document belongs to, pieces of long ones."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from nanodyno.data.prepare.plan import PreparationPlan
from nanodyno.data.prepare.reading import BadInput, Broken, LongText, RowBlock, RowText

PIECE_BYTES = 2**20
"""A longer text is encoded in pieces of about this size."""
_MOST_BYTES = 4 * PIECE_BYTES

# The patterns of all byte-pair encodings that we know begin a new word after a lone line end before a letter,
# and read the line end alike with nothing behind it: pieces cut there have the tokens of the whole.
_CUT = re.compile(rb"(?<=[!-~]\n)(?=[A-Za-z])")

IsFirst = Callable[[bytes, int], bool]
"""Whether a document, by its hash and row, is the first of all that are identical to it."""


@dataclass
class Dropped:
    """Rows that did not become documents."""

    empty: int = 0
    low_score: int = 0
    broken: int = 0
    duplicates: list[int] = field(default_factory=list)

    def add(self, other: "Dropped") -> None:
        self.empty += other.empty
        self.low_score += other.low_score
        self.broken += other.broken
        self.duplicates += other.duplicates


@dataclass(frozen=True)
class KeptDocument:
    """A row that is kept, and what was dropped between the kept one before it and itself."""

    row: int
    since_row: int
    text: bytes | LongText
    is_val: bool
    dropped: Dropped
    fraction: float


@dataclass(frozen=True)
class End:
    """The rest of an input after its last document."""

    row: int
    dropped: Dropped
    bad: str | None = None


def documents(
    blocks: Iterable[RowBlock], plan: PreparationPlan, is_first: IsFirst | None, start: int = 0
) -> Iterator[KeptDocument | End]:
    """The documents of an input from row start on, and its End last."""
    dropped, since, row = Dropped(), start, start
    bad = None
    try:
        for block in blocks:
            for row, text, score in _rows(block):
                if _drop(text, score, plan, dropped):
                    continue
                assert isinstance(text, bytes | LongText)
                digest = digest_of(text)
                if is_first is not None and not is_first(digest, row):
                    dropped.duplicates.append(row)
                    continue
                is_val = int.from_bytes(digest[:8], "big") < plan.val_below
                yield KeptDocument(row, since, text, is_val, dropped, block.fraction)
                since, dropped = row + 1, Dropped()
            row = block.first_row + len(block.texts)
    except BadInput as error:
        if not plan.skip_bad:
            raise
        bad = error.message
    yield End(row, dropped, bad)


def _rows(block: RowBlock) -> Iterator[tuple[int, RowText, float | None]]:
    scores = block.scores or [None] * len(block.texts)
    return zip(range(block.first_row, block.first_row + len(block.texts)), block.texts, scores, strict=True)


def digest_of(text: bytes | LongText) -> bytes:
    """blake2b-128 of the document as it was read."""
    if isinstance(text, bytes):
        return hashlib.blake2b(text, digest_size=16).digest()
    digest = hashlib.blake2b(digest_size=16)
    for chunk in _chunks(text):
        digest.update(chunk)
    return digest.digest()


def pieces(text: bytes | LongText) -> Iterator[bytes]:
    """The text in pieces whose tokens, one after another, are those of the whole.

    Where 4 MiB have no line end before a letter, the cut is made anywhere, so that memory stays bounded.
    """
    if isinstance(text, bytes) and len(text) <= PIECE_BYTES:
        yield text
        return
    rest = b""
    for chunk in _chunks(text):
        rest += chunk
        if len(rest) >= PIECE_BYTES:
            cut = _last_cut(rest, len(rest) - len(chunk))
            if cut:
                yield rest[:cut]
                rest = rest[cut:]
    if rest:
        yield rest


def _drop(text: RowText, score: float | None, plan: PreparationPlan, dropped: Dropped) -> bool:
    """Whether a row is no document for what it is by itself; counted when so."""
    if isinstance(text, Broken):
        if not plan.skip_bad:
            raise BadInput(text.why, "repair it, or use --skip-bad to skip such lines")
        dropped.broken += 1
    elif text is None or (isinstance(text, bytes) and (not text or text.isspace())):
        dropped.empty += 1
    elif plan.min_score is not None and (score is None or not score >= plan.min_score):
        dropped.low_score += 1
    else:
        return False
    return True


def _chunks(text: bytes | LongText) -> Iterator[bytes]:
    if isinstance(text, bytes):
        for start in range(0, len(text), PIECE_BYTES):
            yield text[start : start + PIECE_BYTES]
        return
    left = (text.path.stat().st_size if text.end is None else text.end) - text.start
    with text.path.open("rb") as file:
        file.seek(text.start)
        while chunk := file.read(min(left, PIECE_BYTES)):
            left -= len(chunk)
            yield chunk


def _last_cut(text: bytes, searched: int) -> int:
    """The last place at which the text may be cut; 0 for nowhere. Before `searched` there is none."""
    places = [found.start() for found in _CUT.finditer(text, max(0, searched - 2))]
    if places:
        return places[-1]
    if len(text) < _MOST_BYTES:
        return 0
    end = len(text) - 1
    while end > 1 and text[end] & 0xC0 == 0x80:  # within a character
        end -= 1
    return end
