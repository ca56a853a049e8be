import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.messages.language import ENGLISH
from nanodyno.probe import checkup as probe_checkup

Nanodyno = Callable[..., Any]
Builder = Callable[..., Any]


def test_a_quick_look_at_this_machine_is_one_document_on_stdout(nanodyno: Nanodyno) -> None:
    done = nanodyno("doctor", "--device=cpu", "--quick", "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["can_train"] is True
    assert document["checkup"]["device"]["machine"]["device_type"] == "cpu"
    assert document["checkup"]["compiling"] is None
    assert "torch and the device" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--again", "--quick"), "--quick"),
        (("--device=toaster",), "toaster"),
    ],
)
def test_what_cannot_be_meant_is_the_users_mistake(
    nanodyno: Nanodyno, arguments: tuple[str, ...], words: str
) -> None:
    done = nanodyno("doctor", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize("device", ["toaster", "cuda:-1", "cuda:9999"])
def test_a_wrong_device_is_refused_before_anything_is_done(nanodyno: Nanodyno, device: str) -> None:
    done = nanodyno("doctor", f"--device={device}")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("width", ["0", "-768", "999999999"])
def test_an_absurd_width_is_refused(nanodyno: Nanodyno, width: str) -> None:
    assert nanodyno("doctor", f"--width={width}").exit_code == 2


def test_a_machine_that_cannot_train_ends_with_1(
    nanodyno: Nanodyno, monkeypatch: pytest.MonkeyPatch, checkup: Builder
) -> None:
    broken = checkup(device=None, device_fault="libcudart.so was not found", ceilings=None, compiling=None)
    monkeypatch.setattr(probe_checkup, "check_up", lambda *_: broken)
    done = nanodyno("doctor")
    assert done.exit_code == 1
    assert "libcudart.so was not found" in done.stdout


def test_a_machine_with_something_to_fix_ends_with_0(
    nanodyno: Nanodyno, monkeypatch: pytest.MonkeyPatch, checkup: Builder
) -> None:
    hot = checkup(host=checkup().host.model_copy(update={"gpu_can_page": True}))
    monkeypatch.setattr(probe_checkup, "check_up", lambda *_: hot)
    done = nanodyno("doctor")
    assert done.exit_code == 0
    assert ENGLISH.say("doctor.section.to-fix") in done.stdout


def kept(monkeypatch: pytest.MonkeyPatch, checkup: Any) -> None:
    monkeypatch.setattr(probe_checkup, "check_up", lambda *_: checkup)


def test_ceilings_are_exported_without_what_is_private(
    nanodyno: Nanodyno, monkeypatch: pytest.MonkeyPatch, checkup: Builder
) -> None:
    kept(monkeypatch, checkup())
    path = Path("ceilings.json")
    assert nanodyno("doctor", "--export", str(path)).exit_code == 0
    text = path.read_text()
    assert json.loads(text)["ceilings"]["device"]["name"] == "NVIDIA H200"
    host = checkup().host
    private = (host.platform, "/runs", "GPU-7c1f", "7c1f", str(Path.cwd()), "1763230000")
    assert [each for each in private if each in text] == []
    again = nanodyno("doctor", "--export", str(path), "--json")  # over one of before
    assert (again.exit_code, json.loads(again.stdout)["can_train"]) == (0, True)
    assert str(path) in again.stderr


def test_what_is_no_file_of_ceilings_is_left_alone(
    nanodyno: Nanodyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is measured first."""
    monkeypatch.setattr(probe_checkup, "check_up", lambda *_: pytest.fail("it was measured"))
    Path("mine.json").write_text('{"format": "nanodyno-result"}')
    done = nanodyno("doctor", "--export", "mine.json")
    assert (done.exit_code, "mine.json" in done.stderr, "hint: " in done.stderr) == (2, True, True)
    assert Path("mine.json").read_text() == '{"format": "nanodyno-result"}'
    done = nanodyno("doctor", "--quick", "--export", "new.json")
    assert (done.exit_code, "--quick" in done.stderr, Path("new.json").exists()) == (2, True, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"ceilings": None},
        {"ceilings": None, "ceilings_fault": "out of memory"},
        {"kept": False},
        {"of": "cpu"},
    ],
)
def test_without_good_ceilings_of_a_gpu_nothing_is_exported(
    nanodyno: Nanodyno,
    monkeypatch: pytest.MonkeyPatch,
    checkup: Builder,
    ceilings: Builder,
    machine: Builder,
    changes: dict[str, Any],
) -> None:
    if changes.pop("of", None) == "cpu":
        changes = {"ceilings": ceilings(machine(device_type="cpu"))}
    kept(monkeypatch, checkup(**changes))
    done = nanodyno("doctor", "--export", "new.json")
    assert (done.exit_code, "hint: " in done.stderr, Path("new.json").exists()) == (2, True, False)
    assert changes.get("ceilings_fault", "") in done.stderr


def test_a_folder_that_is_not_there_is_the_users_mistake(
    nanodyno: Nanodyno, monkeypatch: pytest.MonkeyPatch, checkup: Builder
) -> None:
    kept(monkeypatch, checkup())
    done = nanodyno("doctor", "--export", "no/where.json")
    assert (done.exit_code, "no/where.json" in done.stderr) == (2, True)
