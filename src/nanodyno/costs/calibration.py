"""The rates that a GPU reaches in training: measured on one GPU, for the others by a model of their class.

calibration.json has every number and its source. benchmarks/cost_public.py fits those of the classes to
public measurements, and finds how far the predictions for a GPU that was left out are off.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from statistics import NormalDist
from typing import Any, Literal

from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.gpus import Gpu, gpu_named

REFERENCE = "H200"
"""The GPU that nanodyno was measured on."""
MEASURED_HEAD = 64
"""Head size of the attention rates."""
INTERVAL = 0.80
LAPTOP = "GeForce Laptop"
DEFAULT_HERTZ, DEFAULT_MULTIPROCESSORS = 1.7e9, 80
"""Of a GPU that no table describes."""

SpeedBasis = Literal["training", "measured", "public", "ceilings", "class", "datasheet"]
"""training: nanodyno trained on this GPU; measured: results of it were given; public: public logs have it;
ceilings: what doctor measured on it; class: other GPUs of its architecture; datasheet: nothing but that."""


@dataclass(frozen=True)
class Calibration:
    """The rates of a GPU in training, and the memory that no code accounts for."""

    multiprocessors: int
    matmul_flops_per_second: float
    """Of a matmul, besides the memory traffic that it does not hide."""
    matmul_traffic_share: float
    """Share of a matmul's reads and writes that is not hidden behind its arithmetic."""
    fp8_gain: float
    attention_flops_per_second: Mapping[str, float]
    """By backend, in exact causal FLOPs with whole tiles on the diagonal. torch is its own choice."""
    attention_softmax_share: float
    """Share of attention's time at heads of MEASURED_HEAD that goes with the scores and not with FLOPs."""
    bandwidth_bytes_per_second: float
    eager_bandwidth_share: float
    """What torch's own kernels between matmuls reach of it."""
    host_bandwidth_bytes_per_second: float
    kernel_seconds: float
    """For the beginning and the end of a kernel, when the GPU is not full."""
    launch_seconds: Mapping[str, float]
    """The host's time for a kernel outside of a CUDA graph, eager or compiled: a lower bound."""
    workspace_bytes: int
    context_bytes: int
    fragmentation_share: float
    power_flops_per_second: float = math.inf
    """What the power limit allows."""
    included_flops_per_second: float = math.inf
    """The power limit under which the rates above were measured, in the same unit."""
    power_sharpness: float = 1.0
    """How abruptly the power limit begins to count: at infinity only when it is reached."""
    power_limit_watts: float | None = None
    speed_factor: float = 1.0
    """How much faster this GPU was measured than its class predicts."""
    measured_ln_error: float | None = None
    """How far trainings that were measured on such a GPU may be off, in place of the basis's own error."""
    fused_measured: bool = False
    """Whether the fused engine was among them."""
    untried_ln_error: float = 0.0
    """What is unknown besides, as of a laptop GPU, whose maker chooses the power."""
    basis: SpeedBasis = "training"

    @property
    def verified(self) -> bool:
        return self.basis == "training"

    def seconds_under_power(self, seconds: float, flops: float) -> float:
        """Return the time of work that takes `seconds` at full clocks and has so many FLOPs."""
        sharpness = self.power_sharpness
        limit, included = flops / self.power_flops_per_second, flops / self.included_flops_per_second
        return (seconds**sharpness + max(0.0, limit**sharpness - included**sharpness)) ** (1 / sharpness)

    def watts(self, load: float) -> float | None:
        """Return the power drawn while kernels run for this share of the time."""
        if self.power_limit_watts is None:
            return None
        power = class_numbers()["power"]
        return self.power_limit_watts * (
            power["idle_share"] + (power["drawn_share"] - power["idle_share"]) * load
        )

    def speed_error(self, fused: bool) -> float:
        """Return the standard deviation of ln(speed / prediction)."""
        errors = class_numbers()["ln_error"]
        if self.basis == "training":
            return errors["training"] if fused else errors["training autograd"]
        own = errors[self.basis] if self.measured_ln_error is None else self.measured_ln_error
        untried = errors["fused"] if fused and not self.fused_measured else 0.0
        return math.hypot(own, untried, self.untried_ln_error)


@dataclass(frozen=True)
class MeasuredSpeed:
    """How fast trainings on such a GPU were, over what its class predicts for them."""

    factor: float
    ln_error: float
    fused: bool = False
    """Whether the fused engine was among them."""


