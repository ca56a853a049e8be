import json
from collections.abc import Callable
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
