"""Real children; and what they would try, tried here."""

import pytest
import torch

from nanodyno.errors import NanodynoError
from nanodyno.probe import errand
from nanodyno.probe.errand import Errand, Found, NotFound, run_errand
from nanodyno.probe.examine import try_compile
from nanodyno.records.checkup import CompileRecord, DeviceRecord

CPU = torch.device("cpu")


def test_a_child_tells_what_the_device_is_and_what_runs_on_it() -> None:
    found = run_errand(Errand(task="device", device="cpu"), DeviceRecord, 120)
    assert isinstance(found, Found)
    device = found.value
    assert device.machine.device_type == "cpu"
    assert device.torch == torch.__version__
    assert device.attention_seconds.keys() == {"torch", "math"}
    assert (device.dtype, device.fp8) == ("float32", False)


def test_a_device_that_is_not_here_is_the_users_mistake() -> None:
    missing = f"cuda:{torch.cuda.device_count() + 7}"
    with pytest.raises(NanodynoError, match=rf"device={missing}, but"):
        run_errand(Errand(task="device", device=missing), DeviceRecord, 120)


def test_a_child_that_takes_too_long_is_ended() -> None:
    pids: list[int] = []
    found = run_errand(Errand(task="compile", device="cpu"), CompileRecord, 0.1, tick=pids.append)
    assert found == NotFound("it was not done after 0 s")
    assert not _is_there(pids[0])


def test_a_child_that_cannot_even_start_leaves_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errand, "MODULE", "nanodyno.no_such_module")
    found = run_errand(Errand(task="device"), DeviceRecord, 60)
    assert isinstance(found, NotFound)
    assert found.words.startswith("its process ended with exit code 1: ")
    assert "No module named nanodyno.no_such_module" in found.words


def test_a_compiler_that_fails_is_told_by_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
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


def _is_there(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)
