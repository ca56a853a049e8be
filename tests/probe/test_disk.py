import os
from pathlib import Path

import pytest

from nanodyno.probe.disk import try_disk


def test_a_folder_is_written_flushed_and_read_and_left_as_it_was(tmp_path: Path) -> None:
    found = try_disk(tmp_path, most_bytes=3 * 2**20)
    assert found.bytes == 3 * 2**20
    assert found.write_seconds is not None
    assert found.write_seconds > 0
    assert found.free_bytes is not None
    assert found.fault is None
    assert list(tmp_path.iterdir()) == []


def test_the_flush_is_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    try_disk(tmp_path, most_bytes=2**16)
    assert len(flushed) == 1


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    found = try_disk(tmp_path / "nowhere")
    assert found.fault == "No such file or directory"
    assert (found.free_bytes, found.bytes) == (None, None)


def test_a_disk_that_is_full_is_reported_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    found = try_disk(tmp_path, most_bytes=2**16)
    assert found.fault == "No space left on device"
    assert found.free_bytes is not None
    assert list(tmp_path.iterdir()) == []
