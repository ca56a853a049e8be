"""Which engine runs the micro-steps: the fused one on Triton kernels, or torch's autograd."""

from dataclasses import dataclass
from typing import Literal

import torch

from nanodyno.config import ModelShape, RunConfig
from nanodyno.errors import NanodynoError
from nanodyno.model.attention import PACKED
from nanodyno.train.attention import require
from nanodyno.train.autograd import AutogradEngine
from nanodyno.train.device import DTYPES, DeviceChoice, on_mps, on_rocm
from nanodyno.train.engine import Engine
from nanodyno.train.fused import FusedEngine
from nanodyno.train.processes import Processes

OLDEST = (8, 0)
"""Ampere: the first GPUs that Triton and bfloat16 are made for."""
OLDEST_FP8 = (8, 9)
FP8_MULTIPLE = 16
"""What torch's product in fp8 asks of every side."""


NO_FUSED_ON_ROCM = "the fused kernels were never tried on ROCm: autograd runs (kernels=fused tries them)"
NO_COMPILE_ON_MPS = "torch.compile was never tried on an Apple GPU: this runs without it"


@dataclass(frozen=True)
class Way:
    kernels: Literal["fused", "autograd"]
    triton: bool
    note: str | None = None


def make_engine(config: RunConfig, shape: ModelShape, choice: DeviceChoice, processes: Processes) -> Engine:
    way = choose_way(config, choice, processes.count)
    if choice.device.type == "cuda":
        torch.cuda.set_device(choice.device)  # Triton launches on the current GPU, whatever its arguments
    if config.attention != "auto" and not config.eval_only:  # evaluations use torch's own choice
        heads = (1, shape.n_head, shape.block_size, shape.head_size)
        require(config.attention, heads, DTYPES[choice.dtype], choice.device)
    if way.kernels == "fused":
        return FusedEngine(config, shape, choice, processes, way.triton)
    return AutogradEngine(config, shape, choice, processes)


def choose_way(config: RunConfig, choice: DeviceChoice, processes: int = 1) -> Way:
    """Return the engine. `auto` is fused on an NVIDIA GPU with bfloat16 and Triton, where it is faster, or
    where a setting needs it.

    Nobody tried the fused kernels on ROCm, nor torch.compile on an Apple GPU, so neither is taken there.
    """
    needed_by, obstacle = _needed_by(config), _obstacle(config, choice, processes)
    _refuse_contradictions(config, needed_by, obstacle)
    missing = why_no_triton(choice.device)
    if config.kernels == "fused" or needed_by:
        asked = needed_by or "kernels=fused"
        return Way(
            "fused",
            missing is None,
            missing
            and f"{asked} uses the fused engine, but {missing}: PyTorch's kernels run instead, slower",
        )
    if config.kernels == "autograd" or choice.device.type != "cuda":
        return Way("autograd", False, NO_COMPILE_ON_MPS if config.compile and on_mps(choice.device) else None)
    if on_rocm():
        return Way("autograd", False, NO_FUSED_ON_ROCM)
    reason = obstacle or missing or (None if choice.dtype == "bfloat16" else f"dtype={choice.dtype}")
    if reason is None:
        return Way("fused", True)
    if config.fused_unsupported:
        return Way(
            "autograd",
            False,
            f"the fused kernels do not support {config.fused_unsupported}: kernels=autograd runs",
        )
    return Way("autograd", False, f"{reason}: training runs without the fused kernels, slower")


def _refuse_contradictions(config: RunConfig, needed_by: str | None, obstacle: str | None) -> None:
    if config.kernels == "autograd" and needed_by:
        raise NanodynoError(f"kernels=autograd cannot do {needed_by}", "leave --kernels out, or set it fused")
    if obstacle and (config.kernels == "fused" or needed_by):
        asked = "kernels=fused" if config.kernels == "fused" else needed_by
        raise NanodynoError(
            f"{asked} does not work with {obstacle}", f"leave {asked} out, or change the other"
        )
    if config.dropout and config.attention != "auto":
        raise NanodynoError(
            f"attention={config.attention} does not work with dropout={config.dropout}",
            "leave --attention out: torch's choice supports dropout",
        )


def why_no_triton(device: torch.device) -> str | None:
    if device.type != "cuda":
        return f"Triton has no kernels for {device.type}"
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported ({error}; pip install triton, or triton-windows)"
    if _capability(device) < OLDEST:
        return f"{torch.cuda.get_device_name(device)} is older than Triton's kernels need"
    return None


def _needed_by(config: RunConfig) -> str | None:
    """The first setting that only the fused way has."""
    asked = {
        f"recompute={config.recompute}": config.recompute not in ("auto", "none"),
        f"residual_dtype={config.residual_dtype}": config.halves_stream_by_hand,
        f"moments_dtype={config.moments_dtype}": config.moments_dtype != "float32",
        "fp8=True": config.fp8,
        "offload_moments=True": config.offload_moments,
        f"attention={config.attention}": config.attention == PACKED,
    }
    return next((setting for setting, needs_it in asked.items() if needs_it), None)


def _obstacle(config: RunConfig, choice: DeviceChoice, processes: int) -> str | None:
    """What the fused way cannot do."""
    if config.fused_unsupported:
        return config.fused_unsupported
    if config.dropout:
        return f"dropout={config.dropout}"
    if config.parallel == "fsdp" and processes > 1:
        return "parallel=fsdp"
    sides = {"n_embd": config.n_embd, "vocab_size": config.vocab_size or FP8_MULTIPLE}
    odd = next((f"{key}={size}" for key, size in sides.items() if size % FP8_MULTIPLE), None)
    if config.fp8 and odd:
        return f"{odd}, which is not a multiple of {FP8_MULTIPLE}"
    if config.fp8 and choice.device.type == "cuda" and _capability(choice.device) < OLDEST_FP8:
        return f"{torch.cuda.get_device_name(choice.device)}, which has no fp8"
    return "dtype=float16" if choice.dtype == "float16" else None


def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)
