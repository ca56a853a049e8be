"""What the cost model takes from measurements: few numbers, their sources in calibration.json."""

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from nanodyno.hardware.cards import Card, card_named

REFERENCE = "H200"
"""The card that was measured; others are scaled from it by their datasheets."""


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
    verified: bool = True
    """Whether this card itself was measured."""


@cache
def measured(name: str = REFERENCE) -> Calibration:
    text = files("nanodyno.costs").joinpath("calibration.json").read_text(encoding="utf-8")
    return Calibration(**json.loads(text)[name])


def calibration_for(card: Card | None, dtype: str = "bfloat16") -> Calibration:
    """The card's own, or the reference's scaled by datasheet peak and bandwidth, and then not verified."""
    reference, own = measured(), card_named(REFERENCE)
    if card is None or (card.name == REFERENCE and dtype != "float32"):
        return reference
    own_peak = own.peak_flops("bfloat16")
    assert own_peak is not None
    arithmetic = (card.peak_flops(dtype) or card.tensor_flops or card.fp32_flops) / own_peak
    attention = reference.attention_flops_per_second
    attention = attention | {"torch": attention["flash"]}  # cuDNN's is torch's choice on such as an H200
    return replace(
        reference,
        multiprocessors=card.multiprocessors or reference.multiprocessors,
        matmul_flops_per_second=reference.matmul_flops_per_second * arithmetic,
        attention_flops_per_second={name: rate * arithmetic for name, rate in attention.items()},
        bandwidth_bytes_per_second=reference.bandwidth_bytes_per_second
        * card.bandwidth_bytes_per_second
        / own.bandwidth_bytes_per_second,
        verified=False,
    )
