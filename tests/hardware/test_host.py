from pathlib import Path

import psutil

from nanodyno.hardware.host import available_memory


def test_without_a_container_the_systems_own_word_counts(tmp_path: Path) -> None:
    assert 0 < available_memory(tmp_path / "none") <= psutil.virtual_memory().total


def test_a_container_has_no_more_than_its_limit(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1048576\n")
    assert available_memory(limit) == 2**20


def test_a_container_without_a_limit_has_what_the_system_has(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert available_memory(limit) > 2**20
