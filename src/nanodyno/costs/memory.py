"""The peak of a card's memory in training, by component, from what the code allocates and when.

Only what no code says comes from measurements (calibration.json): the CUDA context, the workspaces of cuBLAS,
and how much more the allocator holds than it hands out.
"""

from dataclasses import dataclass, fields
from math import ceil

from nanodyno.costs.calibration import Calibration
from nanodyno.costs.memory_autograd import autograd_peak, evaluation_bytes, idle_bytes
from nanodyno.costs.memory_fused import fused_peak
from nanodyno.costs.parts import Peak
from nanodyno.costs.setup import Setup

LOADED_TOKENS, LOADED_BATCHES = 2**18, 64
"""The loader brings over so many at a time, as int64 twice: inputs and targets."""


@dataclass(frozen=True)
class Memory:
    """Bytes on the card at the moment when they are the most."""

    weights: int
    grads: int
    optimizer: int
    casts: int
    activations: int
    logits_and_loss: int
    largest_temporary: int
    context: int
    fragmentation: int
    """What the allocator holds besides what is in use: for evaluations or updates, and between blocks."""

    @property
    def allocated(self) -> int:
        """What torch calls the peak of allocated memory."""
        return self.total - self.context - self.fragmentation

    @property
    def reserved(self) -> int:
        return self.total - self.context

    @property
    def total(self) -> int:
        return sum(self.components.values())

    @property
    def components(self) -> dict[str, int]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


def memory_of(setup: Setup, calibration: Calibration) -> Memory:
    if setup.kernels == "fused":
        peak = fused_peak(setup, calibration.multiprocessors)
        workspaces = 3 if setup.cuda_graph else 1  # a stream each: the trial, the capture, and what replays
    else:
        peak = autograd_peak(setup)
        workspaces = 2  # cuBLAS and cuBLASLt
    beside = workspaces * calibration.workspace_bytes + _tokens(setup)
    return Memory(
        weights=peak.weights,
        grads=peak.grads,
        optimizer=peak.optimizer,
        casts=peak.casts,
        activations=peak.activations,
        logits_and_loss=peak.logits_and_loss,
        largest_temporary=peak.largest_temporary + beside,
        context=calibration.context_bytes,
        fragmentation=_fragmentation(setup, peak, calibration),
    )


def _fragmentation(setup: Setup, peak: Peak, calibration: Calibration) -> int:
    """A CUDA graph keeps its memory to itself, so that an evaluation or an update needs its own beside it."""
    beside = max(evaluation_bytes(setup), setup.step_cost.temporary_bytes) if setup.cuda_graph else 0
    idle = idle_bytes(setup, peak) if setup.kernels == "autograd" else 0
    return beside + idle + ceil(calibration.fragmentation_share * peak.total)


def _tokens(setup: Setup) -> int:
    """Of the loader, one portion in use and one on its way; of a graph, its own copy of a micro-batch."""
    batches = max(1, min(LOADED_BATCHES, LOADED_TOKENS // setup.positions))
    loaded = 2 * batches * setup.positions * 16
    return loaded + (setup.positions * 16 if setup.cuda_graph else 0)