@dataclass(frozen=True)
class Predicted:
    """A predicted value with an 80% prediction interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, ln_error: float) -> "Predicted":
        """Return the prediction of a value with a standard deviation of ln(truth / value)."""
        factor = math.exp(NormalDist().inv_cdf(0.5 + INTERVAL / 2) * ln_error)
        return cls(value, value / factor, value * factor)

    @property
    def ln_error(self) -> float:
        return math.log(self.high / self.value) / NormalDist().inv_cdf(0.5 + INTERVAL / 2)

    def times(self, factor: float) -> "Predicted":
        """Return the prediction in another unit, or of so many times as much."""
        return Predicted(self.value * factor, self.low * factor, self.high * factor)

    def under(self, amount: float) -> "Predicted":
        """Return amount / value: how long an amount takes at a predicted speed, or the speed."""
        return Predicted(amount / self.value, amount / self.high, amount / self.low)


@cache
def _document() -> dict[str, Any]:
    return json.loads(files("nanodyno.costs").joinpath("calibration.json").read_text(encoding="utf-8"))


def class_numbers() -> dict[str, Any]:
    """Return the numbers of the classes of GPUs."""
    return _document()["classes"]


def measured() -> Calibration:
    """Return the rates of the GPU that nanodyno was measured on."""
    return Calibration(**_document()[REFERENCE])


def calibration_for(
    gpu: Gpu | None,
    dtype: str = "bfloat16",
    ceilings: Ceilings | None = None,
    power_limit_watts: float | None = None,
    trained: MeasuredSpeed | None = None,
) -> Calibration:
    """Return the rates of a GPU: the reference's own, or those of its class, scaled by what was measured.

    `ceilings` is what doctor measured, `trained` how fast trainings on such a GPU were. Trainings win over
    ceilings, since a forecast is of a training. The host's time for a launch counts wherever it was measured.
    """
    here = measured() if gpu is None else expected_of(gpu, dtype, power_limit_watts)
    own = here.basis == "training"
    if ceilings is not None:
        here = replace(here, launch_seconds=_launches(here, ceilings))
    if trained is not None:
        return replace(
            here,
            speed_factor=trained.factor,
            measured_ln_error=trained.ln_error,
            fused_measured=trained.fused,
            untried_ln_error=0.0,
            basis="measured",
        )
    if ceilings is not None and (gpu is None or not own):
        return _by_ceilings(here, gpu, dtype, ceilings)
    if gpu is not None and not own and (factor := class_numbers()["public"].get(f"{gpu.label}, {dtype}")):
        return replace(here, speed_factor=factor, basis="public")
    return here


def expected_of(gpu: Gpu, dtype: str, power_limit_watts: float | None = None) -> Calibration:
    """Return the rates of a GPU of which only the name is known: the reference's own, or its class's."""
    if gpu.name == REFERENCE and dtype != "float32":  # in float16 its rates are those of bfloat16
        here = measured() if dtype == "bfloat16" else replace(measured(), basis="class")
    else:
        here = by_class(gpu, dtype, class_numbers())
    if gpu.family == LAPTOP and power_limit_watts is not None:
        here = replace(here, untried_ln_error=here.untried_ln_error / 2)
    return with_power(here, gpu, power_limit_watts, class_numbers())


def by_class(gpu: Gpu, dtype: str, classes: Mapping[str, Any]) -> Calibration:
    """Return the rates of a GPU by its class, without its power limit."""
    reference, entry = measured(), _class_of(gpu, classes)
    shares = classes["matmul_share"]
    family = dtype if dtype == "float32" else gpu.family
    share = entry.get("matmul_share", shares.get(family, shares["other"]))
    peak = gpu.peak_flops_per_second(dtype) or gpu.tensor_flops or gpu.fp32_flops
    without_tensor_cores = dtype == "float32" or gpu.peak_flops_per_second(dtype) is None
    here = replace(
        reference,
        multiprocessors=gpu.multiprocessors or reference.multiprocessors,
        matmul_flops_per_second=share * peak,
        bandwidth_bytes_per_second=entry["bandwidth_share"] * gpu.bandwidth_bytes_per_second,
        untried_ln_error=classes["ln_error"]["laptop"] if gpu.family == LAPTOP else 0.0,
        basis="datasheet" if entry.get("unmeasured") or without_tensor_cores else "class",
    )
    return _with_attention(here, gpu, peak, classes)


def _class_of(gpu: Gpu, classes: Mapping[str, Any]) -> dict[str, Any]:
    key = f"{gpu.architecture} {gpu.memory}"
    return next((each for each in classes["rates"] if key in each["of"]), classes["otherwise"])


def _with_attention(
    here: Calibration, gpu: Gpu | None, peak: float, classes: Mapping[str, Any]
) -> Calibration:
    """Flash attention does matmuls at a share of the peak, and each score takes cycles of a multiprocessor.

    Hopper has the reference's rates, by multiprocessors and clock. Before Ampere there is no flash attention,
    and torch takes the memory-efficient one.
    """
    numbers = classes["attention"]
    hertz = (None if gpu is None else gpu.boost_hertz) or DEFAULT_HERTZ
    cycles = here.multiprocessors * hertz
    if gpu is not None and gpu.architecture == "Hopper":
        reference, own = measured(), gpu_named(REFERENCE)
        assert own.boost_hertz is not None
        share = cycles / (reference.multiprocessors * own.boost_hertz)
        rates = {name: rate * share for name, rate in reference.attention_flops_per_second.items()}
        return replace(here, attention_flops_per_second=rates)
    by_flops = 1 / (numbers["matmul_share"] * peak)
    by_scores = numbers["cycles_per_score"] / (12 * MEASURED_HEAD * cycles)
    flash = 1 / (by_flops + by_scores)
    efficient = flash / numbers["efficient_slower"]
    has_flash = gpu is None or gpu.architecture not in numbers["without_flash"]
    rates = dict.fromkeys(here.attention_flops_per_second, flash if has_flash else efficient)
    return replace(
        here,
        attention_flops_per_second=rates | {"efficient": efficient},
        attention_softmax_share=by_scores / (by_flops + by_scores),
    )


def with_power(
    here: Calibration, gpu: Gpu, limit_watts: float | None, classes: Mapping[str, Any]
) -> Calibration:
    limit = limit_watts or gpu.tdp_watts
    own = here.basis == "training"
    return replace(
        here,
        power_flops_per_second=power_flops_per_second(gpu, limit, classes),
        included_flops_per_second=power_flops_per_second(gpu, gpu.tdp_watts, classes) if own else math.inf,
        power_sharpness=classes["power"]["sharpness"],
        power_limit_watts=limit,
    )


def power_flops_per_second(gpu: Gpu, watts: float, classes: Mapping[str, Any]) -> float:
    """Return the FLOP/s that a power limit allows in training: at fewer watts for each multiprocessor the
    clock and the voltage are lower, and a FLOP takes less energy."""
    joules = _class_of(gpu, classes)["joules_per_flop"]
    power = classes["power"]
    each = watts / (gpu.multiprocessors or DEFAULT_MULTIPROCESSORS) / power["reference_watts"]
    return watts / (joules * each ** power["watts_exponent"])


def _by_ceilings(here: Calibration, gpu: Gpu | None, dtype: str, ceilings: Ceilings) -> Calibration:
    """Each rate by what doctor measured of its kind. One that it did not measure stays as it is."""
    reference, there = measured(), _document()["doctor"]
    large = ceilings.matmul_flops(dtype)
    gpt = ceilings.gpt_flops(there["gpt_width"]) if ceilings.gpt_dtype == dtype else None
    rate = max((each for each in (large, gpt) if each is not None), default=None)
    here = replace(here, multiprocessors=ceilings.device.multiprocessors or here.multiprocessors)
    if rate is not None:
        here = replace(here, matmul_flops_per_second=rate)
        here = _with_attention(here, gpu, rate, class_numbers())
    if ceilings.copy is not None:
        share = _copy_share(gpu, ceilings.copy.rate)
        here = replace(here, bandwidth_bytes_per_second=here.bandwidth_bytes_per_second * share)
    if ceilings.host_to_device is not None:
        share = ceilings.host_to_device.rate / there["host_to_device_bytes_per_second"]
        here = replace(
            here, host_bandwidth_bytes_per_second=reference.host_bandwidth_bytes_per_second * share
        )
    return replace(here, untried_ln_error=0.0, basis="ceilings")


def _copy_share(gpu: Gpu | None, copied: float) -> float:
    """Return what a GPU copies beside what the reference would with its bandwidth."""
    there, own = _document()["doctor"]["copy_bytes_per_second"], gpu_named(REFERENCE)
    if gpu is None:
        return copied / there
    return copied / (gpu.bandwidth_bytes_per_second * there / own.bandwidth_bytes_per_second)


def _launches(here: Calibration, ceilings: Ceilings) -> dict[str, float]:
    step = ceilings.micro_step.get("eager")
    share = 1.0 if step is None else step.each_seconds / _document()["doctor"]["micro_step_seconds"]
    return {engine: seconds * share for engine, seconds in here.launch_seconds.items()}
