"""What the cost model takes from measurements: few numbers, their sources in calibration.json."""

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.gpus import Gpu, gpu_named

REFERENCE = "H200"
"""The card that was measured; others are scaled from it."""
MEASURED_HEAD = 64
"""Numbers of a head, of those that attention's rates are of."""

CalibrationBasis = Literal["training", "ceilings", "datasheet"]
"""training: such a card was measured as it trained; ceilings: scaled by what doctor measured on this one."""


@dataclass(frozen=True)
class Calibration:
    """Rates that a card keeps up in training, and what memory no code accounts for."""

    multiprocessors: int
    matmul_flops_per_second: float
    """Of a matrix product without the traffic that it does not hide."""
    matmul_traffic_share: float
    """Of a product's reading and writing, what is not hidden behind its arithmetic."""
    fp8_gain: float
    attention_flops_per_second: dict[str, float]
    """By backend, of exact causal FLOPs with whole tiles on the diagonal; torch is its own choice."""
    attention_softmax_share: float
    """Of attention's time with heads of MEASURED_HEAD, what goes with the scores and not with FLOPs."""
    bandwidth_bytes_per_second: float
    eager_bandwidth_share: float
    """Of it, what torch's own kernels between products keep up."""
    host_bandwidth_bytes_per_second: float
    kernel_seconds: float
    """Beginning and end of a kernel, where the card is not full."""
    launch_seconds: dict[str, float]
    """Of the host for a kernel outside a CUDA graph, eager or compiled: what a micro-step lasts at least."""
    workspace_bytes: int
    context_bytes: int
    fragmentation_share: float
    basis: CalibrationBasis = "training"

    @property
    def verified(self) -> bool:
        return self.basis == "training"


@cache
def _document() -> dict[str, Any]:
    return json.loads(files("nanodyno.costs").joinpath("calibration.json").read_text(encoding="utf-8"))


def measured() -> Calibration:
    return Calibration(**_document()[REFERENCE])


def calibration_for(
    gpu: Gpu | None, dtype: str = "bfloat16", ceilings: Ceilings | None = None
) -> Calibration:
    """The card's own; else the reference's, scaled by this card's ceilings or by its datasheet.

    Launching is the host's doing, so that a host that was measured counts in any case.
    """
    here = _by_datasheet(gpu, dtype)
    if ceilings is not None:
        own = gpu is not None and here.verified
        here = replace(here, launch_seconds=_launches(here, ceilings))
        here = here if own else _by_ceilings(here, dtype, ceilings)
    return here if here.verified else replace(here, attention_softmax_share=_softmax_share(here))


def _softmax_share(here: Calibration) -> float:
    """Softmax is the multiprocessors' work, products are the tensor cores': where a multiprocessor has
    slower ones, as outside of Hopper, softmax is less of the whole, and wider heads save less."""
    reference = measured()
    products = here.matmul_flops_per_second / here.multiprocessors
    there = reference.matmul_flops_per_second / reference.multiprocessors
    return reference.attention_softmax_share * min(1.0, products / there)


def _by_ceilings(here: Calibration, dtype: str, ceilings: Ceilings) -> Calibration:
    """Each rate by what doctor measured of its kind; one that it did not measure stays as it is."""
    reference, there = measured(), _document()["doctor"]
    width = there["gpt_width"]
    gpt = ceilings.gpt_flops(width) if ceilings.gpt_dtype == dtype else None
    large = ceilings.matmul_flops(dtype)
    if gpt is not None:
        here = _with_arithmetic(here, gpt / there["gpt_flops_per_second"])
    elif large is not None:
        here = _with_arithmetic(here, large / there["matmul_flops_per_second"])
    if ceilings.copy is not None:
        share = ceilings.copy.rate / there["copy_bytes_per_second"]
        here = replace(here, bandwidth_bytes_per_second=reference.bandwidth_bytes_per_second * share)
    if ceilings.host_to_device is not None:
        share = ceilings.host_to_device.rate / there["host_to_device_bytes_per_second"]
        here = replace(
            here, host_bandwidth_bytes_per_second=reference.host_bandwidth_bytes_per_second * share
        )
    known = ceilings.device.multiprocessors
    return replace(here, multiprocessors=known or here.multiprocessors, basis="ceilings")


def _launches(here: Calibration, ceilings: Ceilings) -> dict[str, float]:
    step = ceilings.micro_step.get("eager")
    share = 1.0 if step is None else step.each_seconds / _document()["doctor"]["micro_step_seconds"]
    return {way: seconds * share for way, seconds in here.launch_seconds.items()}


def _with_arithmetic(here: Calibration, share: float) -> Calibration:
    """Products and attention at so much of the reference's rates."""
    reference = measured()
    attention = reference.attention_flops_per_second
    attention = attention | {"torch": attention["flash"]}  # cuDNN's is torch's choice on such as an H200
    return replace(
        here,
        matmul_flops_per_second=reference.matmul_flops_per_second * share,
        attention_flops_per_second={name: rate * share for name, rate in attention.items()},
    )


def _by_datasheet(gpu: Gpu | None, dtype: str) -> Calibration:
    reference, own = measured(), gpu_named(REFERENCE)
    if gpu is None or (gpu.name == REFERENCE and dtype != "float32"):
        return reference
    own_peak = own.peak_flops_per_second("bfloat16")
    assert own_peak is not None
    arithmetic = (gpu.peak_flops_per_second(dtype) or gpu.tensor_flops or gpu.fp32_flops) / own_peak
    return replace(
        _with_arithmetic(reference, arithmetic),
        multiprocessors=gpu.multiprocessors or reference.multiprocessors,
        bandwidth_bytes_per_second=reference.bandwidth_bytes_per_second
        * gpu.bandwidth_bytes_per_second
        / own.bandwidth_bytes_per_second,
        basis="datasheet",
    )
