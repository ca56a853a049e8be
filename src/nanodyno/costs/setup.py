"""What a micro-step's costs depend on: a config, once its vocabulary and its card are known."""

from dataclasses import dataclass
from typing import Literal

from nanodyno.config import ModelShape, RunConfig

Dtype = Literal["float32", "bfloat16", "float16"]
Recompute = Literal["none", "light", "mlp", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "light", "mlp", "full")
"""From the fastest to the smallest."""
BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}

LOGITS_SHARE = 1 / 32
FEWEST_ROWS, MOST_ROWS = 1024, 16384
"""Of the trainer's own choice of loss_rows by a card's memory; a test holds them to it."""


@dataclass(frozen=True)
class Setup:
    """The trainer's switches as they come out. `loss_rows` of None is all positions at once."""

    shape: ModelShape
    batch_size: int
    micro_steps: int
    dtype: Dtype = "bfloat16"
    kernels: Literal["fused", "autograd"] = "fused"
    compiled: bool = False
    attention: str = "cudnn-packed"
    loss_rows: int | None = None
    recompute: Recompute = "none"
    residual_dtype: Dtype = "float32"
    moments_dtype: Dtype = "float32"
    fp8: bool = False
    offload_moments: bool = False
    cuda_graph: bool = True

    @property
    def positions(self) -> int:
        return self.batch_size * self.shape.block_size

    @property
    def tokens_per_iter(self) -> int:
        return self.positions * self.micro_steps

    @property
    def half(self) -> int:
        """Bytes of a number that enters a matrix product."""
        return BYTES[self.dtype]

    @property
    def residual(self) -> int:
        return BYTES[self.residual_dtype]

    @property
    def rows(self) -> int:
        """Positions whose logits are in memory at once."""
        return min(self.loss_rows or self.positions, self.positions)


def settle(config: RunConfig, shape: ModelShape, dtype: Dtype, memory_bytes: int | None) -> Setup:
    """As the trainer decides it on a card with so much memory; `recompute=auto` starts at the least."""
    fused = _is_fused(config, dtype)
    rows = config.loss_rows
    if fused and rows is None:
        rows = MOST_ROWS if memory_bytes is None else rows_by_memory(memory_bytes, shape, dtype)
    return Setup(
        shape=shape,
        batch_size=config.batch_size,
        micro_steps=config.gradient_accumulation_steps,
        dtype=dtype,
        kernels="fused" if fused else "autograd",
        compiled=config.compile and not fused,
        attention=_attention(config.attention, fused, dtype),
        loss_rows=rows,
        recompute="none" if config.recompute == "auto" else config.recompute,
        residual_dtype=config.residual_dtype,
        moments_dtype=config.moments_dtype,
        fp8=config.fp8,
        offload_moments=config.offload_moments,
        cuda_graph=config.cuda_graph and fused,
    )


def rows_by_memory(memory_bytes: int, shape: ModelShape, dtype: Dtype) -> int:
    row = shape.vocab_size * BYTES[dtype]
    rows = int(memory_bytes * LOGITS_SHARE / row) // FEWEST_ROWS * FEWEST_ROWS
    return min(max(rows, FEWEST_ROWS), MOST_ROWS)


def needs_fused(config: RunConfig) -> bool:
    """Whether a setting is one that only the fused way has."""
    return (
        config.kernels == "fused"
        or config.recompute not in ("auto", "none")
        or config.residual_dtype != "float32"
        or config.moments_dtype != "float32"
        or config.fp8
        or config.offload_moments
        or config.attention == "cudnn-packed"
    )


def _is_fused(config: RunConfig, dtype: Dtype) -> bool:
    if config.kernels == "autograd" or config.dropout or dtype == "float16":
        return False
    return dtype == "bfloat16" or needs_fused(config)


def _attention(asked: str, fused: bool, dtype: Dtype) -> str:
    """What `auto` finds on the cards that were measured; torch's own choice is flash, in fp32 efficient."""
    if asked != "auto":
        return asked
    if dtype == "float32":
        return "efficient"
    return "cudnn-packed" if fused else "flash"
