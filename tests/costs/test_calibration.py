from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.costs.calibration import MeasuredSpeed, Predicted, calibration_for, measured
from nanodyno.hardware.ceilings import Ceilings, Matmul, Timing
from nanodyno.hardware.gpus import gpu_named

Make = Callable[..., Ceilings]
H200_GPT, H200_COPY, H200_HOST, H200_STEP = 610.5e12, 4.177e12, 55.3e9, 12.19e-3
"""As doctor measures them there."""


def timed(rate: float) -> Timing:
    return Timing(rate, (1.0, 1.0, 1.0))


@pytest.fixture
def half(ceilings: Make) -> Ceilings:
    """Half an H200's products, a quarter of its bandwidth, a fifth of its link, a host a third as fast."""
    return ceilings(
        large={},
        gpt={768: {"fc forward": Matmul(1, 1, 1, timed(H200_GPT / 2))}},
        copy=timed(H200_COPY / 4),
        host_to_device=timed(H200_HOST / 5),
        micro_step={"eager": Timing(1, (3 * H200_STEP,))},
    )


@pytest.mark.parametrize("gpu", [gpu_named("RTX 4070"), None])
def test_a_gpu_is_what_doctor_measured_of_it_beside_an_h200(gpu: Any, half: Ceilings) -> None:
    own, reference = calibration_for(gpu, "bfloat16", half), measured()
    assert own.basis == "ceilings"
    assert own.matmul_flops_per_second == pytest.approx(H200_GPT / 2)
    share = 1 / 4 if gpu is None else (H200_COPY / 4) / (H200_COPY * 504 / 4800)
    before = reference if gpu is None else calibration_for(gpu)
    assert own.bandwidth_bytes_per_second == pytest.approx(before.bandwidth_bytes_per_second * share)
    assert own.host_bandwidth_bytes_per_second == pytest.approx(reference.host_bandwidth_bytes_per_second / 5)
    assert own.launch_seconds["compiled"] == pytest.approx(3 * reference.launch_seconds["compiled"])
    assert own.launch_seconds["eager"] == pytest.approx(3 * reference.launch_seconds["eager"])


def test_an_h200_keeps_the_rates_it_trained_at_and_takes_its_hosts_launches(half: Ceilings) -> None:
    own, reference = calibration_for(gpu_named("H200"), "bfloat16", half), measured()
    assert own.verified
    assert own.matmul_flops_per_second == reference.matmul_flops_per_second
    assert own.bandwidth_bytes_per_second == reference.bandwidth_bytes_per_second
    assert own.attention_softmax_share == reference.attention_softmax_share
    assert own.launch_seconds["eager"] == pytest.approx(3 * reference.launch_seconds["eager"])


def test_in_a_dtype_whose_gpt_was_not_measured_large_products_tell(ceilings: Make) -> None:
    large = {"float32": Matmul(1, 1, 1, timed(683e12 / 10))}
    own = calibration_for(gpu_named("RTX 4070"), "float32", ceilings(large=large))
    assert own.matmul_flops_per_second == pytest.approx(683e12 / 10)


def test_what_was_not_measured_stays_as_the_class_has_it(ceilings: Make) -> None:
    gpu = gpu_named("RTX 4070")
    nothing = ceilings(large={}, gpt={}, copy=None, host_to_device=None, micro_step={})
    by_class, own = calibration_for(gpu), calibration_for(gpu, "bfloat16", nothing)
    assert own.matmul_flops_per_second == by_class.matmul_flops_per_second
    assert own.bandwidth_bytes_per_second == by_class.bandwidth_bytes_per_second
    assert own.launch_seconds == by_class.launch_seconds


@pytest.mark.parametrize(
    ("gpu", "basis"),
    [
        ("H200", "training"), ("RTX 4070", "public"), ("RTX 5080", "class"), ("H200 NVL", "class"),
        ("GTX 1080 Ti", "datasheet"),
    ],
)  # fmt: skip
def test_a_prediction_rests_on_the_nearest_measurements_that_there_are(gpu: str, basis: str) -> None:
    assert calibration_for(gpu_named(gpu)).basis == basis
    measured_there = calibration_for(gpu_named(gpu), trained=MeasuredSpeed(1.2, 0.08))
    assert measured_there.basis == "measured"
    assert measured_there.speed_factor == 1.2


