"""The arithmetic of an iteration: a model, its optimiser and the gradients of many micro-steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nanodyno.config import ModelShape, RunConfig
from nanodyno.data.loader import Windows
from nanodyno.model.gpt import GPT
from nanodyno.model.optimizer import make_optimizer, set_learning_rate
from nanodyno.train.device import DTYPES, Choice, Clock, is_out_of_memory
from nanodyno.train.evaluate import summed_loss
from nanodyno.train.parallel import exchange_gradients, give_back, local, replicate, shard, whole
from nanodyno.train.processes import Processes

DeviceBatch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Compiled:
    """How compilation went; a failure leaves the run eager and says why."""

    worked: bool
    seconds: float
    reason: str | None = None


class Engine:
    """Everything whose state is tensors. `loss` is what a micro-step calls: the model, compiled or not."""

    def __init__(self, config: RunConfig, shape: ModelShape, choice: Choice, processes: Processes) -> None:
        self.device = choice.device
        self.dtype = DTYPES[choice.dtype]
        self.processes = processes
        self.sharded = config.parallel == "fsdp" and processes.count > 1
        self.grad_clip = config.grad_clip
        torch.manual_seed(config.seed)
        self.model = GPT(shape)
        if self.sharded:
            shard(self.model, self.device, processes.count)
        self.model.to(self.device)
        self.loss: Callable[[Tensor, Tensor], Tensor] = self.model
        self._wrapped = False
        self.optimizer = make_optimizer(self.model, config)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=choice.dtype == "float16")

    def warm_up(self, batch: DeviceBatch, clock: Clock) -> Compiled:
        """Compiles by one micro-step whose gradients are thrown away, so that no iteration's time holds it.

        Where compilation fails and the same micro-step works without, the run goes on without.
        """
        began = clock.seconds()
        reason = None
        module = self.loss
        try:
            module = self.loss if self._wrapped else torch.compile(self.model, dynamic=False)
        except RuntimeError as error:  # a torch that cannot compile at all
            reason = _last_words(error)
        reason = reason or self._fault(module, batch)
        if self.processes.largest(int(reason is not None), self.device):  # all of them, or none
            reason, module = reason or "it failed in another process", self.model
        if reason is not None or not self._wrapped:
            self._use(module)
        if reason is not None or self.processes.count > 1:
            self._trial(self.loss, batch)
        return Compiled(reason is None, clock.seconds() - began, reason)

    def get_ready(self) -> None:
        """For a run that compiles nothing."""
        if not self._wrapped:
            self._use(self.model)

    def gradients(self, batches: Iterator[DeviceBatch], micro_steps: int) -> tuple[float, float]:
        """Of the mean loss over all micro-steps of all processes; that loss, and the norm before clipping."""
        share = torch.tensor(1 / micro_steps, device=self.device)
        weight = self.scaler.scale(share)
        total = torch.zeros((), device=self.device)
        for step in range(micro_steps):
            self._exchange(step == micro_steps - 1)
            inputs, targets = next(batches)
            with self.autocast():
                loss = self.loss(inputs, targets)
            loss.backward(gradient=weight)
            total += loss.detach()
        mean = self.processes.sum(total * share) / self.processes.count
        self.scaler.unscale_(self.optimizer)
        loss, norm = torch.stack([mean, self._clipped_norm()]).tolist()
        return loss, norm

    def update(self, learning_rate: float) -> bool:
        """Applies the gradients; False when fp16 had overflowed, so that the weights stay as they are."""
        set_learning_rate(self.optimizer, learning_rate)
        scale_before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return self.scaler.get_scale() >= scale_before

    def drop_gradients(self) -> None:
        """As if the iteration had not been."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.scaler.is_enabled():
            state = self.scaler.state_dict()
            self.scaler = torch.amp.GradScaler(self.device.type)
            self.scaler.load_state_dict(state)

    def mean_loss(
        self, windows: Windows, tokens: int, batch_size: int, asked_to_stop: Callable[[], bool]
    ) -> tuple[float, int]:
        """On evenly spread windows; replicas divide them, shares of one model go through them together."""
        rank, count = self.processes.rank, self.processes.count
        part = (0, 1) if self.sharded else (rank, count)
        with self.autocast():
            total, seen = summed_loss(self.model, windows, tokens, batch_size, part, asked_to_stop)
        give_back(self.model)
        if not self.sharded and count > 1:
            both = self.processes.sum(torch.stack([total, torch.full_like(total, seen)]))
            total, seen = both[0], int(both[1].item())
        return total.item() / seen, seen

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def weights_are_finite(self) -> bool:
        mine = all(bool(local(parameter).isfinite().all()) for parameter in self.model.parameters())
        return not self.processes.largest(int(not mine), self.device)

    def _clipped_norm(self) -> Tensor:
        """The gradient's norm before clipping; measured without clipping too, as it may be no number."""
        parameters = list(self.model.parameters())
        if self.grad_clip > 0:
            return whole(torch.nn.utils.clip_grad_norm_(parameters, self.grad_clip))
        return whole(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))

    def _use(self, module: Callable[..., Tensor]) -> None:
        if self.processes.count > 1 and not self.sharded:
            assert isinstance(module, nn.Module)
            module = replicate(module, self.device)
        self.loss = module
        self._wrapped = True

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
            return _last_words(error)
        return None

    def _trial(self, module: Callable[..., Tensor], batch: DeviceBatch) -> None:
        """A micro-step that leaves no trace; shares that are not exchanged would be kept for the next."""
        self._exchange(True)
        with self.autocast():
            module(*batch).backward()
        self.optimizer.zero_grad(set_to_none=True)


def _last_words(error: BaseException) -> str:
    """The first line of the innermost cause: what torch wraps around it repeats itself."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
