"""The micro-step written by hand, on Triton kernels and launched as one CUDA graph."""

import gc
from collections.abc import Iterator, Mapping
from subprocess import SubprocessError
from types import ModuleType

import torch
from torch import Tensor

from nanodyno.config import ModelShape, RunConfig
from nanodyno.config.optimizers import OPTIMIZERS
from nanodyno.costs.setup import Recompute
from nanodyno.model.attention import packed
from nanodyno.model.cublaslt import CublasError
from nanodyno.model.flat_adamw import clip_coefficient, gradient_norm
from nanodyno.model.flat_update import FlatUpdate, make_flat_optimizer
from nanodyno.model.fused import RECOMPUTE, MicroStepPlan
from nanodyno.model.fused_modern import make_step
from nanodyno.model.kernels import plain
from nanodyno.model.matmul import by_torch
from nanodyno.model.optimizer import set_learning_rate
from nanodyno.train.attention import FastestAttention, fastest_attention
from nanodyno.train.device import (
    DTYPES,
    Clock,
    DeviceChoice,
    allocated_memory,
    free_cached_memory,
    is_out_of_memory,
    peak_memory,
    reset_peak_memory,
)
from nanodyno.train.engine import DeviceBatch, Engine, Gradients, Prepared, first_half, last_words
from nanodyno.train.evaluate import rows_at_once
from nanodyno.train.gemm_autotuning import gemm_autotuner
from nanodyno.train.graph import Graph
from nanodyno.train.processes import Processes

LOGITS_SHARE = 1 / 32
"""Of the card's memory that the logits of one go may take: larger goes are faster, up to MOST_ROWS."""
FEWEST_ROWS, MOST_ROWS = 1024, 16384
FP8_TRIALS = 2
"""The second has the factors that the first one found."""


