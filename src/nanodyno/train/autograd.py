"""The micro-step by torch's autograd, compiled or not: for every device and precision."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from nanodyno.config import ModelShape, RunConfig
from nanodyno.model.batched import WithAdamW, make_optimizer
from nanodyno.model.modern import ModernGPT
from nanodyno.model.optimizer import set_learning_rate
from nanodyno.train.attention import fastest_attention
from nanodyno.train.device import DTYPES, Clock, DeviceChoice, is_out_of_memory, on_mps
from nanodyno.train.engine import DeviceBatch, Engine, Gradients, Prepared, first_half, last_words
from nanodyno.train.parallel import exchange_gradients, replicate, whole
from nanodyno.train.processes import Processes

COMPILED_WELL = ("cudnn", "flash")
"""Backends that a compiled model calls as they are, and that share heads of keys and values."""


class AutogradEngine(Engine):
    """`loss` is what a micro-step calls: the model, compiled or not."""

    def __init__(
        self, config: RunConfig, shape: ModelShape, choice: DeviceChoice, processes: Processes
    ) -> None:
        super().__init__(config, shape, choice, processes)
        self.needs_preparation = config.compile and not on_mps(self.device)
        self.model.loss_chunk_size = config.loss_chunk_size
        self._attention_seconds: tuple[tuple[str, float], ...] = ()
        self._use_attention(None if config.attention == "auto" else config.attention)
        if isinstance(self.model, ModernGPT) and config.residual_dtype != "float32":
            self.model.residual = DTYPES[config.residual_dtype]
        self.loss: Callable[[Tensor, Tensor], Tensor] = self.model
        self._wrapped = False
        self.optimizer = self._torch_optimizer = make_optimizer(self.model, config)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=choice.dtype == "float16")

    def prepare(self, batch: DeviceBatch, clock: Clock) -> Prepared:
        """Compiles by one micro-step whose gradients are thrown away, so that no iteration's time holds it.

        Where compilation fails and the same micro-step works without, the run goes on without.
        """
        began = clock.seconds()
        self._choose_attention(batch[0].shape[0])
        reason = None
        module = self.loss
        try:
            module = self.loss if self._wrapped else torch.compile(self.model, dynamic=False)
        except RuntimeError as error:  # a torch that cannot compile at all
            reason = last_words(error)
        reason = reason or self._fault(module, batch)
        if self.processes.largest(int(reason is not None), self.device):  # all of them, or none
            reason, module = reason or "it failed in another process", self.model
            if self.config.attention == "auto":  # which may have been one that is compiled
                self._use_attention(None)
        if reason is not None or not self._wrapped:
            self._use(module)
        if reason is not None or self.processes.count > 1:
            self._trial(self.loss, batch)
        notes = () if reason is None else (_reported(reason),)
        if isinstance(self._torch_optimizer, WithAdamW):
            own = self._torch_optimizer.own
            if reason is not None:
                own.do_not_compile()
            notes += self.compile_own(own, own.warm_up)
        return Prepared(
            clock.seconds() - began, reason is None, self._attention, self._attention_seconds, notes=notes
        )

    def get_ready(self) -> None:
        if not self._wrapped:
            self._use(self.model)

    def gradients(
        self, batches: Iterator[DeviceBatch], micro_steps: int, with_micro_norm: bool = False
    ) -> Gradients:
        share = torch.tensor(1 / micro_steps, device=self.device)
        weight, half = self.scaler.scale(share), first_half(micro_steps)
        total = torch.zeros((), device=self.device)
        squares = torch.zeros((), device=self.device)
        for step in range(micro_steps):
            self._exchange(step == micro_steps - 1)
            inputs, targets = next(batches)
            with self.autocast():
                loss = self.loss(inputs, targets)
            loss.backward(gradient=weight)
            total += loss.detach()
            if step + 1 == half and with_micro_norm:
                squares = (self._norm() / (half * weight)).square()
        mean, square = self.processes.sum(torch.stack([total * share, squares])) / self.processes.count
        self.scaler.unscale_(self._torch_optimizer)
        loss, norm, micro = torch.stack([mean, self._clipped_norm(), square.sqrt()]).tolist()
        return Gradients(loss, norm, micro if with_micro_norm else None)

    def update(self, learning_rate: float) -> bool:
        set_learning_rate(self.optimizer, learning_rate)
        scale_before = self.scaler.get_scale()
        self.scaler.step(self._torch_optimizer)
        self.scaler.update()
        self._torch_optimizer.zero_grad(set_to_none=True)
        return self.scaler.get_scale() >= scale_before

    def drop_gradients(self) -> None:
        self._torch_optimizer.zero_grad(set_to_none=True)
        if self.scaler.is_enabled():
            state = self.scaler.state_dict()
            self.scaler = torch.amp.GradScaler(self.device.type)
            self.scaler.load_state_dict(state)

    def let_go(self) -> None:
        """Nothing: a compiled model is kept for each shape."""

    def _clipped_norm(self) -> Tensor:
        """The gradient's norm before clipping; measured without clipping too, as it may be no number."""
        parameters = list(self.model.parameters())
        if self.config.grad_clip > 0:
            return whole(torch.nn.utils.clip_grad_norm_(parameters, self.config.grad_clip))
        return whole(self._norm())

    def _norm(self) -> Tensor:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def _use(self, module: Callable[..., Tensor]) -> None:
        if self.processes.count > 1 and not self.sharded:
            assert isinstance(module, nn.Module)
            module = replicate(module, self.device)
        self.loss = module
        self._wrapped = True

    def _use_attention(self, name: str | None) -> None:
        """None is torch's own choice."""
        self._attention = name
        self.model.use_attention(name or "torch")

    def _choose_attention(self, sequences: int) -> None:
        """For a model that the fused way does not know, and on a card: flex where there is a window, since it
        leaves out what lies before and compiles with the rest; else the fastest, measured with as many heads
        of keys as of queries."""
        shape, half = self.model.shape, self.dtype != torch.float32
        asked = self.config.attention != "auto"
        if asked or shape.is_gpt2 or shape.dropout or self.device.type != "cuda" or not half:
            return
        if shape.window is not None:
            self._use_attention("flex")
            return
        heads = (sequences, shape.n_head, shape.block_size, shape.head_size)
        measured = fastest_attention(heads, self.dtype, self.device).seconds
        self._attention_seconds = tuple(each for each in measured if each[0] in COMPILED_WELL)
        self._use_attention(self._attention_seconds[0][0] if self._attention_seconds else None)

    def _exchange(self, wanted: bool) -> None:
        if self.processes.count > 1:
            holder = self.model if self.sharded else self.loss
            assert isinstance(holder, nn.Module)
            exchange_gradients(holder, wanted)

    def _fault(self, module: Callable[..., Tensor], batch: DeviceBatch) -> str | None:
        """Why it does not compile, or None; asks nothing of the other processes, which may fare otherwise."""
        try:
            if self.sharded:  # the model itself cannot run without the others
                torch.compile(torch.sin)(torch.ones(8, device=self.device))
            else:
                self._trial(module, batch)
        except (RuntimeError, OSError, ImportError) as error:  # another cause shows again without compilation
            if is_out_of_memory(error):
                raise
            return last_words(error)
        return None

    def _trial(self, module: Callable[..., Tensor], batch: DeviceBatch) -> None:
        """A micro-step that leaves no trace; shares that are not exchanged would be kept for the next."""
        self._exchange(True)
        with self.autocast():
            module(*batch).backward()
        self._torch_optimizer.zero_grad(set_to_none=True)


def _reported(reason: str) -> str:
    note = f"torch.compile failed, so training runs uncompiled and slower: {reason}"
    if "compile" in reason.lower():
        note += " (it needs a C++ compiler and Python's headers; --compile=False turns it off)"
    return note
