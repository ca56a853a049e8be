from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanodyno.records.ceilings import device_of, recall_ceilings, remember_ceilings

Builder = Callable[..., Any]


def test_what_is_remembered_is_recalled_whole(ceilings: Builder, machine: Builder, tmp_path: Path) -> None:
    cache = tmp_path / "new folder" / "ceilings.json"
    remember_ceilings(ceilings(), cache)
    assert recall_ceilings(machine(), cache) == ceilings()


@pytest.mark.parametrize(
    "change",
    [
        {"driver": "581.00"},
        {"driver": None},
        {"device_name": "NVIDIA GeForce RTX 4070 Ti"},
        {"multiprocessors": 40},
        {"device_memory_bytes": 2**33},
    ],
)
def test_another_gpu_or_driver_has_none(
    ceilings: Builder, machine: Builder, tmp_path: Path, change: dict[str, Any]
) -> None:
    cache = tmp_path / "ceilings.json"
    remember_ceilings(ceilings(), cache)
    assert recall_ceilings(machine(**change), cache) is None


def test_on_a_cpu_other_threads_have_none_and_on_a_gpu_they_do_not_matter(
    ceilings: Builder, machine: Builder, tmp_path: Path
) -> None:
    cache = tmp_path / "ceilings.json"
    remember_ceilings(ceilings(), cache)
    remember_ceilings(replace(ceilings(), device=device_of(machine(device_type="cpu"))), cache)
    assert recall_ceilings(machine(device_type="cpu"), cache) is not None
    assert recall_ceilings(machine(device_type="cpu", cpu_threads=3), cache) is None
    assert recall_ceilings(machine(cpu_threads=3), cache) == ceilings()


def test_the_latest_of_a_gpu_takes_the_place_of_the_one_before(
    ceilings: Builder, machine: Builder, tmp_path: Path
) -> None:
    cache = tmp_path / "ceilings.json"
    remember_ceilings(ceilings(), cache)
    remember_ceilings(replace(ceilings(), measured_at=9.0), cache)
    found = recall_ceilings(machine(), cache)
    assert found is not None
    assert found.measured_at == 9.0
    assert cache.read_text().count("measured_at") == 1


@pytest.mark.parametrize("text", ["", "{", "[3]", '[{"device": {"name": "x"}}]', "[]"])
def test_a_damaged_cache_is_as_good_as_none_and_is_replaced(
    ceilings: Builder, machine: Builder, tmp_path: Path, text: str
) -> None:
    cache = tmp_path / "ceilings.json"
    cache.write_text(text)
    assert recall_ceilings(machine(), cache) is None
    remember_ceilings(ceilings(), cache)
    assert recall_ceilings(machine(), cache) == ceilings()


def test_who_cannot_write_the_cache_is_reported_why_and_goes_on(ceilings: Builder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reported = remember_ceilings(ceilings(), tmp_path / "file" / "ceilings.json")
    assert reported is not None
    assert reported.startswith(f"{tmp_path / 'file' / 'ceilings.json'}: ")
    assert remember_ceilings(ceilings(), tmp_path / "ceilings.json") is None
    assert (tmp_path / "file").read_text() == ""