def test_the_less_is_known_of_a_gpu_the_wider_is_the_interval() -> None:
    known = [calibration_for(gpu_named(gpu)) for gpu in ("H200", "RTX 4070", "RTX 5080", "GTX 1080 Ti")]
    errors = [each.speed_error(fused=False) for each in known]
    assert errors == sorted(set(errors))
    assert known[0].speed_error(fused=True) < errors[0]
    assert all(each.speed_error(fused=True) > each.speed_error(fused=False) for each in known[1:])


@pytest.mark.parametrize("gpu", ["RTX 4070", "RTX 5080", "GTX 1080 Ti", "RTX 4070 Laptop GPU", "RX 7900 XTX"])
def test_what_is_measured_never_widens_an_interval(gpu: str, half: Ceilings) -> None:
    row = gpu_named(gpu)
    before, doctor = (calibration_for(row, ceilings=each).speed_error(fused=True) for each in (None, half))
    own = calibration_for(row, ceilings=half, trained=MeasuredSpeed(1.0, 0.08, fused=True))
    assert own.speed_error(fused=True) < doctor < before
    limited = calibration_for(row, power_limit_watts=row.tdp_watts).speed_error(fused=True)
    assert limited <= before


@pytest.mark.parametrize(
    ("gpu", "dtype", "basis"),
    [
        ("V100S-PCIE-32GB", "float32", "public"), ("V100S-PCIE-32GB", "float16", "class"),
        ("RTX 4070", "float32", "datasheet"), ("H200", "float16", "class"), ("H200", "float32", "datasheet"),
        ("GTX 1660 Ti", "float16", "datasheet"),
    ],
)  # fmt: skip
def test_a_measurement_counts_for_its_dtype_alone(gpu: str, dtype: str, basis: str) -> None:
    assert calibration_for(gpu_named(gpu), dtype).basis == basis


def test_an_80_percent_interval_holds_a_tenth_above_it() -> None:
    """The normal distribution has a tenth of itself above 1.2816 standard deviations."""
    predicted = Predicted.of(100.0, 0.1)
    assert (predicted.low, predicted.high) == pytest.approx((100 / 1.13673, 113.673), rel=1e-4)
    assert predicted.ln_error == pytest.approx(0.1)
    assert predicted.times(2).high == pytest.approx(227.346, rel=1e-4)
    hours = predicted.under(1000.0)
    assert (hours.value, hours.low) == pytest.approx((10.0, 1000 / 113.673), rel=1e-4)


def test_work_under_a_power_limit_takes_longer_than_either_alone_and_less_than_their_sum() -> None:
    rates = calibration_for(gpu_named("L4"))
    flops = rates.power_flops_per_second  # a second of them
    assert 1.0 < rates.seconds_under_power(1.0, flops) < 2.0
    assert rates.seconds_under_power(1.0, flops / 100) == pytest.approx(1.0, abs=1e-4)
    more = calibration_for(gpu_named("L4"), power_limit_watts=144.0)
    assert more.seconds_under_power(1.0, flops) < rates.seconds_under_power(1.0, flops)


def test_at_the_limit_of_the_reference_its_measured_rates_stay_as_they_are() -> None:
    own = calibration_for(gpu_named("H200"))
    assert own.seconds_under_power(1.0, 1e15) == pytest.approx(1.0)
    capped = calibration_for(gpu_named("H200"), power_limit_watts=350.0)
    assert capped.seconds_under_power(1.0, 5e14) > 1.1


def test_before_ampere_attention_is_the_memory_efficient_one() -> None:
    rates = calibration_for(gpu_named("T4"), "float16").attention_flops_per_second
    assert rates["flash"] == rates["torch"] == rates["efficient"]
    newer = calibration_for(gpu_named("L4")).attention_flops_per_second
    assert newer["flash"] == pytest.approx(2 * newer["efficient"])


def test_measured_trainings_win_over_ceilings_and_the_launches_stay_measured(half: Ceilings) -> None:
    gpu = gpu_named("RTX 4070")
    own = calibration_for(gpu, "bfloat16", half, trained=MeasuredSpeed(1.2, 0.08))
    assert (own.basis, own.speed_factor) == ("measured", 1.2)
    assert own.matmul_flops_per_second == calibration_for(gpu).matmul_flops_per_second
    assert own.launch_seconds["eager"] == pytest.approx(3 * measured().launch_seconds["eager"])


def test_a_measured_factor_keeps_the_limit_that_the_references_rates_include() -> None:
    plain, measured_there = (
        calibration_for(gpu_named("H200"), trained=each) for each in (None, MeasuredSpeed(1.0, 0.08))
    )
    assert measured_there.basis == "measured"
    assert measured_there.seconds_under_power(1.0, 1e15) == plain.seconds_under_power(1.0, 1e15)
