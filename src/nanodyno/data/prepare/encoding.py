"""Documents to tokens: batches of pieces, and the work that one thread does on one of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from nanodyno.data.prepare.documents import End, KeptDocument, pieces
from nanodyno.data.shards import DTYPES
from nanodyno.data.tokenizers import Tokenizer

BATCH_BYTES = 2**19
"""About a tenth of a second of a thread's work: long against what a hand-over costs, short at the end."""
BATCH_PIECES = 8192


@dataclass
class EncodingBatch:
    """Pieces of documents that follow each other in one input; first marks the first piece of a document."""

    pieces: list[bytes] = field(default_factory=list)
    documents: list[KeptDocument] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    end: End | None = None

    @property
    def fraction(self) -> float:
        return self.documents[-1].fraction if self.documents and self.end is None else 1.0


@dataclass(frozen=True)
class Encoded:
    """A batch's tokens by split (False is train, True is val), and how many each piece has."""

    batch: EncodingBatch
    lengths: np.ndarray
    is_val: np.ndarray
    first: np.ndarray
    tokens: dict[bool, np.ndarray]
    invalid_rows: list[int]


def batches(stream: Iterable[KeptDocument | End]) -> Iterator[EncodingBatch]:
    """The stream in portions for one thread each; the last holds its End."""
    batch, size = EncodingBatch(), 0
    for item in stream:
        if isinstance(item, End):
            batch.end = item
            break
        for number, piece in enumerate(pieces(item.text)):
            batch.pieces.append(piece)
            batch.documents.append(item)
            batch.first.append(number == 0)
            size += len(piece)
            if size >= BATCH_BYTES or len(batch.pieces) == BATCH_PIECES:
                yield batch
                batch, size = EncodingBatch(), 0
    yield batch


def encode(batch: EncodingBatch, tokenizer: Tokenizer, dtype: str) -> Encoded:
    """The tokens of a batch, an end-of-text before each document; the text is let go of."""
    invalid_rows: list[int] = []
    texts = [_decoded(piece, batch.documents[i].row, invalid_rows) for i, piece in enumerate(batch.pieces)]
    batch.pieces = []
    ids = tokenizer.encode_batch(texts)
    del texts
    first = np.array(batch.first, dtype=bool)
    is_val = np.array([document.is_val for document in batch.documents], dtype=bool)
    lengths = np.array([len(array) for array in ids], dtype=np.int64) + first
    tokens = {
        split: _joined(ids, first, is_val == split, tokenizer.end_of_text, DTYPES[dtype])
        for split in (False, True)
    }
    return Encoded(batch, lengths, is_val, first, tokens, invalid_rows)


def _joined(
    ids: list[np.ndarray], first: np.ndarray, chosen: np.ndarray, end_of_text: int, dtype: np.dtype
) -> np.ndarray:
    mark = np.array([end_of_text], dtype=dtype)
    parts = [np.empty(0, dtype=dtype)]
    for number in np.flatnonzero(chosen).tolist():
        if first[number]:
            parts.append(mark)
        parts.append(ids[number])
    return np.concatenate(parts, dtype=dtype, casting="unsafe")


def _decoded(piece: bytes, row: int, invalid_rows: list[int]) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        invalid_rows.append(row)
        return piece.decode(errors="replace")
