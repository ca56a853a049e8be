"""What a micro-step's costs depend on: a config, once its vocabulary and its card are known."""

from dataclasses import dataclass
from typing import Literal

from nanodyno.config import ModelShape, RunConfig
from nanodyno.config.optimizers import OPTIMIZERS, StepCost
from nanodyno.config.ramp import whole_micro_batches
from nanodyno.costs.parameters import parameters
from nanodyno.errors import NanodynoError

Dtype = Literal["float32", "bfloat16", "float16"]
Kernels = Literal["fused", "autograd"]
Recompute = Literal["none", "light", "mlp", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "light", "mlp", "full")
"""From the fastest to the smallest."""
BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}

LOGITS_SHARE = 1 / 32
FEWEST_ROWS, MOST_ROWS = 1024, 16384
"""Of the trainer's own choice of loss_chunk_size by a card's memory; a test holds them to it."""


@dataclass(frozen=True)
class Setup:
    """The trainer's switches as they come out. `loss_chunk_size` of None is all positions at once."""

    shape: ModelShape
    batch_size: int
    micro_steps: int
    dtype: Dtype = "bfloat16"
    kernels: Kernels = "fused"
    compiled: bool = False
    attention: str = "cudnn-packed"
    loss_chunk_size: int | None = None
    recompute: Recompute = "none"
    residual_dtype: Dtype = "float32"
    moments_dtype: Dtype = "float32"
    fp8: bool = False
    offload_moments: bool = False
    cuda_graph: bool = True
    optimizer: str = "adamw"
    divided: int | None = None
    """Sequences that a micro-batch has to divide where a batch grows; None is those of an iteration."""
    fewest_steps: int = 1

    @property
    def is_plain(self) -> bool:
        """GPT-2 by AdamW."""
        return self.shape.is_gpt2 and self.optimizer == "adamw"

    @property
    def taken(self) -> int:
        """Parameters that the optimizer takes from AdamW."""
        takes = OPTIMIZERS[self.optimizer].takes
        return 0 if takes is None else getattr(parameters(self.shape), takes)

    @property
    def state_bytes(self) -> int:
        """Of each parameter that is taken."""
        return OPTIMIZERS[self.optimizer].state_bytes

    @property
    def step_cost(self) -> StepCost:
        """Of the optimizer's own step, besides AdamW's."""
        return OPTIMIZERS[self.optimizer].step_cost(self.shape, self.kernels == "fused")

    @property
    def was_measured(self) -> bool:
        """On the card that the calibration is of: plain either way, what came after GPT-2 by hand alone."""
        return self.is_plain or (self.kernels == "fused" and OPTIMIZERS[self.optimizer].measured)

    @property
    def known_by_hand(self) -> bool:
        """Whether the fused way has this model; see RunConfig.fused_unsupported."""
        return RunConfig.fused_unsupported_of(dict(self.shape)) is None

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
        return min(self.loss_chunk_size or self.positions, self.positions)

    def micro_batches(self, most: int) -> list[int]:
        """Those of at most so many sequences that every iteration can be made of."""
        sequences = self.divided or self.batch_size * self.micro_steps
        return whole_micro_batches(sequences, self.fewest_steps, most)


def settle(
    config: RunConfig,
    shape: ModelShape,
    dtype: Dtype,
    memory_bytes: int | None,
    kernels: Kernels | None = None,
) -> Setup:
    """As the trainer decides it on a card with so much memory; `recompute=auto` starts at the least.

    `kernels` is the trainer's own word on the way, where it has one.
    """
    fused = _is_fused(config, dtype) if kernels is None else kernels == "fused"
    rows = config.loss_chunk_size
    if fused and rows is None:
        rows = MOST_ROWS if memory_bytes is None else rows_by_memory(memory_bytes, shape, dtype)
    return Setup(
        shape=shape,
        batch_size=config.batch_size,
        micro_steps=config.gradient_accumulation_steps,
        dtype=dtype,
        kernels="fused" if fused else "autograd",
        compiled=config.compile and not fused,
        attention=_attention(config, fused, dtype),
        loss_chunk_size=rows,
        recompute="none" if config.recompute == "auto" else config.recompute,
        residual_dtype=config.residual_dtype,
        moments_dtype=config.moments_dtype,
        fp8=config.fp8,
        offload_moments=config.offload_moments,
        cuda_graph=config.cuda_graph and fused,
        optimizer=config.optimizer,
        divided=config.sequences_divided,
        fewest_steps=config.ramp.fewest_steps,
    )


def rows_by_memory(memory_bytes: int, shape: ModelShape, dtype: Dtype) -> int:
    row = shape.vocab_size * BYTES[dtype]
    rows = int(memory_bytes * LOGITS_SHARE / row) // FEWEST_ROWS * FEWEST_ROWS
    return min(max(rows, FEWEST_ROWS), MOST_ROWS)


def needs_fused(config: RunConfig) -> str | None:
    """Return the first setting that only the fused engine has."""
    settings = {
        f"recompute={config.recompute}": config.recompute not in ("auto", "none"),
        f"residual_dtype={config.residual_dtype}": config.halves_stream_by_hand,
        f"moments_dtype={config.moments_dtype}": config.moments_dtype != "float32",
        "fp8=True": config.fp8,
        "offload_moments=True": config.offload_moments,
        "attention=cudnn-packed": config.attention == "cudnn-packed",
        "kernels=fused": config.kernels == "fused",
    }
    return next((setting for setting, needs_it in settings.items() if needs_it), None)


def _is_fused(config: RunConfig, dtype: Dtype) -> bool:
    """Refuses what training would."""
    needed_by = needs_fused(config)
    obstacles = {
        "kernels=autograd": config.kernels == "autograd",
        str(config.fused_unsupported): config.fused_unsupported is not None,
        f"dropout={config.dropout}": config.dropout > 0,
        "dtype=float16": dtype == "float16",
    }
    obstacle = next((setting for setting, there in obstacles.items() if there), None)
    if needed_by and obstacle:
        raise NanodynoError(
            f"{needed_by} cannot be had with {obstacle}", f"leave {needed_by} out, or {obstacle}"
        )
    return obstacle is None and (dtype == "bfloat16" or needed_by is not None)


def _attention(config: RunConfig, fused: bool, dtype: Dtype) -> str:
    """What `auto` finds on the cards that were measured; without autocast to half, torch takes efficient."""
    if config.attention != "auto":
        return config.attention
    if dtype == "float32":
        return "efficient"
    if fused:
        return "cudnn-packed"
    if config.compile and not config.dropout and not config.model_shape(1).is_gpt2:
        return "cudnn" if config.window is None else "flex"
    return "torch"
