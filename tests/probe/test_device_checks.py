"""Real children; and what they would try, tried here."""

import pytest
import torch

from nanodyno.errors import NanodynoError
from nanodyno.probe import checkup
from nanodyno.probe.checkup import DeviceRequest, check_device
from nanodyno.probe.device_checks import try_compile
from nanodyno.probe.process import Failure
from nanodyno.records.checkup import CompileRecord, DeviceRecord

CPU = torch.device("cpu")


def test_a_child_tells_what_the_device_is_and_what_runs_on_it() -> None:
    reported: list[str] = []
    request = DeviceRequest(device="cpu")
    device = check_device("device", request, DeviceRecord, lambda _, words: words and reported.append(words))
    assert isinstance(device, DeviceRecord)
    assert reported == ["torch and the device"]
    assert device.machine.device_type == "cpu"
    assert device.torch == torch.__version__
    assert device.attention_seconds.keys() == {"torch", "math"}
    assert (device.dtype, device.fp8) == ("float32", False)


def test_a_device_that_is_not_here_is_the_users_mistake() -> None:
    missing = f"cuda:{torch.cuda.device_count() + 7}"
    with pytest.raises(NanodynoError, match=rf"device={missing}, but"):
        check_device("device", DeviceRequest(device=missing), DeviceRecord)


def test_a_check_that_takes_too_long_is_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checkup.LIMIT_SECONDS, "compiler", 0.1)
    failure = check_device("compiler", DeviceRequest(device="cpu"), CompileRecord)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.words) == ("hung", "not done after 0.1 s, still starting")


def test_a_compiler_that_fails_is_reported_by_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("torch wraps it") from OSError("no C++ compiler was found\nand more")

    monkeypatch.setattr(torch, "compile", fail)
    found = try_compile(CPU)
    assert (found.works, found.words) == (False, "no C++ compiler was found")


def test_a_compiler_that_computes_something_else_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda *_, **__: lambda x: (3 * x).sum())
    found = try_compile(CPU)
    assert (found.works, found.words) == (False, "what it compiled computes something else")


def test_a_compiler_that_computes_what_was_asked_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    assert try_compile(CPU).works
