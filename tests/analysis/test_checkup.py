"""From facts to findings: a machine in order with one thing wrong at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.analysis.checkup import can_train, ceiling_fraction, findings
from nanodyno.hardware.ceilings import Matmul, Timing
from nanodyno.hardware.inventory import GpuState, Inventory
from nanodyno.hardware.telemetry import Holder
from nanodyno.records.checkup import CheckupRecord, CompileRecord, DiskRecord

Builder = Callable[..., Any]
GIB = 2**30


def codes(found: CheckupRecord) -> list[str]:
    return [each.code for each in findings(found)]


def test_a_machine_in_order_has_nothing_to_fix(checkup: Builder) -> None:
    assert findings(checkup()) == ()
    assert can_train(findings(checkup()))


def test_without_a_torch_that_runs_training_is_impossible(checkup: Builder) -> None:
    found = checkup(device=None, device_fault="its process ended with exit code 1: libcudart", ceilings=None)
    (only,) = findings(found)
    assert (only.code, only.severity) == ("torch-broken", "impossible")
    assert not can_train((only,))


def test_on_a_machine_without_a_gpu_there_is_nothing_to_fix(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    cpu = device(machine(device_type="cpu"), visible=(), cuda=None, bfloat16=False, dtype="float32")
    reported = findings(checkup(device=cpu, inventory=Inventory(fault="not found"), ceilings=None))
    assert [(each.code, each.severity) for each in reported] == [("no-gpu", "note")]


@pytest.mark.parametrize(("cuda", "code"), [(None, "torch-for-cpu"), ("13.0", "gpu-not-seen")])
def test_a_gpu_that_torch_cannot_use_is_to_be_fixed(
    checkup: Builder, device: Builder, machine: Builder, cuda: str | None, code: str
) -> None:
    cpu = device(machine(device_type="cpu"), visible=(), cuda=cuda)
    assert codes(checkup(device=cpu, ceilings=None)) == [code]


def test_who_asks_about_the_cpu_beside_a_gpu_is_reported_nothing_of_the_gpu(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    assert codes(checkup(device=device(machine(device_type="cpu")), ceilings=None)) == []


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ("9.0", ("sm_80", "sm_90"), True),
        ("8.9", ("sm_80", "sm_86"), True),  # the same generation, older
        ("7.0", ("sm_75", "sm_80"), False),
        ("12.0", ("sm_90",), False),
        ("12.0", ("sm_90", "compute_90"), True),
        ("8.0", ("sm_86", "compute_90"), False),
        ("10.0", ("sm_100a",), True),
        ("9.0", (), True),
        ("9.0", ("gfx942",), True),
    ],
)
def test_a_torch_without_kernels_for_the_gpu_makes_training_impossible(
    checkup: Builder,
    device: Builder,
    machine: Builder,
    capability: str,
    built_for: tuple[str, ...],
    runs: bool,
) -> None:
    gpu = device(machine(compute_capability=capability), built_for=built_for)
    assert can_train(findings(checkup(device=gpu))) is runs


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"visible": ("NVIDIA H200", "NVIDIA L4")}, "different-gpus"),
        ({"bfloat16": False}, "no-bfloat16"),
        ({"no_triton": "Triton cannot be imported"}, "no-triton"),
        ({"attention_faults": {"cudnn-packed": "No module named 'cudnn'"}}, "no-cudnn-front-end"),
        ({"attention_seconds": {}}, "no-attention"),
    ],
)
def test_what_a_device_lacks_is_reported(
    checkup: Builder, device: Builder, changes: dict[str, Any], code: str
) -> None:
    assert codes(checkup(device=device(**changes))) == [code]


def test_on_rocm_the_fused_kernels_are_not_missed_and_the_untried_path_is_named(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    amd = device(
        machine(device_name="AMD Instinct MI300X VF", device_memory_bytes=192 * GIB, multiprocessors=304),
        rocm=True,
        cuda="7.0",
        built_for=("gfx942",),
        no_triton="Triton cannot be imported",
        attention_faults={"cudnn-packed": "No module named 'cudnn'"},
    )
    found = findings(checkup(device=amd, inventory=Inventory(fault="no NVML"), ceilings=None))
    assert {each.code: each.severity for each in found} == {"nvml-silent": "note", "rocm-untried": "note"}


def test_an_apple_gpu_trains_and_the_untried_path_is_named(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    mac = machine(device_type="mps", device_name="Apple M2 Max", device_memory_bytes=24 * GIB)
    apple = device(mac, visible=(), cuda=None, triton=None, dtype="float32", bfloat16=False)
    (only,) = findings(checkup(device=apple, inventory=Inventory(fault="no NVML"), ceilings=None))
    assert (only.code, only.severity, only.numbers) == ("mps-untried", "note", {"dtype": "float32"})


def test_two_gpus_of_one_kind_are_no_question(checkup: Builder, device: Builder) -> None:
    assert codes(checkup(device=device(visible=("NVIDIA H200", "NVIDIA H200")))) == []


def test_a_gpu_that_is_not_in_the_table_is_reported(
    checkup: Builder, device: Builder, machine: Builder
) -> None:
    assert codes(checkup(device=device(machine(device_name="NVIDIA RTX A1000")))) == ["unknown-gpu"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"free_bytes": GIB}, "gpu-full"),
        ({"holders": (Holder(1, "game", 9 * GIB),)}, "memory-held"),
        ({"reasons": 0x40, "temperature_celsius": 93}, "hot-gpu"),
        ({"lanes": 4, "most_lanes": 16}, "few-lanes"),
    ],
)
def test_what_the_driver_says_of_the_gpu_is_reported(
    checkup: Builder, state: dict[str, Any], code: str
) -> None:
    values = {"name": "NVIDIA H200", "uuid": "GPU-7c1f", "memory_bytes": 140 * GIB, "free_bytes": 9 * GIB}
    gpu = GpuState(0, **(values | state))
    assert codes(checkup(inventory=Inventory("580", (gpu,)))) == [code]


def test_another_gpu_in_the_machine_is_not_the_one_that_is_meant(checkup: Builder) -> None:
    other = GpuState(1, "NVIDIA L4", "GPU-other", 24 * GIB, 0, reasons=0x40)
    assert codes(checkup(inventory=Inventory("580", (other,)))) == []


def test_a_gpu_whose_library_is_silent_goes_on_and_says_so(checkup: Builder) -> None:
    reported = findings(checkup(inventory=Inventory(fault="Insufficient Permissions")))
    assert [(each.code, each.severity) for each in reported] == [("nvml-silent", "note")]


@pytest.mark.parametrize(
    ("disk", "code"),
    [
        (DiskRecord(folder="/x", fault="Permission denied"), "disk-refuses"),
        (DiskRecord(folder="/x", free_bytes=GIB), "little-disk"),
        (DiskRecord(folder="/x", free_bytes=90 * GIB, bytes=10**8, write_seconds=1.1), "slow-disk"),
    ],
)
def test_a_disk_that_will_not_do_is_reported(checkup: Builder, disk: DiskRecord, code: str) -> None:
    assert codes(checkup(disk=disk)) == [code]


@pytest.mark.parametrize(
    ("host", "code"), [({"available_bytes": GIB}, "little-memory"), ({"gpu_can_page": True}, "gpu-pages")]
)
def test_a_host_that_will_not_do_is_reported(checkup: Builder, host: dict[str, Any], code: str) -> None:
    assert codes(checkup(host=checkup().host.model_copy(update=host))) == [code]


def test_paging_is_no_matter_without_a_gpu(checkup: Builder, device: Builder, machine: Builder) -> None:
    host = checkup().host.model_copy(update={"gpu_can_page": True})
    cpu = device(machine(device_type="cpu"))
    assert codes(checkup(host=host, device=cpu, ceilings=None)) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"compiling": CompileRecord(works=False, seconds=2.0, words="no compiler")}, "compile-fails"),
        ({"ceilings": None, "ceilings_fault": "out of memory"}, "not-measured"),
        ({"kept": False}, "not-remembered"),
    ],
)
def test_what_went_wrong_in_measuring_is_reported(
    checkup: Builder, changes: dict[str, Any], code: str
) -> None:
    assert codes(checkup(**changes)) == [code]


def test_large_products_far_below_the_datasheet_are_reported(checkup: Builder, ceilings: Builder) -> None:
    assert ceiling_fraction(checkup()) == pytest.approx(791.2 / 989)
    slow = ceilings(large={"bfloat16": Matmul(1, 1, 1, Timing(989e9, (0.002,)))})
    (only,) = findings(checkup(ceilings=slow))
    assert (only.code, only.numbers) == ("low-ceiling", {"share": pytest.approx(0.5)})


def test_the_worst_comes_first(checkup: Builder, device: Builder, machine: Builder) -> None:
    gpu = device(
        machine(compute_capability="7.0"), bfloat16=False, no_triton="it is too old", dtype="float16"
    )
    assert codes(checkup(device=gpu)) == ["torch-not-for-gpu", "no-triton", "no-bfloat16"]
