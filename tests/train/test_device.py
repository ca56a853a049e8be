"""The choice of device and precision. CUDA's answers are set by hand: they are torch's, not ours."""

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError
from nanodyno.train import device
from nanodyno.train.device import Clock, DeviceChoice, choose

Configs = Callable[..., RunConfig]
CUDA = torch.device("cuda", 0)


@pytest.fixture
def turing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One card that has bfloat16 by emulation only."""
    answers = {
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_name": lambda _: "NVIDIA GeForce RTX 2080",
        "is_bf16_supported": lambda including_emulation=True: including_emulation,
        "device": lambda _: nullcontext(),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)


@pytest.fixture
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("_no_gpu")
@pytest.mark.parametrize("wanted", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_an_error_with_a_hint(config: Configs, wanted: str) -> None:
    with pytest.raises(NanodynoError, match=f"device={wanted}") as caught:
        choose(config(device=wanted))
    assert caught.value.exit_code == 2
    assert "--device=cpu" in (caught.value.hint or "")


@pytest.mark.usefixtures("_no_gpu")
def test_auto_without_a_gpu_is_float32_on_the_cpu(config: Configs) -> None:
    assert choose(config(device="auto", dtype="auto")) == DeviceChoice(torch.device("cpu"), "float32")


@pytest.mark.usefixtures("turing")
def test_bfloat16_on_a_gpu_without_it_becomes_float16_and_says_so(config: Configs) -> None:
    choice = choose(config(device="cuda", dtype="bfloat16"))
    assert (choice.device, choice.dtype) == (CUDA, "float16")
    (note,) = choice.notes
    assert "RTX 2080 has no bfloat16" in note
    assert "float16" in note


@pytest.mark.usefixtures("turing")
@pytest.mark.parametrize(("dtype", "expected"), [("auto", "float16"), ("float32", "float32")])
def test_what_the_gpu_can_do_needs_no_note(config: Configs, dtype: str, expected: Any) -> None:
    assert choose(config(device="auto", dtype=dtype)) == DeviceChoice(CUDA, expected)


@pytest.mark.usefixtures("turing")
def test_auto_takes_bfloat16_where_the_gpu_has_it(config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not including_emulation)
    assert choose(config(device="auto", dtype="auto")) == DeviceChoice(CUDA, "bfloat16")
    assert choose(config(device="cuda:0", dtype="bfloat16")) == DeviceChoice(CUDA, "bfloat16")


@pytest.mark.usefixtures("turing")
def test_a_gpu_beyond_those_there_are_is_an_error(config: Configs) -> None:
    with pytest.raises(NanodynoError, match="cuda:3"):
        choose(config(device="cuda:3"))


def test_the_clock_is_read_after_the_device_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[tuple[torch.device, float]] = []

    def synchronize(which: torch.device) -> None:
        finished.append((which, time.perf_counter()))

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    read = Clock(CUDA).seconds()
    ((which, moment),) = finished
    assert which == CUDA
    assert read >= moment


def test_the_clock_of_a_cpu_waits_for_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: pytest.fail("a CPU has no card to wait for"))
    clock = Clock(torch.device("cpu"))
    first = clock.seconds()
    assert clock.seconds() >= first


@pytest.mark.skipif(sys.platform == "win32", reason="the resource module is Unix's")
def test_on_a_cpu_only_the_host_memory_is_known() -> None:
    peak = device.peak_memory(torch.device("cpu"))
    assert (peak.allocated, peak.reserved) == (None, None)
    # A process with torch in it has between 50 MB and a terabyte: bytes, not kilobytes.
    assert peak.host is not None
    assert 50e6 < peak.host < 1e12


def test_a_cpu_is_described_by_its_name() -> None:
    machine = device.describe_machine(torch.device("cpu"))
    assert (machine.device_type, machine.device_name) == ("cpu", machine.cpu_name)
    assert machine.cpu_threads == torch.get_num_threads() == 1
    assert machine.device_memory_bytes is None


@pytest.mark.parametrize(("graph_bytes", "peak"), [(0, 90), (30, 90), (60, 100)])
def test_the_peak_is_that_of_a_graphs_replay_too(
    monkeypatch: pytest.MonkeyPatch, graph_bytes: int, peak: int
) -> None:
    """As torch has it: 40 bytes are there, at most 90 were, and 120 are held."""
    stats = {
        kind: {"all": {"current": current, "peak": most}, "small_pool": {"current": 1, "peak": 2}}
        for kind, current, most in (("allocated_bytes", 40, 90), ("reserved_bytes", 110, 120))
    }
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda _: stats)
    found = device.peak_memory(CUDA, graph_bytes)
    assert (found.allocated, found.reserved) == (peak, 120)