class FusedEngine(Engine):
    """Gradients lie in one stretch of memory and are never let go of, only set to zero."""

    def __init__(
        self, config: RunConfig, shape: ModelShape, choice: DeviceChoice, processes: Processes, triton: bool
    ) -> None:
        super().__init__(config, shape, choice, processes)
        self._notes: list[str] = []
        named = None if config.attention == "auto" else config.attention
        self._attention: str = named or ("flash" if self.device.type == "cuda" else "torch")
        self._recompute: Recompute = self._least_recompute()
        self._triton = triton
        self._products, self._no_products = gemm_autotuner(config.gemm_algorithm, self.device)
        self.step = make_step(self.model, self._plan())
        self.optimizer = self._update = make_flat_optimizer(
            self.model, self.step.flat, config, self._kernels()
        )
        self._own = self._update.own if isinstance(self._update, FlatUpdate) else None
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=False)
        self._given_scales = False
        """Whether fp8's factors are those of a run under way, and not to be found anew."""
        self._graph: Graph | None = None
        self._clip = torch.ones((), device=self.device)

    def prepare(self, batch: DeviceBatch, clock: Clock) -> Prepared:
        """One micro-step that leaves no trace: compiles the kernels, and finds what fits into memory."""
        began = clock.seconds()
        self._notes[:] = self._no_products
        self.let_go()
        self._update.adopt()  # the moments' memory is not there for activations
        fastest = self._choose_attention(batch[0])
        if self._own is not None:
            self._notes += self.compile_own(self._own, self._own.rehearse)
        self._fit(batch)
        if self.processes.largest(int(not self._triton), self.device) and self._triton:
            self._leave_triton("it failed in another process")  # replicas must round alike
            self._fit(batch)
        return Prepared(
            seconds=clock.seconds() - began,
            compiled=False,
            attention=self._attention,
            attention_seconds=fastest.seconds if fastest else (),
            recompute=self._recompute,
            cuda_graph=self._graph is not None,
            triton=self._triton,
            gemm_algorithm="measured"
            if self._products is not None and self._products.has_learnt
            else "torch",
            notes=tuple(self._notes),
        )

    def get_ready(self) -> None:
        """There is nothing that the first micro-step would not do."""

    def gradients(
        self, batches: Iterator[DeviceBatch], micro_steps: int, with_micro_norm: bool = False
    ) -> Gradients:
        step, flat = self.step, self.step.flat
        step.begin(1 / micro_steps)
        half = first_half(micro_steps)
        square = torch.zeros_like(step.total)
        for number in range(micro_steps):
            inputs, targets = next(batches)
            run = self._graph if self._graph and self._graph.fits(inputs) else step
            run(inputs, targets)
            if number + 1 == half and with_micro_norm:
                so_far = gradient_norm(flat).square() + step.unfinished_square()
                square = so_far * (micro_steps / half) ** 2
        step.finish()
        self.processes.average_(flat.gradients)
        both = torch.stack([step.total, square])
        self.processes.average_(both)
        norm = gradient_norm(flat)
        self._clip = clip_coefficient(norm, self.config.grad_clip)
        loss, micro_square, norm = torch.cat([both, norm[None]]).tolist()
        return Gradients(loss, norm, micro_square**0.5 if with_micro_norm else None)

    def update(self, learning_rate: float) -> bool:
        set_learning_rate(self.optimizer, learning_rate)
        self._update.step(clip=self._clip)
        self._given_scales = True
        return True

    def drop_gradients(self) -> None:
        self.step.drop()

    def scales(self) -> dict[str, float | int]:
        return self.step.matmuls.factors()

    def take_scales(self, saved: Mapping[str, float | int]) -> None:
        self._given_scales = self.step.matmuls.take_factors(saved)

    def let_go(self) -> None:
        self._drop_graphs()
        self.graph_bytes = 0
        self._recompute = self._least_recompute()
        self.step.use(self._plan())

    def _drop_graphs(self) -> None:
        self._graph = None
        if isinstance(self._update, FlatUpdate):
            self._update.let_go()

    def _least_recompute(self) -> Recompute:
        return RECOMPUTE[0] if self.config.recompute == "auto" else self.config.recompute

    def _plan(self) -> MicroStepPlan:
        return MicroStepPlan(
            half=self.dtype,
            residual=DTYPES[self.config.residual_dtype],
            attention=packed(self._attention),
            loss_chunk_size=self.config.loss_chunk_size or self._rows(),
            recompute=self._recompute,
            fp8=self.config.fp8,
            kernels=self._kernels(),
            multiply=self._products or by_torch,
        )

    def _kernels(self) -> ModuleType:
        if not self._triton:
            return plain
        from nanodyno.model.kernels import gpu

        return gpu

    def _rows(self) -> int:
        if self.device.type != "cuda":
            return FEWEST_ROWS
        memory = torch.cuda.get_device_properties(self.device).total_memory
        memory *= torch.cuda.get_per_process_memory_fraction(self.device)
        row = self.model.shape.vocab_size * self.dtype.itemsize
        rows = int(memory * LOGITS_SHARE / row) // FEWEST_ROWS * FEWEST_ROWS
        return min(max(rows, FEWEST_ROWS), MOST_ROWS)

    def _choose_attention(self, inputs: Tensor) -> FastestAttention | None:
        if self.config.attention != "auto" or self.device.type != "cuda":
            return None
        (B, T), H = inputs.shape, self.model.shape.n_head
        fastest = fastest_attention((B, H, T, self.model.shape.head_size), self.dtype, self.device)
        self._attention = fastest.name
        self.step.use(self._plan())
        return fastest

    def _fit(self, batch: DeviceBatch) -> None:
        """Tries; makes more again where memory runs out, unless the config says how much."""
        while not self._fits(batch):
            self._drop_graphs()
            self._recompute = RECOMPUTE[RECOMPUTE.index(self._recompute) + 1]
            self.step.use(self._plan())
            gc.collect()
            free_cached_memory(self.device)

    @property
    def _can_climb(self) -> bool:
        return self.config.recompute == "auto" and self._recompute != RECOMPUTE[-1]

    def _fits(self, batch: DeviceBatch) -> bool:
        """A micro-step and an optimizer's own step, the graphs of both, and beside those an evaluation."""
        try:
            self._trial(batch)
            self._capture(batch)
            self._capture_update()
            self._evaluate(batch)
            return True
        except _faults(self._triton) as error:
            if is_out_of_memory(error) and self._can_climb:
                return False
            of_products = isinstance(error, CublasError)
            if is_out_of_memory(error) or not (of_products or self._triton):
                raise
            reason = last_words(error)
        if of_products:
            self._leave_products(reason)
        else:
            self._leave_triton(reason)
        return self._fits(batch)

    def _leave_triton(self, reason: str) -> None:
        self._triton = False
        self._drop_graphs()
        self.step.use(self._plan())
        self._update.use(plain)
        self._notes.append(f"a kernel failed, so torch's own run instead, slower: {reason}")

    def _leave_products(self, reason: str) -> None:
        self._products = None
        self._drop_graphs()
        self.step.use(self._plan())
        self._notes.append(f"a measured matrix product failed, so torch chooses them, slower: {reason}")

    def _trial(self, batch: DeviceBatch) -> None:
        """A micro-step that leaves no trace but its peak of memory, and fp8's first factors."""
        factors = self.step.matmuls.factors()
        try:
            self._learn_products(batch)
            before = allocated_memory(self.device)
            reset_peak_memory(self.device)
            for _ in range(FP8_TRIALS if self.config.fp8 else 1):
                self._micro_step(batch)
            self._update.warm_up()
            self.graph_bytes = (peak_memory(self.device).allocated or 0) - before
        finally:
            self.step.drop()
            if self._given_scales:
                self.step.matmuls.take_factors(factors)

    def _learn_products(self, batch: DeviceBatch) -> None:
        """What the measuring has no memory for is left to torch: the run itself may yet have enough."""
        if self._products is None:
            return
        try:
            with self._products.learning():
                self._micro_step(batch)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        free_cached_memory(self.device)

    def _micro_step(self, batch: DeviceBatch) -> None:
        self.step.begin(1.0)
        self.step(*batch)

    def _capture(self, batch: DeviceBatch) -> None:
        """A graph has memory of its own, so that what the trial left in torch's cache is given back first."""
        if not self.config.cuda_graph or self.device.type != "cuda":
            return
        free_cached_memory(self.device)
        try:
            self._graph = Graph(self.step, *batch)
        except RuntimeError as error:
            if is_out_of_memory(error) and self._can_climb:
                raise
            free_cached_memory(self.device)
            self._notes.append(f"no CUDA graph, so small micro-batches run slower: {last_words(error)}")
        self.step.drop()

    def _capture_update(self) -> None:
        """Of an optimizer's own step, else many launches while the GPU waits for the next iteration."""
        if self._own is None:
            return
        before = allocated_memory(self.device)
        reset_peak_memory(self.device)
        self._own.rehearse()  # takes its memory, and nothing is compiled while a graph is captured
        if self._graph is None:
            return
        assert isinstance(self._update, FlatUpdate)
        try:
            taken = (peak_memory(self.device).allocated or 0) - before
            self._update.capture(self._graph.and_then)
            self.graph_bytes = max(self.graph_bytes, taken)
        except RuntimeError as error:
            if is_out_of_memory(error) and self._can_climb:
                raise
            free_cached_memory(self.device)
            label = OPTIMIZERS[self.config.optimizer].label
            self._notes.append(f"no CUDA graph of {label}'s step, slower: {last_words(error)}")

    @torch.no_grad()
    def _evaluate(self, batch: DeviceBatch) -> None:
        """What a graph holds is not there for an evaluation."""
        with self.autocast(cache_enabled=False):
            self.model(*batch, rows_at_once(self.model))


def _faults(triton: bool) -> tuple[type[Exception], ...]:
    """Triton calls a C compiler and the driver, and its own errors are no RuntimeErrors."""
    if not triton:
        return MemoryError, RuntimeError
    from triton import TritonError

    return MemoryError, RuntimeError, OSError, ImportError, SubprocessError, TritonError
