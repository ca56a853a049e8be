"""A micro-step captured as a CUDA graph: one launch for hundreds of kernels."""

from collections.abc import Callable

import torch
from torch import Tensor


class Graph:
    """Replays `step` on whatever batch it is given, of the shape that it was captured with."""

    def __init__(self, step: Callable[[Tensor, Tensor], None], inputs: Tensor, targets: Tensor) -> None:
        """`step` must have run before, so that nothing is compiled or measured while it is captured."""
        self._batch = torch.stack([inputs, targets])
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            step(*self._batch.unbind())

    def __call__(self, inputs: Tensor, targets: Tensor) -> None:
        self._batch[0].copy_(inputs)
        self._batch[1].copy_(targets)
        self._graph.replay()

    def fits(self, inputs: Tensor) -> bool:
        return inputs.shape == self._batch.shape[1:]
