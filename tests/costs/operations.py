"""What torch does in a real eager micro-step, operation by operation, on tensors that have no memory.

It runs as on CUDA, where autocast lets log_softmax read half precision and write float32; float16 stands for
bfloat16, whose sizes it has, since torch does that without a card for float16 alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanodyno.costs.setup import Setup
from nanodyno.model.gpt import GPT

DTYPES = {"float32": torch.float32, "bfloat16": torch.float16}
NOT_LAUNCHED = ("aten.detach", "aten.empty", "aten.new_empty", "prim.")
WRITES_ONLY = ("zeros_like", "ones_like", "full_like", "nll_loss_backward")
READS_FEW = ("nll_loss_forward", "gather", "scatter_add_")
WRITES_THE_FIRST = ("copy_",)


def _as_on_cuda(logits: Tensor, targets: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return F.nll_loss(torch.ops.aten._log_softmax(logits, 1, logits.dtype != torch.float32), targets)


@contextmanager
def as_on_cuda(setup: Setup) -> Iterator[None]:
    with (
        patch.object(F, "cross_entropy", _as_on_cuda),
        torch.autocast("cpu", torch.float16, setup.dtype != "float32"),
    ):
        yield


@dataclass
class Operations(TorchDispatchMode):
    """Counted between products and attention, whose arithmetic has rates of its own."""

    count: int = 0
    moved_bytes: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        out = func(*args, **(kwargs or {}))
        name = str(func)
        read, written = _tensors((args, kwargs)), _tensors(out)
        mine = {tensor.untyped_storage()._cdata for tensor in read}
        is_view = all(tensor.untyped_storage()._cdata in mine for tensor in written)
        if name.startswith(NOT_LAUNCHED) or (is_view and not func._schema.is_mutable):
            return out
        self.count += 1
        if "aten.mm" not in name and "aten.addmm" not in name and "scaled_dot_product" not in name:
            self.moved_bytes += _moved(name.split(".")[1], read, written)
        return out


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _moved(name: str, read: list[Tensor], written: list[Tensor]) -> int:
    """Every tensor that is read, and every one that is written, as the kernels on a card do."""
    if name in READS_FEW:
        return 0
    if name in WRITES_ONLY:
        return _size(written)
    if name in WRITES_THE_FIRST:
        return _size(read)
    if name == "embedding":
        return 2 * _size(written)
    again = _size(read[:2]) if name == "native_layer_norm_backward" else 0  # for the weight's gradient
    return _size(read) + _size(written) + again


def _size(tensors: list[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def eager_operations(setup: Setup) -> Operations:
    """Of a micro-step after the first, so that gradients are there to be added to."""
    with FakeTensorMode():
        model = GPT(setup.shape)
        model.loss_chunk_size = setup.loss_chunk_size
        for parameter in model.parameters():
            parameter.grad = torch.empty_like(parameter)
        inputs = torch.zeros(setup.batch_size, setup.shape.block_size, dtype=torch.int64)
        with Operations() as operations:
            with as_on_cuda(setup):
                loss = model(inputs, inputs)
            loss.backward()
    return operations
