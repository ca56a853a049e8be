"""Every kind of input as rows, and what is told of the ones that are not what their names say."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanodyno.data.prepare import reading
from nanodyno.data.prepare.documents import digest_of, pieces
from nanodyno.data.prepare.plan import Input, PreparationPlan
from nanodyno.data.prepare.reading import BadInput, Broken, LongText, blocks


def plan(**changes: Any) -> PreparationPlan:
    reported: dict[str, Any] = {"source": "files", "path": "x", "inputs": (), "vocab_size": 257}
    return PreparationPlan(
        **(reported | {"tokenizer": "bytes", "tokenizer_sha256": "", "end_of_text": 256} | changes)
    )


def read(path: Path, start: int = 0, members: tuple[str, ...] = (), **changes: Any) -> list[Any]:
    given = Input(name=path.name, bytes=1, members=members)
    return [t for block in blocks(path, given, plan(**changes), start) for t in block.texts]


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data).to_pybytes()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()]
)
def test_a_parquet_column_of_any_kind_of_text_is_read_with_its_nulls(tmp_path: Path, kind: Any) -> None:
    table = pa.table({"id": [1, 2, 3], "text": pa.array(["ä", None, ""]).cast(kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == ["ä".encode(), None, b""]


def test_reading_goes_on_in_the_middle_of_a_parquet_file_across_its_row_groups(tmp_path: Path) -> None:
    texts = [f"{number}".encode() for number in range(1000)]
    pq.write_table(pa.table({"text": pa.array(texts)}), tmp_path / "a.parquet", row_group_size=300)
    for start in (0, 1, 299, 300, 301, 700, 999, 1000):
        given = Input(name="a.parquet", bytes=1)
        found = list(blocks(tmp_path / "a.parquet", given, plan(), start))
        assert [t for block in found for t in block.texts] == texts[start:]
        assert [block.first_row for block in found][:1] == [start][: len(found)]


def test_a_parquet_file_without_the_text_column_lists_its_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "content": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a\.parquet has no column 'text'; its columns: id, content"):
        read(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", text_column="content") == [b"a"]
    with pytest.raises(BadInput, match="column 'id' holds int64, not text"):
        read(tmp_path / "a.parquet", text_column="id")
    with pytest.raises(BadInput, match="has no column 'score'"):
        read(tmp_path / "a.parquet", text_column="content", min_score=3.0)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(BadInput, match=r"a\.parquet is a damaged parquet file"):
        read(tmp_path / "a.parquet")


def test_damage_within_a_parquet_file_ends_the_reading_at_the_same_row_whatever_the_start(
    tmp_path: Path,
) -> None:
    texts = [f"{number} ".encode() * 50 for number in range(1200)]
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": texts}), path, row_group_size=400, compression="zstd", use_dictionary=False
    )
    data = bytearray(path.read_bytes())
    third = pq.ParquetFile(path).metadata.row_group(2).column(0)
    for place in range(third.data_page_offset, third.data_page_offset + third.total_compressed_size):
        data[place] ^= 0xFF
    path.write_bytes(data)

    def rows(start: int) -> Iterator[Any]:
        for block in blocks(path, Input(name="a.parquet", bytes=1), plan(), start):
            yield from block.texts

    for start in (0, 500, 799):
        found = rows(start)
        assert [next(found) for _ in range(800 - start)] == texts[start:800]
        with pytest.raises(BadInput, match=r"a\.parquet is a damaged"):
            next(found)


@pytest.mark.parametrize(
    ("name", "packed"), [("a.jsonl", bytes), ("a.jsonl.gz", gzip.compress), ("a.jsonl.zst", zstd)]
)
def test_json_lines_are_read_plain_and_compressed_also_in_several_frames(
    tmp_path: Path, name: str, packed: Any
) -> None:
    first, second = lines({"text": "one"}, {"text": None}), lines({"text": "zwei ä", "score": 4})
    (tmp_path / name).write_bytes(packed(first + b"\n") + packed(second))
    assert read(tmp_path / name) == [b"one", None, "zwei ä".encode()]
    assert read(tmp_path / name, start=2) == ["zwei ä".encode()]


@pytest.mark.parametrize(("name", "packed"), [("a.jsonl.gz", gzip.compress), ("a.jsonl.zst", zstd)])
def test_a_cut_file_is_named_after_the_rows_before_the_cut(tmp_path: Path, name: str, packed: Any) -> None:
    whole = [f"line {number * 7919 % 100_003}" for number in range(60_000)]
    (tmp_path / name).write_bytes(packed(lines(*({"text": text} for text in whole)))[:-1000])

    def rows(start: int, found: list[Any]) -> None:
        for block in blocks(tmp_path / name, Input(name=name, bytes=1), plan(), start):
            found += block.texts

    first: list[Any] = []
    second: list[Any] = []
    for start, found in ((0, first), (20_001, second)):
        with pytest.raises(BadInput, match=rf"{name} cannot be read to its end"):
            rows(start, found)
    assert len(first) > 20_001
    assert first == [text.encode() for text in whole[: len(first)]]
    assert second == first[20_001:]


def test_lines_that_hold_no_text_say_which_line_and_why(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"text": "a"}\n{"text": \n[1]\n{"body": "b", "id": 1}\n{"text": 5}\n'
    )
    good, *bad = read(tmp_path / "a.jsonl")
    assert good == b"a"
    assert bad == [
        Broken("line 2 of a.jsonl is not JSON"),
        Broken("line 3 of a.jsonl has no 'text'"),
        Broken("line 4 of a.jsonl has no 'text'; it has: body, id"),
        Broken("line 5 of a.jsonl has a 'text' that is not text"),
    ]


def test_what_is_no_utf8_in_json_keeps_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "caf\xe9"}\n{"text": "\\ud800!"}\n')
    assert read(tmp_path / "a.jsonl") == [b"caf\xe9", b"\xed\xa0\x80!"]


def test_texts_are_files_or_what_blank_lines_part(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\n\none\ntwo\n \n\t\nthree\r\n\r\n")
    (tmp_path / "b.txt").write_bytes(b"four")
    members = ("a.txt", "b.txt")
    assert read(tmp_path, members=members) == [b"\n\none\ntwo\n \n\t\nthree\r\n\r\n", b"four"]
    assert read(tmp_path, members=members, split="blank-lines") == [b"one\ntwo", b"three", b"four"]
    assert read(tmp_path, start=2, members=members, split="blank-lines") == [b"four"]


def test_a_text_file_that_went_away_is_broken_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"here")
    found = read(tmp_path, members=("a.txt", "b.txt"))
    assert found == [Broken("a.txt cannot be read: No such file or directory"), b"here"]


def test_a_long_text_file_is_not_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONG_BYTES", 10)
    (tmp_path / "a.txt").write_bytes(b"eleven char")
    assert read(tmp_path, members=("a.txt",)) == [LongText(tmp_path / "a.txt")]


def test_a_long_paragraph_is_not_held_and_has_the_bytes_of_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"\n\nshort\r\n\r\n" + b"one line\nanother\r\n" * 3 + b" \nlast without blanks in it"
    (tmp_path / "a.txt").write_bytes(text)
    whole = read(tmp_path, members=("a.txt",), split="blank-lines")
    assert whole == [
        b"short",
        b"one line\nanother\r\n" * 2 + b"one line\nanother",
        b"last without blanks in it",
    ]
    monkeypatch.setattr(reading, "LONG_BYTES", 10)
    monkeypatch.setattr(reading, "_BUFFER_BYTES", 7)
    short, *long = read(tmp_path, members=("a.txt",), split="blank-lines")
    assert short == whole[0]
    assert all(isinstance(paragraph, LongText) for paragraph in long)
    assert [text[paragraph.start : paragraph.end] for paragraph in long] == whole[1:]
    assert [b"".join(pieces(paragraph)) for paragraph in long] == whole[1:]
    assert [digest_of(paragraph) for paragraph in long] == [digest_of(paragraph) for paragraph in whole[1:]]


def test_long_rows_of_a_parquet_file_come_few_at_a_time(tmp_path: Path) -> None:
    texts = [bytes([65 + number]) * 2**20 for number in range(20)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False)
    found = list(blocks(tmp_path / "a.parquet", Input(name="a.parquet", bytes=1), plan()))
    assert max(len(block.texts) for block in found) <= 8
    assert [t for block in found for t in block.texts] == texts


def test_scores_that_are_no_numbers_are_reported(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "score": ["high"]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="column 'score' holds string, not numbers"):
        read(tmp_path / "a.parquet", min_score=3.0)
    assert read(tmp_path / "a.parquet") == [b"a"]


def test_a_byte_order_mark_before_json_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines({"text": "a"}))
    assert read(tmp_path / "a.jsonl") == [b"a"]
