"""A micro-step captured as a CUDA graph: one launch for hundreds of kernels."""

from collections.abc import Callable

import torch
from torch import Tensor


def captured(
    work: Callable[[], None],
    device: torch.device,
    stream: torch.cuda.Stream | None = None,
    beside: torch.cuda.CUDAGraph | None = None,
) -> torch.cuda.CUDAGraph:
    """`work` as a graph. Other threads may use the card meanwhile: one of them pins memory for the loader.

    Many graphs are best captured on one `stream`: torch keeps a workspace for each that saw a product. What
    `beside` computes in between may be written over, where both were captured on one stream.
    """
    graph = torch.cuda.CUDAGraph()
    stream = stream or torch.cuda.Stream(device)
    before = torch.cuda.current_stream(device)
    try:
        pool = None if beside is None else beside.pool()
        with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
            work()
    finally:
        torch.cuda.set_stream(before)  # a capture that failed would leave its own
    return graph


def replay_seconds(graph: torch.cuda.CUDAGraph) -> float:
    return event_seconds(graph.replay)


def event_seconds(work: Callable[[], object]) -> float:
    """By the card's own clock."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    work()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / 1000


class Graph:
    """Replays `step` on whatever batch it is given, of the shape that it was captured with."""

    def __init__(self, step: Callable[[Tensor, Tensor], None], inputs: Tensor, targets: Tensor) -> None:
        """`step` must have run before, so that nothing is compiled or measured while it is captured."""
        self._batch = torch.stack([inputs, targets])
        self._stream = torch.cuda.Stream(inputs.device)
        self._graph = captured(lambda: step(*self._batch.unbind()), inputs.device, self._stream)

    def __call__(self, inputs: Tensor, targets: Tensor) -> None:
        self._batch[0].copy_(inputs)
        self._batch[1].copy_(targets)
        self._graph.replay()

    def and_then(self, work: Callable[[], None]) -> Callable[[], None]:
        """What is done after replays, as a replay of its own, in the memory that these no longer need."""
        return captured(work, self._batch.device, self._stream, self._graph).replay

    def fits(self, inputs: Tensor) -> bool:
        return inputs.shape == self._batch.shape[1:]
