from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.costs.calibration import calibration_for, measured
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
        gpt={768: {"fc forward": Matmul(1, 1, 1, timed(H200_GPT / 2))}},
        copy=timed(H200_COPY / 4),
        host_to_device=timed(H200_HOST / 5),
        micro_step={"eager": Timing(1, (3 * H200_STEP,))},
    )


@pytest.mark.parametrize("gpu", [gpu_named("RTX 4070"), None])
def test_a_gpu_is_what_doctor_measured_of_it_beside_an_h200(gpu: Any, half: Ceilings) -> None:
    own, reference = calibration_for(gpu, "bfloat16", half), measured()
    assert own.basis == "ceilings"
    assert own.matmul_flops_per_second == pytest.approx(reference.matmul_flops_per_second / 2)
    assert own.attention_flops_per_second["flash"] == pytest.approx(
        reference.attention_flops_per_second["flash"] / 2
    )
    assert own.bandwidth_bytes_per_second == pytest.approx(reference.bandwidth_bytes_per_second / 4)
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
    assert own.matmul_flops_per_second == pytest.approx(measured().matmul_flops_per_second / 10)


def test_what_was_not_measured_stays_by_the_datasheet(ceilings: Make) -> None:
    gpu = gpu_named("RTX 4070")
    nothing = ceilings(large={}, gpt={}, copy=None, host_to_device=None, micro_step={})
    by_datasheet, own = calibration_for(gpu), calibration_for(gpu, "bfloat16", nothing)
    assert own.matmul_flops_per_second == by_datasheet.matmul_flops_per_second
    assert own.bandwidth_bytes_per_second == by_datasheet.bandwidth_bytes_per_second
    assert own.launch_seconds == by_datasheet.launch_seconds
    assert by_datasheet.basis == "datasheet"
