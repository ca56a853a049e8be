"""The training loop: micro-steps, updates, evaluations and checkpoints of one run, as a stream of events."""

import gc
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nanodyno.config import RunConfig
from nanodyno.data.loader import Loader, Windows
from nanodyno.data.shards import Dataset
from nanodyno.errors import RunFailed
from nanodyno.model.gpt import GPT
from nanodyno.model.optimizer import make_optimizer, set_learning_rate
from nanodyno.records.events import Saved
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.schedule import learning_rate_at
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint, Progress
from nanodyno.train.device import DTYPES, Choice, Clock, peak_memory, reset_peak_memory
from nanodyno.train.evaluate import mean_loss


@dataclass(frozen=True)
class Compiled:
    """How compilation went; a failure leaves the run eager and says why."""

    worked: bool
    seconds: float
    reason: str | None = None


class Trainer:
    """One run in memory. Construct it, `warm_up` it, then take its `events`."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, vocab_size: int, choice: Choice, checkpoints: Path
    ) -> None:
        self.config = config
        self.dataset = dataset
        self.device = choice.device
        self.dtype = DTYPES[choice.dtype]
        self.checkpoints = checkpoints
        self.iteration = 0
        self.sequences = 0
        self.saved_at: int | None = None
        self.clock = Clock(self.device)
        self.train_windows, self.val_windows = (
            Windows(dataset.split(split), config.block_size, vocab_size, config.seed)
            for split in ("train", "val")
        )
        torch.manual_seed(config.seed)
        self.model = GPT(config.model_shape(vocab_size)).to(self.device)
        self.loss = self.model
        self.optimizer = make_optimizer(self.model, config)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=choice.dtype == "float16")
        self._share = torch.tensor(1 / config.gradient_accumulation_steps, device=self.device)

    def restore(self, saved: Checkpoint) -> None:
        checkpoint.load_model(saved, self.model)
        checkpoint.load_optimizer(saved, self.model, self.optimizer)
        checkpoint.set_rng_state(checkpoint.load_rng(saved), self.device)
        if saved.progress.scaler:
            self.scaler.load_state_dict(saved.progress.scaler)
        self.iteration = self.saved_at = saved.progress.iteration
        self.sequences = saved.progress.sequences

    def warm_up(self) -> Compiled:
        """Compiles by one micro-step whose gradients are thrown away, so that no iteration's time holds it.

        Where compilation fails and the same micro-step works without, the run goes on without.
        """
        rng = checkpoint.rng_state(self.device)
        began = self.clock.seconds()
        reason = None
        try:
            self.loss = torch.compile(self.model, dynamic=False)
            self._trial_micro_step()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, OSError, ImportError) as error:  # another cause shows again just below
            reason = _last_words(error)
            self.loss = self.model
            self._trial_micro_step()
        checkpoint.set_rng_state(rng, self.device)
        return Compiled(reason is None, self.clock.seconds() - began, reason)

    def events(self) -> Iterator[StepRecord | EvalRecord | Saved]:
        """From where the run stands to its end; an evaluation precedes the iteration it is named after.

        A checkpoint is saved after its evaluation, so a resumed run does not evaluate there again.
        """
        if self.config.eval_only:
            yield self.evaluate()
            return
        resumed_at = self.iteration if self.iteration else None
        reset_peak_memory(self.device)
        with (
            Loader(self.train_windows, self.config.batch_size, self.device, self.sequences) as loader,
            _no_gc(),
        ):
            while self.iteration < self.config.max_iters:
                if self.iteration % self.config.eval_interval == 0 and self.iteration != resumed_at:
                    yield from self._evaluate_and_save()
                step = self._step(loader)
                yield step
                self._refuse_broken_loss(step.loss, step.iteration)
            if self.iteration != resumed_at:
                yield from self._evaluate_and_save()

    def evaluate(self) -> EvalRecord:
        config = self.config
        began = self.clock.seconds()
        with self._autocast():
            val_loss, val_tokens = mean_loss(
                self.model, self.val_windows, config.eval_tokens, config.batch_size
            )
            train_loss, train_tokens = mean_loss(
                self.model, self.train_windows, config.eval_tokens, config.batch_size
            )
        eval_seconds = self.clock.seconds() - began
        reset_peak_memory(self.device)
        return EvalRecord(
            iteration=self.iteration,
            val_loss=val_loss,
            train_loss=train_loss,
            val_tokens=val_tokens,
            train_tokens=train_tokens,
            eval_seconds=eval_seconds,
            wall_time=time.time(),
        )

    def save(self) -> Saved:
        began = self.clock.seconds()
        folder = checkpoint.folder_for(self.checkpoints, self.iteration)
        about = Checkpoint(
            folder,
            self.model.shape,
            Progress(self.iteration, self.sequences, self.scaler.state_dict()),
            self.dataset.vocab_size,
            self.dataset.tokenizer,
        )
        checkpoint.save(about, self.model, self.optimizer, checkpoint.rng_state(self.device))
        self.saved_at = self.iteration
        return Saved(folder, self.iteration, self.clock.seconds() - began)

    def _evaluate_and_save(self) -> Iterator[EvalRecord | Saved]:
        record = self.evaluate()
        yield record
        self._refuse_broken_loss(record.val_loss + record.train_loss, self.iteration)
        if self.iteration:
            yield self.save()
        gc.collect()

    def _step(self, loader: Loader) -> StepRecord:
        """One iteration. The clock is read before the first micro-step and after the update has ended."""
        config = self.config
        learning_rate = learning_rate_at(config, self.iteration)
        waited = loader.wait_seconds
        began = self.clock.seconds()
        set_learning_rate(self.optimizer, learning_rate)
        loss = self._accumulate(loader)
        grad_norm, skipped = self._update()
        mean, norm = torch.stack([loss, loss if grad_norm is None else grad_norm]).tolist()
        step_seconds = self.clock.seconds() - began
        peak = peak_memory(self.device)
        record = StepRecord(
            iteration=self.iteration,
            loss=mean,
            grad_norm=None if grad_norm is None else norm,
            learning_rate=learning_rate,
            tokens=config.tokens_per_iter,
            step_seconds=step_seconds,
            data_seconds=loader.wait_seconds - waited,
            update_skipped=skipped,
            peak_allocated_bytes=peak.allocated,
            peak_reserved_bytes=peak.reserved,
            peak_host_bytes=peak.host,
            wall_time=time.time(),
        )
        self.iteration += 1
        self.sequences += config.batch_size * config.gradient_accumulation_steps
        return record

    def _accumulate(self, loader: Loader) -> Tensor:
        """Gradients of the mean loss over all micro-steps, and that loss."""
        weight = self.scaler.scale(self._share)
        total = torch.zeros((), device=self.device)
        for _ in range(self.config.gradient_accumulation_steps):
            inputs, targets = next(loader)
            with self._autocast():
                loss = self.loss(inputs, targets)
            loss.backward(gradient=weight)
            total += loss.detach()
        return total * self._share

    def _update(self) -> tuple[Tensor | None, bool]:
        """Clips and applies the gradients; the norm before clipping, and whether fp16 overflowed."""
        grad_norm = None
        if self.config.grad_clip > 0:
            self.scaler.unscale_(self.optimizer)
            grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        scale_before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return grad_norm, self.scaler.get_scale() < scale_before

    def _trial_micro_step(self) -> None:
        positions = np.arange(self.sequences, self.sequences + self.config.batch_size)
        inputs, targets = (
            torch.from_numpy(part).to(self.device) for part in self.train_windows.batch(positions)
        )
        with self._autocast():
            self.loss(inputs, targets).backward()
        self.optimizer.zero_grad(set_to_none=True)

    def _refuse_broken_loss(self, loss: float, iteration: int) -> None:
        """A loss that is not a number never comes back; what was saved before it is still good."""
        if not math.isfinite(loss):
            saved = "nothing is saved" if self.saved_at is None else f"iteration {self.saved_at} is saved"
            raise RunFailed(
                f"the loss became {loss} at iteration {iteration}",
                f"{saved}; try a lower --learning_rate or a longer --warmup_iters",
            )

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)


@contextmanager
def _no_gc() -> Iterator[None]:
    """The collector would stop the loop at moments of its own; the trainer calls it after evaluations."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def _last_words(error: BaseException) -> str:
    """The first line of the innermost cause: what torch wraps around it repeats itself."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
