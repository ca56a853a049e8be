"""Files that others sent: ceilings of GPUs and results of runs, whole, damaged and of other kinds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.hardware.ceilings import Ceilings, Timing
from nanodyno.records.ceilings import ceilings_text, read_ceilings
from nanodyno.records.measured import read_measured

Make = Callable[..., Ceilings]
RESULT = {
    "format": "nanodyno-result", "version": 2, "name": "theirs", "program": "nanoGPT", "settings": {},
    "logged_iterations": 1, "logged_evaluations": 0, "summary": {}, "steps": [{"iteration": 0}], "evals": [],
}  # fmt: skip


@pytest.fixture
def sent(ceilings: Make) -> dict[str, Any]:
    return json.loads(ceilings_text(ceilings()))


def test_ceilings_go_out_and_come_back_with_the_day_and_no_hour(ceilings: Make, tmp_path: Path) -> None:
    """1,763,230,000 is in the afternoon of the day that begins at 1,763,164,800."""
    path = tmp_path / "ceilings.json"
    path.write_text(ceilings_text(ceilings()), encoding="utf-8")
    assert read_ceilings(path) == replace(ceilings(), measured_at=1_763_164_800.0)


def test_an_export_has_the_keys_of_the_format_and_no_more(sent: dict[str, Any]) -> None:
    assert list(sent) == ["format", "version", "ceilings"]
    assert (sent["format"], sent["version"]) == ("nanodyno-ceilings", 1)
    assert set(sent["ceilings"]) == {
        "device", "torch", "measured_at", "seconds", "large", "gpt_dtype", "gpt", "copy", "host_to_device",
        "launch", "micro_step", "disturbed",
    }  # fmt: skip
    assert set(sent["ceilings"]["device"]) == {"name", "memory_bytes", "multiprocessors", "driver"}


def changed(sent: dict[str, Any], **changes: Any) -> str:
    """Changes of the ceilings, or under `whole` of the file."""
    whole = changes.pop("whole", {})
    return json.dumps({**sent, "ceilings": {**sent["ceilings"], **changes}, **whole})


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"whole": {"version": 2}}, "newer nanodyno"),
        ({"whole": {"version": "one"}}, "version"),
        ({"whole": {"host": "mine"}}, "host"),
        ({"whole": {"ceilings": 3}}, "ceilings"),
        ({"path": "/home/me"}, "path"),
        ({"device": {"name": "NVIDIA H200", "serial": "1"}}, "serial"),
        ({"device": {}}, "device.name"),
        ({"copy": {"work": 1.0, "seconds": []}}, "copy"),
        ({"copy": {"work": 1.0, "seconds": [0.0]}}, "copy"),
        ({"copy": {"work": -1.0, "seconds": [1.0]}}, "copy"),
        ({"copy": {"work": "NaN", "seconds": [1.0]}}, "copy"),
        ({"copy": {"work": 1e300, "seconds": [1e-300]}}, "copy"),
        ({"micro_step": {"eager": {"work": 1.0, "seconds": ["Infinity"]}}}, "eager"),
        ({"gpt": {"768": {"fc": {"m": 1, "n": 1, "k": 1, "timing": {"work": 1, "seconds": []}}}}}, "768 fc"),
        ({"gpt": {"wide": {}}}, "gpt"),
        ({"seconds": 1 << 70}, "too large"),
    ],
)
def test_damaged_ceilings_are_refused_by_name(
    sent: dict[str, Any], tmp_path: Path, changes: dict[str, Any], reported: str
) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(changed(sent, **changes), encoding="utf-8")
    with pytest.raises(NanodynoError) as error:
        read_measured(path)
    assert "theirs.json" in error.value.message
    assert reported in error.value.message


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", b"[1]", b'{"format": "nanodyno-run"}', b"["])
def test_a_file_of_another_kind_is_refused_and_in_a_folder_passed_over(
    sent: dict[str, Any], tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(NanodynoError, match=r"other\.json"):
        read_measured(path)
    (tmp_path / "b.json").write_text(json.dumps(sent))
    (tmp_path / "c.txt").write_text(json.dumps(sent))
    found = read_measured(tmp_path)
    assert (len(found.ceilings), found.runs, found.damaged) == (1, (), ())


def test_a_folder_is_read_but_for_what_is_damaged(sent: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(sent)[:-40])
    (tmp_path / "b.json").write_text(json.dumps(sent))
    (tmp_path / "c.json").write_text(json.dumps(RESULT))
    (tmp_path / "d.json").mkdir()
    found = read_measured(tmp_path)
    assert [each.record.name for each in found.runs] == ["theirs"]
    assert len(found.ceilings) == 1
    assert [message.split()[0] for message in found.damaged] == ["a.json"]


def test_a_folder_without_any_is_an_error_that_says_why(sent: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NanodynoError):
        read_measured(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(sent)[:-40])
    with pytest.raises(NanodynoError, match=r"a\.json"):
        read_measured(tmp_path)


@pytest.mark.parametrize("name", ["nowhere.json", "x" * 300, "no/such/folder"])
def test_what_is_not_there_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(NanodynoError, match="cannot be read"):
        read_measured(tmp_path / name)


def test_what_no_terminal_should_see_is_written_out(ceilings: Make, tmp_path: Path) -> None:
    device = replace(ceilings().device, name="\x1b[31mGPU")
    path = tmp_path / "a.json"
    path.write_text(ceilings_text(ceilings(device=device, launch=Timing(1, (1.0,)))), encoding="utf-8")
    assert read_ceilings(path).device.name == "\\x1b[31mGPU"
