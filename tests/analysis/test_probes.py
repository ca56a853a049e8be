# pyright: reportOptionalMemberAccess=false
from typing import Any

import pytest

from nanodyno.analysis.budget import Budget
from nanodyno.analysis.probes import (
    iteration_seconds,
    reading_of,
    repetition_speed,
    repetitions_of,
    summarise_probe,
    time_shares,
)
from nanodyno.config import build_config
from nanodyno.records.probe import (
    BreakdownRecord,
    Failed,
    Measured,
    MemoryRecord,
    RepetitionRecord,
    SampleRecord,
    SetupRecord,
)
from nanodyno.records.types import ArithmeticRecord, MachineRecord, VersionsRecord

CONFIG = build_config({"batch_size": 8, "gradient_accumulation_steps": 64})


def build_sample(seconds: float = 0.1, **changes: Any) -> SampleRecord:
    return SampleRecord(**({"seconds": seconds, "micro_steps": 64} | changes))


def build_setup(gpu: str | None = "NVIDIA H200", matmul: float | None = 800e12) -> SetupRecord:
    return SetupRecord(
        machine=MachineRecord(
            device_type="cuda" if gpu else "cpu",
            device_name=gpu or "some CPU",
            cpu_name="some CPU",
            cpu_count=8,
            cpu_threads=8,
            platform="Linux",
        ),
        arithmetic=ArithmeticRecord(device="cuda:0", dtype="bfloat16", compiled=True),
        versions=VersionsRecord(nanodyno="0", python="3.11", torch="2.13"),
        vocab_size=50304,
        data_vocab_size=50257,
        dataset=None,
        matmul_flops_per_second=matmul,
        start_seconds=10.0,
    )


def build_measured(*seconds: float, setup: SetupRecord | None = None, config: Any = CONFIG) -> Measured:
    """A process a figure, each of 20 iterations that all took just so long."""
    repetitions = tuple(
        RepetitionRecord(
            process=number,
            round=number,
            samples=(build_sample(each, micro_steps=config.gradient_accumulation_steps),) * 20,
            wall_time=0.0,
        )
        for number, each in enumerate(seconds)
    )
    return Measured(
        config=config, setup=setup or build_setup(), repetitions=repetitions, memory=MemoryRecord()
    )


def test_an_iteration_that_was_measured_whole_is_what_the_clock_said() -> None:
    assert iteration_seconds(build_sample(1.5), 64) == 1.5


def test_micro_steps_left_out_are_added_at_the_pace_of_those_between() -> None:
    """4 of 64 micro-steps and the update took 0.1 s, the two between 20 and 22 ms: 60 more are 1.26 s."""
    sample = build_sample(0.1, micro_steps=4, micro_step_seconds=(0.020, 0.022))
    assert iteration_seconds(sample, 64) == pytest.approx(0.1 + 60 * 0.021)


def test_without_marks_the_whole_is_scaled() -> None:
    assert iteration_seconds(build_sample(0.1, micro_steps=2), 64) == pytest.approx(3.2)


def test_repetitions_are_compared_by_the_time_of_a_token() -> None:
    half = build_config({"batch_size": 8, "gradient_accumulation_steps": 32})
    results = {"a": build_measured(1.0), "b": build_measured(0.5, config=half)}
    a, b = repetitions_of(results)
    assert a.seconds == pytest.approx(1 / 524_288)
    assert a.seconds == pytest.approx(b.seconds)


def test_what_failed_has_no_repetitions() -> None:
    assert repetitions_of({"a": Failed(config=CONFIG, reason="hung", stage="measuring", words="")}) == []


def test_a_single_process_has_a_rate_without_bounds() -> None:
    summary = summarise_probe(build_measured(1.0))
    assert summary.tokens_per_second.value == pytest.approx(524_288)
    assert (summary.tokens_per_second.low, summary.processes) == (None, 1)


def test_the_rate_lies_within_its_bounds_in_the_right_order() -> None:
    rate = summarise_probe(build_measured(1.0, 1.02, 0.98, 1.01)).tokens_per_second
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < rate.value < rate.high


def test_a_round_that_was_set_aside_has_no_part_in_the_rate() -> None:
    summary = summarise_probe(build_measured(1.0, 1.0, 9.0), left_out={2})
    assert summary.tokens_per_second.value == pytest.approx(524_288)
    assert summary.processes == 2


