"""Bytes of live storages and their peak while real code runs on tensors that have sizes and no memory.

So the arithmetic of costs/ is held against the trainer's own code at full size, without a GPU. What differs
on CUDA is not here: blocks of 512 bytes and of 2 MiB, workspaces of cuBLAS and cuDNN, and the context.
"""

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from tests.costs.operations import as_on_cuda
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanodyno.config import ModelShape
from nanodyno.costs.setup import Setup
from nanodyno.model.attention import BACKENDS
from nanodyno.model.fused import MicroStepPlan
from nanodyno.model.fused_modern import make_step
from nanodyno.model.loss import head_loss
from nanodyno.model.matmul import Units
from nanodyno.model.modern import make_model
from nanodyno.train.evaluate import rows_at_once

MULTIPROCESSORS = 132
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Live(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._hold(tensor.untyped_storage())
        return out

    def _hold(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._sizes:
            return
        self._sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


@contextmanager
def counted() -> Iterator[Live]:
    with FakeTensorMode(), Live() as live:
        yield live


class _NoLaunch:
    """In the place of a Triton kernel: its caller has allocated what it needs, and that is all we ask."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_, **__: None


@dataclass
class _Attended:
    """Allocates as cudnn_attention.py does, with cuDNN's workspace as costs/ assumes it."""

    out: Tensor
    qkv: Tensor
    log_sums: Tensor

    def backward(self, dout_NC: Tensor) -> Tensor:
        gradient = torch.empty_like(self.qkv)
        torch.empty(4 * dout_NC.numel() + 4 * self.log_sums.numel(), dtype=torch.uint8)
        return gradient


def _attend(qkv: Tensor, sequences: int, heads: int) -> _Attended:
    del sequences
    rows, width = qkv.shape
    return _Attended(torch.empty(rows, width // 3, dtype=qkv.dtype), qkv, torch.empty(rows * heads))


def without_launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The Triton kernels' own callers, whose launches do nothing."""
    gpu = pytest.importorskip("nanodyno.model.kernels.gpu")
    from nanodyno.model.kernels import embedding, gelu, loss, norm, quantise, relu, rope, values

    for module in (embedding, gelu, loss, norm, quantise, relu, rope, values):
        for name in [name for name, value in vars(module).items() if type(value).__name__ == "JITFunction"]:
            monkeypatch.setattr(module, name, _NoLaunch())

    def rows(_device: object, width: int, stream: torch.dtype) -> int:
        return MULTIPROCESSORS * max(1, norm.LANES_PER_PROCESSOR[stream] // (1 << (width - 1).bit_length()))

    monkeypatch.setattr(gpu, "partial_rows", rows)
    return gpu


def _no_product(a: Tensor, b: Tensor, out: Tensor, add: bool, units: Units | None = None) -> None:
    """Into memory that the caller has."""
    del a, b, out, add, units


def fused_peak_of_code(setup: Setup, kernels: Any) -> int:
    """Of a real micro-step, without moments."""
    plan = MicroStepPlan(
        half=DTYPES[setup.dtype],
        residual=DTYPES[setup.residual_dtype],
        attention=_attend,
        loss_chunk_size=setup.loss_chunk_size or setup.positions,
        recompute=setup.recompute,
        kernels=kernels,
        fp8=setup.fp8,
        multiply=_no_product,
    )
    with counted() as live:
        step = make_step(make_model(setup.shape), plan)
        inputs = torch.zeros(setup.batch_size, setup.shape.block_size, dtype=torch.int64)
        step.begin(1.0)
        live.peak = live.now
        step(inputs, inputs)
        return live.peak - inputs.numel() * 8


def autograd_peaks_of_code(setup: Setup) -> tuple[int, int]:
    """Of a real eager micro-step with gradients in place and without moments; and what an evaluation adds."""
    half = torch.float16  # as_on_cuda's, of the same size
    with counted() as live:
        model = make_model(setup.shape)
        model.loss_chunk_size = setup.loss_chunk_size
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        inputs = torch.zeros(setup.batch_size, setup.shape.block_size, dtype=torch.int64)
        live.peak = live.now
        with as_on_cuda(setup):
            loss = model(inputs, inputs)
        loss.backward()
        del loss
        peak, live.peak, before = live.peak, live.now, live.now
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", half, setup.dtype != "float32", cache_enabled=False):
            model(inputs, inputs, rows_at_once(model))
        return peak - inputs.numel() * 8, live.peak - before


def saved_by_a_compiled_step(setup: Setup) -> int:
    """Bytes that torch's partitioner, which compilation uses too, keeps from the forward for the backward."""
    half = DTYPES[setup.dtype]
    model = make_model(setup.shape)
    model.loss_chunk_size = setup.loss_chunk_size
    if setup.shape.dropout:  # on a CPU torch's own would keep a matrix of scores, as no card does
        for block in model.blocks:
            cast(Any, block).attention.attend = BACKENDS["torch"]
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    inputs = torch.zeros(setup.batch_size, setup.shape.block_size, dtype=torch.int64)
    torch.compiler.reset()
    compiled = torch.compile(model, dynamic=False, backend="aot_eager_decomp_partition")
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", half, half != torch.float32):
        loss = compiled(inputs, inputs)
    del loss
    return sum(tensor.untyped_storage().nbytes() for key, tensor in kept.items() if key not in own)


def peak_of_a_compiled_loss(setup: Setup) -> int:
    """By rows, compiled in earnest by inductor for the CPU, whose allocator's every step is recorded."""
    N, C, V = setup.positions, setup.shape.n_embd, setup.shape.vocab_size
    rows = setup.rows
    hidden, head = torch.randn(N, C, requires_grad=True), torch.randn(V, C, requires_grad=True)
    targets = torch.zeros(N, dtype=torch.int64)
    torch.compiler.reset()
    compiled = torch.compile(lambda: head_loss(hidden, head, targets, rows), dynamic=False)
    with torch.autocast("cpu", torch.bfloat16, setup.dtype != "float32"):
        compiled()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            loss = compiled()
    del loss
    found: Any = recorded.profiler
    events = [event for event in found.kineto_results.events() if event.name() == "[memory]"]
    steps = sorted((event.start_ns(), event.nbytes()) for event in events)
    return max(itertools.accumulate(count for _, count in steps))


def gpt(n_layer: int, heads: int, block_size: int, vocab_size: int, bias: bool = False) -> ModelShape:
    return ModelShape(
        n_layer=n_layer,
        n_head=heads,
        n_embd=64 * heads,
        block_size=block_size,
        vocab_size=vocab_size,
        bias=bias,
        dropout=0.0,
        gelu="exact",
    )
