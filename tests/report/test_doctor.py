import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from tests.plan_words import says

from nanodyno.analysis.checkup import findings
from nanodyno.analysis.findings import Finding
from nanodyno.config import RunConfig
from nanodyno.hardware.inventory import GpuState, Inventory
from nanodyno.hardware.telemetry import Holder
from nanodyno.messages.findings import fix, words
from nanodyno.messages.language import ENGLISH
from nanodyno.records.checkup import CheckupRecord
from nanodyno.records.probe import Disturbance
from nanodyno.report.disturbances import disturbance_words
from nanodyno.report.doctor import doctor_document, doctor_page
from nanodyno.report.document import to_json

Builder = Callable[..., Any]
GIB = 2**30


def page(found: CheckupRecord, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(doctor_page(found))
    return console.file.getvalue()  # type: ignore[attr-defined]


def unwrapped(found: CheckupRecord) -> str:
    return re.sub(r"\s+", " ", page(found))


def test_the_numbers_of_a_finding_are_in_its_words(checkup: Builder) -> None:
    assert "1.00 GiB" in words(Finding("little-disk", "fix", numbers={"bytes": GIB}))
    assert "50.0%" in words(Finding("low-ceiling", "fix", numbers={"share": 0.5}))
    assert "91.0 MB/s" in words(Finding("slow-disk", "fix", numbers={"rate": 9.1e7}))
    assert "93" in words(Finding("hot-gpu", "fix", numbers={"celsius": 93}))
    assert findings(checkup()) == ()


def test_a_gpu_is_reported_with_its_datasheet_and_what_it_was_measured_to_reach(checkup: Builder) -> None:
    reported = unwrapped(checkup())
    say = ENGLISH.say
    assert f"NVIDIA H200, {ENGLISH.say_plural('doctor.device.multiprocessors', 132)}, " in reported
    assert says(reported, "doctor.device.compute-capability", number="9.0")
    assert says(reported, "doctor.device.driver", number="580.159")
    assert says(reported, "doctor.device.power-limit", watts="700")
    rates = "989.0 TFLOP/s in bfloat16, 67.0 TFLOP/s in float32"
    datasheet = {"rates": rates, "bandwidth": "4.80 TB/s", "watts": "700", "source": "NVIDIA H200 datasheet"}
    assert says(reported, "doctor.datasheet.summary", **datasheet)
    matmul = say("doctor.ceilings.large-matmul", size="8192", dtype="bfloat16")
    assert f"{matmul} 791.2 TFLOP/s <0.1% 80.0%" in reported
    assert f"{say('doctor.ceilings.memory-copy')} 4.20 TB/s <0.1% 87.5%" in reported
    assert f"{say('doctor.ceilings.layer-launches')} 14.0 ms" in reported
    assert f"{say('doctor.ceilings.layer-launches-graph')} 400.0 us" in reported
    assert says(reported, "doctor.precision.in-hardware", dtypes="bfloat16, float16, fp8")
    assert says(reported, "doctor.precision.training", dtype="bfloat16")
    times = {"times": "cudnn-packed 0.20 ms, flash 0.30 ms", "shape": "8 x 12 x 1024 x 64"}
    assert says(reported, "doctor.attention.times", **times)
    assert says(reported, "doctor.unsupported", names="fa3")
    assert "cuDNN 9.19.0" in reported
    assert f"139.00 GiB free; {say('doctor.memory.no-holders')}" in reported
    assert f"{say('doctor.row.paging')} {say('doctor.paging.impossible')}" in reported
    assert say("doctor.section.nothing-to-fix") in reported


def test_a_cache_that_cannot_be_written_is_to_be_fixed(checkup: Builder) -> None:
    reported = unwrapped(checkup(cache_fault="/cache/ceilings.json: Permission denied"))
    fault = {"words": "/cache/ceilings.json: Permission denied"}
    assert f"1. {words(Finding('cache-refuses', 'fix', numbers=fault))}" in reported
    assert "XDG_CACHE_HOME" in reported


def test_who_holds_the_gpus_memory_is_named(checkup: Builder) -> None:
    holders = (Holder(20, "game", 9 * GIB), Holder(21))
    gpu = GpuState(0, "NVIDIA H200", "GPU-7c1f", 140 * GIB, 100 * GIB, holders=holders)
    reported = unwrapped(checkup(inventory=Inventory("580", (gpu,))))
    assert says(reported, "doctor.memory.held-by", holders="game (20) with 9.00 GiB, a process (21)")
    held = Finding("memory-held", "fix", numbers={"bytes": 9 * GIB})
    assert f"{ENGLISH.say('doctor.section.to-fix')} 1. {words(held)} {fix(held)}" in reported


def test_a_machine_without_torch_is_reported_with_how_to_fix_it(checkup: Builder) -> None:
    reported = unwrapped(checkup(device=None, device_fault="exit code 1", compiling=None, ceilings=None))
    broken = Finding("torch-broken", "impossible", numbers={"words": "exit code 1"})
    stops = ENGLISH.say("doctor.finding.training-impossible", what=words(broken))
    assert f"1. {stops} {fix(broken)}" in reported
    assert "ceilings" not in reported


def test_ceilings_that_were_remembered_or_disturbed_say_so(checkup: Builder) -> None:
    reported = unwrapped(checkup(remembered=True))
    places = {"when": "2025-11-15 18:06 UTC", "torch": "2.13", "seconds": "19.0 s"}
    assert says(reported, "doctor.ceilings.title-remembered", **places)
    hot = Disturbance(code="thermal", numbers={"share": 0.5, "celsius": 93})
    disturbed = unwrapped(checkup(disturbances=(hot,)))
    assert says(disturbed, "doctor.ceilings.disturbed", cause=disturbance_words(hot, ENGLISH))


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_longer_than_the_window(checkup: Builder, width: int) -> None:
    found = checkup(compiling=None, disk=checkup().disk.model_copy(update={"free_bytes": GIB}))
    assert max(map(len, page(found, width).splitlines())) <= width


def test_the_document_has_raw_facts_rates_and_findings(checkup: Builder) -> None:
    found = checkup(disk=checkup().disk.model_copy(update={"free_bytes": GIB}))
    document = json.loads(to_json(doctor_document(found)))
    assert document["can_train"] is True
    assert document["gpu"]["label"] == "H200"
    assert document["gpu"]["source"] == "NVIDIA H200 datasheet"
    assert document["ceilings"]["matmul_flops_per_second"] == {"bfloat16": pytest.approx(791.2e12)}
    assert document["ceilings"]["launch_seconds"] == pytest.approx(2e-6)
    (finding,) = document["findings"]
    assert (finding["code"], finding["severity"]) == ("little-disk", "fix")
    assert finding["how"] == ENGLISH.say("finding.little-disk.fix")
    assert CheckupRecord.model_validate(document["checkup"]) == found


def test_an_unknown_gpu_has_neither_a_row_nor_a_column_of_the_datasheet(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    found = checkup(device=device(machine(device_name="NVIDIA RTX A1000")))
    reported = unwrapped(found)
    assert says(reported, "doctor.datasheet.not-in-table")
    assert not says(reported, "doctor.ceilings.share-of-datasheet")
    assert json.loads(to_json(doctor_document(found)))["gpu"] is None


def test_without_a_compiler_everything_that_is_compiled_is_named_as_slower() -> None:
    """As the setting says it, and as both engines do it."""
    hint = ENGLISH.say("finding.compile-fails.fix")
    for compiled in ("kernels=autograd", "optimizers on a GPU"):
        assert compiled in str(RunConfig.model_fields["compile"].description)
        assert compiled in str(hint)


def test_rocm_and_its_gpu_are_called_by_their_names(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    amd = machine(
        device_name="AMD Radeon RX 7900 XTX", device_memory_bytes=24 * GIB, multiprocessors=48, driver=None
    )
    reported = unwrapped(checkup(device=device(amd, rocm=True, cuda="7.0"), ceilings=None))
    assert "ROCm 7.0" in reported
    assert "CUDA" not in reported
    assert "cuDNN" not in reported
    assert "122.8 TFLOP/s" in reported


def test_an_apple_gpu_is_reported_with_its_memory_and_datasheet(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    mac = machine(
        device_type="mps", device_name="Apple M2 Max", device_memory_bytes=24 * GIB, multiprocessors=None
    )
    apple = device(mac, visible=(), cuda=None, cudnn=None, triton=None, dtype="float32", bfloat16=False)
    reported = unwrapped(checkup(device=apple, inventory=Inventory(), ceilings=None))
    assert "Apple M2 Max" in reported
    assert "24.00 GiB" in reported
    assert "13.6 TFLOP/s in float32" in reported
    assert ENGLISH.say("doctor.torch.cpu-build") not in reported