def test_the_share_of_the_ceiling_is_work_over_what_matrix_products_reached() -> None:
    """6 x (12 x 12 x 768^2 + 50257 x 768) + 6 x 12 x 768 x 1025 = 797,870,592 FLOP a token."""
    speed = repetition_speed(build_measured(1.0).repetitions[0], CONFIG, build_setup())
    assert speed.ceiling_fraction.value == pytest.approx(797_870_592 * 524_288 / 800e12)


def test_the_datasheet_of_a_known_gpu_is_the_other_peak() -> None:
    summary = summarise_probe(build_measured(1.0))
    assert summary.speed.reference.gpu_name == "H200"
    reached = summary.achieved_flops_per_second.value
    assert summary.speed.mfu.value == pytest.approx(reached / 989e12, rel=1e-2)


def test_a_cpu_has_its_measured_ceiling_alone() -> None:
    summary = summarise_probe(build_measured(1.0, setup=build_setup(gpu=None)))
    assert (summary.speed.reference.gpu_name, summary.speed.mfu) == (None, None)
    assert summary.speed.ceiling_fraction is not None


def test_a_measurement_cut_short_between_looks_is_read_all_the_same() -> None:
    results = {"a": build_measured(1.0, 1.01, 0.99), "b": build_measured(1.2, 1.21, 1.19)}
    (found,) = reading_of(results, Budget(), "a", 0.01).comparisons
    assert (found.config, found.reference, found.ratio.n) == ("b", "a", 3)
    assert found.ratio.value == pytest.approx(1.2, rel=1e-2)


def build_breakdown(**changes: Any) -> BreakdownRecord:
    values: dict[str, Any] = {
        "source": "kernels",
        "iterations": 1,
        "micro_steps": 10,
        "part_seconds": {"matmul": 0.3, "attention": 0.1},
        "profiled_seconds": 1.2,
        "wall_seconds": 1.0,
        "data_seconds": 0.05,
        "kernels": 5000,
        "launches": 10,
    }
    return BreakdownRecord(**(values | changes))


def test_what_kernels_leave_of_the_unwatched_time_is_waiting_and_idle() -> None:
    shares = time_shares(build_breakdown(), 10)
    assert shares.parts == pytest.approx({"matmul": 0.3, "attention": 0.1})
    assert (shares.data, shares.idle) == pytest.approx((0.05, 0.55))
    assert (shares.kernels_per_micro_step, shares.launches_per_micro_step) == (500, 1)


def test_operators_are_held_against_the_time_in_which_they_were_watched() -> None:
    shares = time_shares(build_breakdown(source="operators", launches=None), 10)
    assert shares.parts["matmul"] == pytest.approx(0.25)
    assert shares.idle == pytest.approx(1 - 0.4 / 1.2 - 0.05 / 1.2)


def test_waiting_for_data_while_the_gpu_is_busy_is_no_idle_time() -> None:
    shares = time_shares(build_breakdown(part_seconds={"matmul": 0.98}, data_seconds=0.5), 10)
    assert (shares.data, shares.idle) == pytest.approx((0.02, 0.0))


def test_shares_add_up_to_one_even_when_kernels_lasted_longer_than_the_clock_said() -> None:
    shares = time_shares(build_breakdown(part_seconds={"matmul": 1.1}), 10)
    assert sum(shares.parts.values()) + shares.data + shares.idle == pytest.approx(1.0)


def test_how_well_the_profile_adds_up_is_reported() -> None:
    assert time_shares(build_breakdown(), 10).adds_up == pytest.approx(1.2)


def test_the_micro_steps_left_out_are_like_those_profiled_and_the_optimizer_comes_once() -> None:
    """Of 1.0 s for 10 micro-steps, 0.1 is the update's: 40 take 3.6 + 0.1."""
    parts = {"matmul": 0.3, "attention": 0.1, "optimizer": 0.1}
    shares = time_shares(build_breakdown(part_seconds=parts), 40)
    assert shares.parts == pytest.approx(
        {"matmul": 1.2 / 3.7, "attention": 0.4 / 3.7, "optimizer": 0.1 / 3.7}
    )
    assert (shares.data, shares.idle) == pytest.approx((0.2 / 3.7, 1.8 / 3.7))


def test_several_iterations_profiled_have_as_many_updates() -> None:
    parts = {"matmul": 0.5, "optimizer": 0.5}
    shares = time_shares(build_breakdown(iterations=2, part_seconds=parts, data_seconds=0.0), 5)
    assert shares.parts["optimizer"] == pytest.approx(0.5)
