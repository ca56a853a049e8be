"""How the machine stood, with numbers that were worked out by hand. A sample is two seconds of two cores."""

from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.machine_state import MachineState, machine_findings, machine_state
from nanodyno.records.store import Run
from nanodyno.records.types import StepRecord, TelemetryRecord

Sample = Callable[..., TelemetryRecord]


def known(samples: list[TelemetryRecord], on_gpu: bool = False) -> MachineState:
    found = machine_state(samples, on_gpu)
    assert found is not None
    return found


def test_without_samples_nothing_is_known() -> None:
    assert machine_state([], on_gpu=False) is None


def test_an_idle_machine_is_not_busy(sample: Sample) -> None:
    state = known([sample(1), sample(2)])
    assert state.others_cpu_share == pytest.approx(0.1 / 4)
    assert state.own_cpu_share == 0.5
    assert (state.is_busy, state.cores, state.samples, state.seconds) == (False, 2, 2, 4.0)
    assert list(machine_findings("a", state)) == []


def test_a_program_on_one_of_two_cores_for_half_of_the_run_is_a_quarter(sample: Sample) -> None:
    calm = sample(1, busy_core_seconds=2.0)
    beside = sample(2, busy_core_seconds=4.0)
    state = known([calm, calm, beside, beside])
    assert (state.others_cpu_share, state.is_busy) == (0.25, True)


def test_a_load_counts_by_how_long_it_lasted(sample: Sample) -> None:
    beside = sample(1, seconds=1.0, busy_core_seconds=2.0, own_core_seconds=1.0)
    calm = sample(2, seconds=9.0, busy_core_seconds=9.0, own_core_seconds=9.0)
    state = known([beside, calm])
    assert state.others_cpu_share == pytest.approx(0.05)
    assert not state.is_busy


def test_who_gets_half_of_all_cores_is_seen_though_all_are_busy(sample: Sample) -> None:
    state = known([sample(1, busy_core_seconds=4.0, own_core_seconds=2.0)])
    (finding,) = machine_findings("a", state)
    assert (finding.code, finding.severity, finding.runs) == ("machine-busy", "caution", ("a",))
    assert finding.numbers["others_cpu_share"] == 0.5


def test_counters_that_disagree_by_a_tick_are_nobody(sample: Sample) -> None:
    assert known([sample(1, busy_core_seconds=1.99)]).others_cpu_share == 0.0


def test_cores_that_a_container_may_not_use_are_no_loss_to_it(sample: Sample) -> None:
    """Of 8 cores it may use 2: others may have 6, and with 7 they take one of its two."""
    beside = {"cores": 8, "quota_cores": 2.0, "own_core_seconds": 2.0}
    roomy, tight = sample(1, busy_core_seconds=14.0, **beside), sample(1, busy_core_seconds=16.0, **beside)
    assert (known([roomy]).others_cpu_share, known([roomy]).is_busy) == (0.0, False)
    assert (known([tight]).others_cpu_share, known([tight]).is_busy) == (0.5, True)
    assert (known([tight]).cores, known([tight]).own_cpu_share) == (2.0, 0.5)


@pytest.mark.parametrize(
    ("changes", "busy"),
    [
        ({"busy_core_seconds": 3.0}, False),
        ({"waited_seconds": 0.2}, False),
        ({"busy_core_seconds": 3.0, "waited_seconds": 0.2}, True),
        ({"stolen_core_seconds": 0.3}, True),
        ({"stolen_core_seconds": 0.1}, False),
    ],
)
def test_on_a_gpu_others_matter_where_the_main_thread_waits_for_them(
    sample: Sample, changes: dict[str, Any], busy: bool
) -> None:
    assert known([sample(1, **changes)], on_gpu=True).is_busy == busy


def test_an_unknown_number_of_others_is_not_zero(sample: Sample) -> None:
    state = known([sample(1, busy_core_seconds=None)])
    assert (state.others_cpu_share, state.is_busy) == (None, False)


@pytest.mark.parametrize(
    ("mask", "shares", "throttled"),
    [
        (0x0, (0.0, 0.0, 0.0), False),
        (0x4, (0.0, 0.0, 0.25), False),
        (0x20, (0.25, 0.0, 0.0), True),
        (0x48, (0.25, 0.0, 0.0), True),
        (0x88, (0.0, 0.25, 0.0), True),
    ],
)
def test_a_power_limit_is_no_throttling_and_heat_is(
    sample: Sample, mask: int, shares: tuple[float, ...], throttled: bool
) -> None:
    free = sample(1, throttle_reasons=0, sm_mhz=1980)
    state = known([free, free, free, sample(2, throttle_reasons=mask, sm_mhz=1200)], on_gpu=True)
    assert (state.thermal_share, state.power_brake_share, state.power_limit_share) == shares
    assert state.is_throttled == throttled
    assert {each.code for each in machine_findings("a", state)} == ({"gpu-throttled"} if throttled else set())


def test_clocks_and_power_are_of_the_gpu_under_load(sample: Sample) -> None:
    idle = sample(1, throttle_reasons=0x1, sm_mhz=210, power_watts=60.0, temperature_celsius=40)
    loaded = sample(2, throttle_reasons=0x4, sm_mhz=1500, power_watts=690.0, temperature_celsius=71)
    state = known([idle, loaded], on_gpu=True)
    assert (state.sm_mhz, state.power_watts, state.power_limit_share) == (1500, 690.0, 1.0)
    assert (state.highest_sm_mhz, state.highest_celsius) == (1500, 71)


@pytest.mark.parametrize(
    ("others", "share", "shared"), [(0, 0.0, False), (1, 0.01, False), (1, 0.3, True), (1, None, True)]
)
def test_a_gpu_is_shared_with_those_that_compute(
    sample: Sample, others: int, share: float | None, shared: bool
) -> None:
    of_others = {"other_gpu_processes": others, "other_gpu_bytes": 2**30, "other_gpu_share": share}
    state = known([sample(1, **of_others)], on_gpu=True)
    assert state.gpu_shared == shared
    assert {each.code for each in machine_findings("a", state)} == ({"gpu-shared"} if shared else set())


def test_the_state_of_a_run_is_of_the_iterations_that_its_speed_is_of(
    run: Callable[..., Run], step: Callable[..., StepRecord], sample: Sample
) -> None:
    """From iteration 20 on it has another batch; the load came before, and while iteration 20 was made."""
    steps = [step(i, tokens=1000 if i < 20 else 2000) for i in range(40)]
    loaded, calm = sample(10, busy_core_seconds=4.0), sample(30, busy_core_seconds=2.0)
    state = account_of(run(steps, telemetry=[loaded, sample(20, busy_core_seconds=4.0), calm])).machine_state
    assert state is not None
    assert (state.others_cpu_share, state.samples) == (0.0, 1)


def test_a_run_of_before_has_no_state(run: Callable[..., Run], step: Callable[..., StepRecord]) -> None:
    assert account_of(run([step(i) for i in range(20)])).machine_state is None
