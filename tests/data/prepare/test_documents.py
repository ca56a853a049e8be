"""What becomes a document, what is dropped and counted, and where long texts are cut."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanodyno.data.prepare import documents as module
from nanodyno.data.prepare.documents import Dropped, End, KeptDocument, digest_of, documents, pieces
from nanodyno.data.prepare.plan import PreparationPlan
from nanodyno.data.prepare.reading import BadInput, Broken, LongText, RowBlock, RowText
from nanodyno.data.tokenizers import get_tokenizer


def plan(**changes: Any) -> PreparationPlan:
    reported: dict[str, Any] = {"source": "files", "path": "x", "inputs": (), "vocab_size": 257}
    return PreparationPlan(
        **(reported | {"tokenizer": "bytes", "tokenizer_sha256": "", "end_of_text": 256} | changes)
    )


def stream(
    *texts: RowText, scores: list[float | None] | None = None, **changes: Any
) -> list[KeptDocument | End]:
    return list(documents([RowBlock(0, texts, scores, 1.0)], plan(**changes), None))


def test_null_and_blank_rows_are_dropped_and_reported_with_the_document_after_them() -> None:
    first, second, end = stream(None, b"a", b"", b" \n", b"b", b"\t")
    assert isinstance(first, KeptDocument)
    assert isinstance(second, KeptDocument)
    assert (first.row, first.since_row, first.dropped) == (1, 0, Dropped(empty=1))
    assert (second.row, second.since_row, second.dropped) == (4, 2, Dropped(empty=2))
    assert end == End(6, Dropped(empty=1))


def test_rows_below_the_score_or_without_one_are_dropped() -> None:
    kept, end = stream(b"a", b"b", b"c", b"d", scores=[2.9, 3.0, None, float("nan")], min_score=3.0)
    assert isinstance(kept, KeptDocument)
    assert (kept.text, kept.dropped.low_score) == (b"b", 1)
    assert end == End(4, Dropped(low_score=2))


def test_a_broken_row_stops_unless_bad_ones_are_passed_over() -> None:
    with pytest.raises(BadInput, match="line 2 is not JSON"):
        stream(b"a", Broken("line 2 is not JSON"))
    assert stream(b"a", Broken("line 2 is not JSON"), skip_bad=True)[-1] == End(2, Dropped(broken=1))


def test_the_split_is_the_documents_hash_below_the_threshold_and_nothing_else() -> None:
    texts = [f"text {number}".encode() for number in range(2000)]
    found = [d for d in stream(*texts, val=0.1) if isinstance(d, KeptDocument)]
    for document in found:
        assert isinstance(document.text, bytes)
        digest = hashlib.blake2b(document.text, digest_size=16).digest()
        assert document.is_val == (int.from_bytes(digest[:8], "big") / 2**64 < 0.1)
    assert 150 < sum(document.is_val for document in found) < 250
    assert not any(d.is_val for d in stream(*texts, val=0.0) if isinstance(d, KeptDocument))


@pytest.mark.parametrize("tokenizer", ["gpt2", "bytes"])
@pytest.mark.usefixtures("gpt2_files")
def test_pieces_of_a_long_text_have_the_tokens_of_the_whole(
    tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 64)
    parts = ["It's a line.\n", "  \n\n", "word\n", "wörter 12\n", "\n\t'll\n", "end\r\n", "/path\n", "A" * 9]
    text = "".join(parts[i * i % 8] + parts[i % 5] for i in range(300))
    cut = list(pieces(text.encode()))
    assert len(cut) > 50
    assert b"".join(cut).decode() == text
    encode = get_tokenizer(tokenizer).encode
    assert np.array_equal(np.concatenate([encode(piece.decode()) for piece in cut]), encode(text))


def test_a_text_without_line_ends_is_cut_between_two_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 10)
    monkeypatch.setattr(module, "_MOST_BYTES", 20)
    cut = list(pieces(("ä" * 40 + "a").encode()))
    assert all(len(piece) <= 20 for piece in cut)
    assert "".join(piece.decode() for piece in cut) == "ä" * 40 + "a"


def test_a_long_file_has_the_hash_and_the_pieces_of_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 50)
    text = b"some words here\n" * 100
    (tmp_path / "a.txt").write_bytes(text)
    long = LongText(tmp_path / "a.txt")
    assert digest_of(long) == digest_of(text)
    assert list(pieces(long)) == list(pieces(text))
