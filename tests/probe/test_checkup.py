"""What is asked of which child, and what is made of the answers. The children are made up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from nanodyno.hardware.telemetry import GpuReading
from nanodyno.probe import checkup
from nanodyno.probe.checkup import CheckupRequest, DeviceRequest, check_up
from nanodyno.probe.process import Failure, Watch
from nanodyno.records.ceilings import recall_ceilings, remember_ceilings
from nanodyno.records.checkup import CheckupRecord, CompileRecord
from nanodyno.records.types import MachineRecord

Builder = Callable[..., Any]


class Children:
    """Answers by task; a Failure where none is given."""

    def __init__(self, answers: dict[str, Any], reading: GpuReading | None = None) -> None:
        self.answers = answers
        self.asked: list[tuple[str, DeviceRequest]] = []
        self.pid = 4242
        self._reading = reading

    def __call__(self, name: str, request: DeviceRequest, kind: Any, watch: Watch, limit: float) -> Any:
        del kind
        assert limit > 0
        task = name.removeprefix("nanodyno.probe.device_checks:")
        self.asked.append((task, request))
        watch(cast(Any, self), None)
        answer = self.answers.get(task)
        return Failure(reason="died", words="it died") if answer is None else answer

    def tasks(self) -> list[str]:
        return [task for task, _ in self.asked]

    def gpu(self, *_: object) -> Any:
        return self if self._reading else None

    def read(self) -> GpuReading:
        assert self._reading is not None
        return self._reading


@pytest.fixture
def gpu(machine: Builder) -> MachineRecord:
    return machine()


@pytest.fixture
def look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: Builder, ceilings: Builder, gpu: MachineRecord
) -> Callable[..., tuple[CheckupRecord, Children]]:
    """Looks a machine over whose children answer as told, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def look(
        reading: GpuReading | None = None, without: str = "", **wanted: Any
    ) -> tuple[CheckupRecord, Children]:
        answers = {
            "device": device(gpu),
            "compiler": CompileRecord(works=True, seconds=1.0),
            "ceilings": ceilings(gpu),
        }
        answers.pop(without, None)
        children = Children(answers, reading)
        monkeypatch.setattr(checkup, "run_task", children)
        return check_up(CheckupRequest(**wanted), tmp_path, lambda _: None, children.gpu), children

    return look


Look = Callable[..., tuple[CheckupRecord, Children]]


def test_everything_is_asked_once_and_the_ceilings_are_remembered(
    look: Look, gpu: MachineRecord, ceilings: Builder
) -> None:
    found, children = look()
    assert children.tasks() == ["device", "compiler", "ceilings"]
    assert children.asked[-1][1].widths == (384, 768)
    assert (found.ceilings, found.remembered) == (ceilings(gpu), False)
    assert recall_ceilings(gpu) == ceilings(gpu)


def test_a_cache_that_cannot_be_written_is_reported(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found, _ = look()
    assert found.ceilings is not None
    assert found.cache_fault is not None
    assert "Not a directory" in found.cache_fault


def test_ceilings_that_are_remembered_are_not_measured_again(
    look: Look, gpu: MachineRecord, ceilings: Builder
) -> None:
    products = ceilings(gpu).gpt[768]
    remember_ceilings(ceilings(gpu, gpt={384: products, 768: products}))
    found, children = look()
    assert children.tasks() == ["device", "compiler"]
    assert found.remembered
    assert look(again=True)[1].tasks() == ["device", "compiler", "ceilings"]


def test_a_width_that_is_not_remembered_is_measured_with_those_that_are(
    look: Look, gpu: MachineRecord, ceilings: Builder
) -> None:
    products = ceilings(gpu).gpt[768]
    remember_ceilings(ceilings(gpu, gpt={384: products, 768: products, 2048: products}))
    _, children = look(width=1024)
    assert children.asked[-1][1].widths == (384, 768, 1024, 2048)


def test_a_quick_look_neither_compiles_nor_measures_and_shows_what_is_remembered(
    look: Look, gpu: MachineRecord, ceilings: Builder
) -> None:
    found, children = look(quick=True)
    assert children.tasks() == ["device"]
    assert (found.compiling, found.ceilings) == (None, None)
    remember_ceilings(ceilings(gpu))
    assert look(quick=True)[0].remembered


def test_without_a_torch_that_runs_nothing_more_is_asked(look: Look) -> None:
    found, children = look(without="device")
    assert children.tasks() == ["device"]
    assert found.device_fault == "it died"
    assert found.disk.free_bytes is not None


def test_a_compiler_whose_process_dies_does_not_work(look: Look) -> None:
    found, _ = look(without="compiler")
    assert found.compiling is not None
    assert (found.compiling.works, found.compiling.words) == (False, "it died")
    assert found.ceilings is not None


def test_ceilings_that_could_not_be_measured_are_reported(look: Look, gpu: MachineRecord) -> None:
    found, _ = look(without="ceilings")
    assert (found.ceilings, found.ceilings_fault) == (None, "it died")
    assert recall_ceilings(gpu) is None


def test_ceilings_of_a_gpu_that_throttles_for_heat_are_reported_and_not_remembered(
    look: Look, gpu: MachineRecord
) -> None:
    found, _ = look(GpuReading(sm_mhz=900, temperature_celsius=93, reasons=0x40))
    assert found.ceilings is not None
    assert found.ceilings.disturbed == ("thermal",)
    assert [each.code for each in found.disturbances] == ["thermal"]
    assert not found.kept
    assert recall_ceilings(gpu) is None


def test_a_gpu_at_its_power_limit_is_not_disturbed(look: Look, gpu: MachineRecord) -> None:
    found, _ = look(GpuReading(sm_mhz=1700, reasons=0x4))
    assert found.disturbances == ()
    assert recall_ceilings(gpu) is not None
