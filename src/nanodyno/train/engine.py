"""The arithmetic of an iteration: a model, its optimiser and the gradients of many micro-steps."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from nanodyno.config import ModelShape, RunConfig
from nanodyno.config.optimizers import OPTIMIZERS
from nanodyno.data.loader import Windows
from nanodyno.model.batched import BatchedOptimizer
from nanodyno.model.modern import make_model
from nanodyno.model.optimizer import Optimizer
from nanodyno.train.device import DTYPES, Clock, DeviceChoice, is_out_of_memory
from nanodyno.train.evaluate import summed_loss
from nanodyno.train.parallel import give_back, local, shard
from nanodyno.train.processes import Processes

DeviceBatch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Prepared:
    """How the preparation of the micro-step went. What could not be had is left out, and said in `notes`."""

    seconds: float
    compiled: bool
    """By torch.compile."""
    attention: str | None = None
    """The backend that was chosen; None is torch's own choice."""
    attention_seconds: tuple[tuple[str, float], ...] = ()
    """What each one took, forward and backward, where they were measured."""
    recompute: str = "none"
    cuda_graph: bool = False
    triton: bool = False
    gemm_algorithm: Literal["torch", "measured"] = "torch"
    notes: tuple[str, ...] = ()


class Gradients(NamedTuple):
    """What an iteration's gradients are known by, before clipping."""

    loss: float
    """Mean over all micro-steps of all processes."""
    norm: float
    micro_norm: float | None
    """Of the mean gradient of `first_half` of them; of several processes the root of the mean square."""


def first_half(micro_steps: int) -> int:
    """Micro-steps whose sum is looked at on the way. Half of all: a sequence with a gradient many times the
    others' is then as likely on either side, where after the first it would nearly always come later, and
    pass for signal (docs/noise.md).
    """
    return micro_steps // 2


class Engine(ABC):
    """Everything whose state is tensors."""

    optimizer: Optimizer
    scaler: torch.amp.GradScaler
    needs_preparation = True
    graph_bytes = 0
    """What a micro-step holds inside a CUDA graph, where torch's own count of the peak does not see it."""

    def __init__(
        self, config: RunConfig, shape: ModelShape, choice: DeviceChoice, processes: Processes
    ) -> None:
        self.config = config
        self.device = choice.device
        self.dtype = DTYPES[choice.dtype]
        self.processes = processes
        self.sharded = config.parallel == "fsdp" and processes.count > 1
        torch.manual_seed(config.seed)
        self.model = make_model(shape)
        if self.sharded:
            shard(self.model, self.device, processes.count)
        self.model.to(self.device)

    @abstractmethod
    def prepare(self, batch: DeviceBatch, clock: Clock) -> Prepared:
        """Compiles and measures what there is to, and leaves no trace in the weights or gradients."""

    @abstractmethod
    def get_ready(self) -> None:
        """For a run that prepares nothing."""

    @abstractmethod
    def gradients(
        self, batches: Iterator[DeviceBatch], micro_steps: int, with_micro_norm: bool = False
    ) -> Gradients:
        """Of the mean loss over all micro-steps of all processes.

        The norm of `first_half` of them takes one more reading of all gradients.
        """

    @abstractmethod
    def update(self, learning_rate: float) -> bool:
        """Applies the gradients; False when fp16 had overflowed, so that the weights stay as they are."""

    @abstractmethod
    def drop_gradients(self) -> None:
        """As if the iteration had not been."""

    def scales(self) -> dict[str, float | int]:
        """What lower precisions are multiplied with, as far as the past decides it."""
        return self.scaler.state_dict()

    def take_scales(self, saved: Mapping[str, float | int]) -> None:
        """Of a checkpoint; those of another precision are of no use and left out."""
        if saved and self.scaler.is_enabled():
            self.scaler.load_state_dict(dict(saved))

    @abstractmethod
    def let_go(self) -> None:
        """Of what was prepared for a micro-batch that does not fit any more."""

    def mean_loss(
        self, windows: Windows, tokens: int, batch_size: int, asked_to_stop: Callable[[], bool]
    ) -> tuple[float, int]:
        """On evenly spread windows; replicas divide them, shares of one model go through them together."""
        rank, count = self.processes.rank, self.processes.count
        part = (0, 1) if self.sharded else (rank, count)
        with self.autocast(cache_enabled=False):  # a cache would hold all weights again, in half precision
            total, seen = summed_loss(self.model, windows, tokens, batch_size, part, asked_to_stop)
        give_back(self.model)
        if not self.sharded and count > 1:
            both = self.processes.sum(torch.stack([total, torch.full_like(total, seen)]))
            total, seen = both[0], int(both[1].item())
        return total.item() / seen, seen

    def autocast(self, cache_enabled: bool = True) -> torch.autocast:
        return torch.autocast(
            self.device.type, self.dtype, self.dtype != torch.float32, cache_enabled=cache_enabled
        )

    def compile_own(self, own: BatchedOptimizer, trial: Callable[[], None]) -> tuple[str, ...]:
        """Compiles the step of an optimizer beside AdamW by a trial that leaves no trace. Without a compiler
        that works it runs uncompiled, and a note says so."""
        reason = None
        try:
            trial()
        except (RuntimeError, OSError, ImportError) as error:
            if is_out_of_memory(error):
                raise
            reason = last_words(error)
        if not self.processes.largest(int(reason is not None), self.device):
            return ()
        own.do_not_compile()  # in all of them: replicas must round alike
        reason = reason or "it failed in another process"
        return (f"{OPTIMIZERS[self.config.optimizer].label} runs without torch.compile, slower: {reason}",)

    def weights_are_finite(self) -> bool:
        mine = all(bool(local(parameter).isfinite().all()) for parameter in self.model.parameters())
        return not self.processes.largest(int(not mine), self.device)


def last_words(error: BaseException) -> str:
    """The first line of the innermost cause: what torch wraps around it repeats itself."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
