from typing import Any

from nanodyno.hardware.telemetry import GpuReading, Holder, HostReading
from nanodyno.probe.disturbance import REDONE, REFUSED, of_gpu, of_host, of_memory, to_redo
from nanodyno.records.probe import (
    Disturbance,
    DisturbanceCode,
    MemoryRecord,
    RepetitionRecord,
    SampleRecord,
)

OURS = Holder(process=10, name="python", bytes=2**30)
OTHER = Holder(process=20, name="game", bytes=3 * 2**30)


def codes(found: list[Disturbance]) -> list[str]:
    return [each.code for each in found]


def gpu(mask: int = 0, mhz: int = 1980, **changes: Any) -> GpuReading:
    return GpuReading(sm_mhz=mhz, temperature_celsius=60, reasons=mask, **changes)


def host(
    seconds: float, waited: float | None = 0.0, stolen: float | None = 0.0, swapped: int = 0
) -> HostReading:
    return HostReading(seconds, 2, waited, stolen, swapped)


def test_a_gpu_at_its_full_clock_is_undisturbed() -> None:
    assert of_gpu([gpu(), gpu()], [10]) == []


def test_heat_is_reported_with_its_share_of_the_readings() -> None:
    (found,) = of_gpu([gpu(), gpu(0x20), gpu(0x48), gpu()], [10])
    assert found == Disturbance(code="thermal", numbers={"share": 0.5, "celsius": 60})


def test_a_power_brake_is_not_taken_for_heat() -> None:
    assert codes(of_gpu([gpu(0x88)], [10])) == ["power-brake"]


def test_a_gpu_at_its_power_limit_is_reported_and_not_measured_again() -> None:
    assert codes(of_gpu([gpu(0x4)], [10])) == ["power-limit"]
    assert "power-limit" not in REDONE


def test_the_clock_of_an_idle_gpu_is_no_drop() -> None:
    assert of_gpu([gpu(0x1, mhz=345), gpu(mhz=1980)], [10]) == []


def test_a_clock_a_tenth_lower_under_load_is_reported() -> None:
    (found,) = of_gpu([gpu(mhz=1980), gpu(mhz=1700)], [10])
    assert found.numbers == {"from_mhz": 1980, "to_mhz": 1700}


def test_another_process_that_computes_on_the_gpu_is_named_and_refused() -> None:
    (found,) = of_gpu([gpu(holders=(OURS, OTHER), busy={20: 0.4}), gpu(holders=(OURS, OTHER))], [10])
    assert (found.code, found.who, found.numbers["share"]) == ("busy-neighbour", "game", 0.4)
    assert found.code in REFUSED


def test_another_process_that_only_holds_memory_is_reported() -> None:
    (found,) = of_gpu([gpu(holders=(OURS, OTHER))], [10])
    assert (found.code, found.numbers["bytes"]) == ("neighbour", 3 * 2**30)
    assert found.code not in REDONE


def test_a_resident_worker_of_ours_is_no_neighbour() -> None:
    assert of_gpu([gpu(holders=(OURS, OTHER))], [10, 20]) == []


def test_where_our_own_process_is_not_listed_nobody_is_accused() -> None:
    assert of_gpu([gpu(holders=(OTHER,), busy={20: 0.9})], [10]) == []


def test_a_driver_that_tells_nothing_is_no_disturbance() -> None:
    assert of_gpu([GpuReading()], [10]) == []


def test_a_core_that_others_had_a_tenth_of_the_time_is_contention() -> None:
    (found,) = of_host(host(0), host(10, waited=1.0))
    assert found == Disturbance(code="cpu-contention", numbers={"share": 0.1})


def test_stolen_time_is_of_all_cores() -> None:
    assert of_host(host(0), host(10, stolen=0.9)) == []
    assert codes(of_host(host(0), host(10, stolen=2.0))) == ["cpu-contention"]


def test_a_system_that_counts_no_waiting_is_undisturbed() -> None:
    assert of_host(host(0, None, None), host(10, None, None)) == []


def test_memory_that_went_to_disk_is_paging() -> None:
    assert codes(of_host(host(0), host(10, swapped=2**30))) == ["paging"]


def full(free: int) -> MemoryRecord:
    return MemoryRecord(device_memory_bytes=12 * 2**30, device_free_bytes=free)


EVEN = [SampleRecord(seconds=1, micro_steps=4, micro_step_seconds=(0.25, 0.25))]
UNEVEN = [SampleRecord(seconds=3, micro_steps=4, micro_step_seconds=(0.25, 2.0))]


def test_a_full_gpu_that_lends_memory_and_crawls_is_paging() -> None:
    assert codes(of_memory(full(0), EVEN, ceiling_fraction=0.02, can_page=True)) == ["paging"]


def test_a_full_gpu_with_leaps_between_micro_steps_is_paging() -> None:
    assert codes(of_memory(full(0), UNEVEN, ceiling_fraction=0.3, can_page=True)) == ["paging"]


def test_a_full_gpu_at_its_usual_speed_is_only_full() -> None:
    assert of_memory(full(0), EVEN, ceiling_fraction=0.4, can_page=True) == []


def test_a_slow_config_on_a_gpu_with_room_does_not_page() -> None:
    assert of_memory(full(2**30), UNEVEN, ceiling_fraction=0.01, can_page=True) == []


def test_where_gpus_run_out_instead_nothing_is_paged() -> None:
    assert of_memory(full(0), UNEVEN, ceiling_fraction=0.01, can_page=False) == []


def repetition(iterations: int, *found: DisturbanceCode) -> RepetitionRecord:
    samples = (SampleRecord(seconds=1, micro_steps=1),) * iterations
    disturbances = tuple(Disturbance(code=code) for code in found)
    return RepetitionRecord(process=0, round=0, samples=samples, disturbances=disturbances, wall_time=0.0)


def test_unsteady_times_are_measured_again_if_there_were_enough_to_become_steady() -> None:
    assert codes([*to_redo(repetition(16, "unsteady"))]) == ["unsteady"]
    assert to_redo(repetition(15, "unsteady")) == ()


def test_heat_is_a_reason_to_measure_again_however_few_iterations_there_were() -> None:
    assert codes([*to_redo(repetition(1, "thermal", "bursts", "neighbour"))]) == ["thermal"]
