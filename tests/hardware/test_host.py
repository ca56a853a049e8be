from pathlib import Path

import psutil
import pytest

from nanodyno.hardware.host import available_memory, cpu_quota


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


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("150000 100000\n", 1.5),
        ("max 100000\n", None),
        ("0 0\n", None),
        ("100000 0\n", None),
        ("0 100000\n", None),
    ],
)
def test_a_container_may_have_a_part_of_the_cores(tmp_path: Path, text: str, cores: float | None) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cpu_quota(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("250000", 2.5), ("-1", None)])
def test_an_older_container_has_its_part_in_two_files(
    tmp_path: Path, quota: str, cores: float | None
) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert cpu_quota(tmp_path) == cores


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
