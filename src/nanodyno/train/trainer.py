"""The training loop: iterations and evaluations of one run, as a stream of events.

The caller writes what comes, and calls `save` at each SavePoint. Everything that training depends on is in a
checkpoint, or a function of the seed and the iteration, so that a resumed run goes on to the bit.
"""

import gc
import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from nanodyno.config import RunConfig
from nanodyno.data.loader import Windows
from nanodyno.data.shards import Dataset
from nanodyno.records.types import (
    EvalRecord,
    SaveReason,
    SaveRecord,
    SplitRecord,
    StepRecord,
    StopReason,
)
from nanodyno.train import checkpoint, collector
from nanodyno.train.batches import Batches
from nanodyno.train.checkpoint import Checkpoint, TrainingProgress
from nanodyno.train.device import (
    Clock,
    DeviceChoice,
    free_cached_memory,
    is_out_of_memory,
    reset_peak_memory,
)
from nanodyno.train.engine import Prepared
from nanodyno.train.evaluate import Interrupted
from nanodyno.train.kernels import make_engine
from nanodyno.train.processes import Processes
from nanodyno.train.spike_guard import MOST_SKIPS_IN_A_ROW, Diverged, what_happened
from nanodyno.train.stepper import Stepper
from nanodyno.train.stops import STOPS, Limits, Stops

Result = TypeVar("Result")


@dataclass(frozen=True)
class SavePoint:
    """The state between two iterations is to be saved now."""

    reason: SaveReason


TrainerEvent = StepRecord | EvalRecord | SplitRecord | SavePoint


class Trainer:
    """One run in memory. Construct it, `warm_up` it, then take its `events`."""

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        vocab_size: int,
        choice: DeviceChoice,
        processes: Processes | None = None,
    ) -> None:
        self.config = config
        self.dataset = dataset
        self.device = choice.device
        self.processes = processes or Processes()
        self.iteration = 0
        self.sequences = 0
        self.saved_at: int | None = None
        self.evaluation: tuple[int, float] | None = None
        """The last one: its iteration and val loss."""
        self.clock = Clock(self.device)
        self.train_windows, self.val_windows = (
            Windows(dataset.split(split), config.block_size, vocab_size, config.seed)
            for split in ("train", "val")
        )
        self.engine = make_engine(config, config.model_shape(vocab_size), choice, self.processes)
        self._began_at = 0
        self.batches = Batches(config, self.train_windows, self.device, self.processes)
        self.stepper = Stepper(config, self.batches, self.clock, self.device.type)
        self._warm = False

    @property
    def finished(self) -> bool:
        return self.config.eval_only or (
            self.iteration >= self.config.max_iters and not self._evaluation_due()
        )

    def restore(self, saved: Checkpoint) -> None:
        checkpoint.load_model(saved, self.engine.model)
        checkpoint.load_optimizer(saved, self.engine.model, self.engine.optimizer)
        progress = saved.progress
        self.engine.take_scales(progress.scaler)
        self.stepper.restore(progress.seen, progress.growth)
        self.iteration = self.saved_at = progress.iteration
        self.sequences = progress.sequences
        if progress.val_loss is not None:
            self.evaluation = progress.iteration, progress.val_loss

    def warm_up(self) -> Prepared:
        """Compiles and measures before the first iteration, so that no iteration's time holds it."""
        positions = np.arange(self.sequences, self.sequences + self.batches.size)
        inputs, targets = (
            torch.from_numpy(part).to(self.device) for part in self.train_windows.batch(positions)
        )
        prepared = self.engine.prepare((inputs, targets), self.clock)
        self._warm = True
        return prepared

    def events(self, stops: Stops | None = None) -> Iterator[TrainerEvent]:
        """From where the run stands to its end, or to where `stops` ends it between two iterations.

        An evaluation precedes the iteration it is named after; a checkpoint follows it if worth its time.
        """
        stops = stops or Stops(Limits(autosave_seconds=None))
        if self.config.eval_only:
            yield self.evaluate()
            return
        self._began_at = self.iteration
        self.engine.get_ready()
        reset_peak_memory(self.device)
        with self.batches.loading(self.sequences), collector.quiet():
            while True:
                stop, autosave = self._agreed(stops)
                if stop:
                    yield from self._save_point("stop")
                    return
                if self._evaluation_due():
                    yield from self._evaluation(stops)
                    if self._evaluation_due():
                        continue  # given up, since the run is asked to stop
                elif autosave:
                    yield from self._save_point("autosave")
                if self.iteration >= self.config.max_iters:
                    return
                yield from self._iteration()

    def evaluate(self, asked_to_stop: Callable[[], bool] = lambda: False) -> EvalRecord:
        began = self.clock.seconds()
        tokens, size = self.config.eval_tokens, self.batches.size
        val_loss, val_tokens = self.engine.mean_loss(self.val_windows, tokens, size, asked_to_stop)
        train_loss, train_tokens = self.engine.mean_loss(self.train_windows, tokens, size, asked_to_stop)
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

    def save(self, checkpoints: Path, reason: SaveReason) -> SaveRecord:
        """All processes take part; the first one writes, and drops what need not be kept."""
        began = self.clock.seconds()
        engine, first = self.engine, self.processes.first
        progress = TrainingProgress(
            iteration=self.iteration,
            sequences=self.sequences,
            scaler=engine.scales(),
            val_loss=self.evaluation[1] if self.evaluation and self.evaluation[0] == self.iteration else None,
            seen=self.stepper.spike_guard.seen(),
            growth=self.stepper.effective.growth(),
        )
        folder = checkpoint.folder_for(checkpoints, self.iteration)
        about = Checkpoint(
            folder, engine.model.shape, progress, self.dataset.vocab_size, self.dataset.tokenizer
        )
        size = checkpoint.save(about, engine.model, engine.optimizer, first)
        if first:
            checkpoint.prune(checkpoints, self.iteration, self.config.keep_checkpoints)
        self.saved_at = self.iteration
        return SaveRecord(
            iteration=self.iteration,
            reason=reason,
            save_seconds=self.clock.seconds() - began,
            saved_bytes=size,
            wall_time=time.time(),
        )

    def _agreed(self, stops: Stops) -> tuple[bool, bool]:
        """Whether to stop and whether to save, the same in all processes: a signal may reach one of them."""
        reason = self._to_stop(stops)
        mine = 2 + STOPS.index(reason) if reason else int(self.processes.first and stops.autosave_due())
        asked = self.processes.largest(mine, self.device)
        if asked > 1:
            stops.asked = STOPS[asked - 2]
        return asked > 1, asked == 1

    def _to_stop(self, stops: Stops) -> StopReason | None:
        """A limit of time lets a process make one iteration at least: else restarts would lead nowhere."""
        return stops.asked if self.iteration == self._began_at else stops.reason()

    def _evaluation_due(self) -> bool:
        if self.evaluation is not None and self.evaluation[0] == self.iteration:
            return False
        return self.iteration % self.config.eval_interval == 0 or self.iteration == self.config.max_iters

    def _evaluation(self, stops: Stops) -> Iterator[TrainerEvent]:
        alone = self.processes.count == 1  # the others would wait for the one that gave up
        try:
            record = yield from self._within_memory(
                lambda: self.evaluate(lambda: alone and self._to_stop(stops) is not None)
            )
        except Interrupted:
            return
        yield record
        if not math.isfinite(record.val_loss + record.train_loss):
            raise Diverged(f"the val loss became {record.val_loss} at {self.iteration}", self.saved_at)
        self.evaluation = record.iteration, record.val_loss
        if self._worth_saving(stops):
            yield from self._save_point("evaluation")
        gc.collect()

    def _worth_saving(self, stops: Stops) -> bool:
        """The same in all processes, by the clock of the first; the end always is."""
        mine = int(self.processes.first and stops.save_worthwhile())
        return self.iteration >= self.config.max_iters or self.processes.largest(mine, self.device) > 0

    def _save_point(self, reason: SaveReason) -> Iterator[SavePoint]:
        """What a new run begins with needs no saving, nor what is on disk; an evaluation is news."""
        if not self.iteration or (self.saved_at == self.iteration and reason != "evaluation"):
            return
        if not self.engine.weights_are_finite():
            raise Diverged(f"the weights became NaN/inf at iteration {self.iteration}", self.saved_at)
        yield SavePoint(reason)

    def _iteration(self) -> Iterator[TrainerEvent]:
        stepper = self.stepper
        stepper.resize(self.sequences)
        step = yield from self._within_memory(lambda: stepper.step(self.engine, self.iteration))
        yield step
        if stepper.gives_up(step.skipped):  # not saved: these weights and this batch would do it again
            words = what_happened(step.skipped, step.loss, step.grad_norm)
            skipping = self.config.bad_update == "skip"
            many = f", and {MOST_SKIPS_IN_A_ROW} updates in a row were skipped" if skipping else ""
            raise Diverged(f"{words} in iteration {step.iteration + 1}{many}", self.saved_at, skipping)
        self.iteration += 1
        self.sequences += self.batches.sequences
        stepper.effective.learn(step)

    def _within_memory(self, action: Callable[[], Result]) -> Generator[SplitRecord, None, Result]:
        """Does it; where memory runs out in mid-run, tells of a smaller micro-batch and does it again."""
        while True:
            try:
                return action()
            except (MemoryError, RuntimeError) as error:
                smaller = self.batches.smaller
                # A run that begins like this has the wrong settings, and its user is there to hear it.
                if not is_out_of_memory(error) or not self.iteration or self.stepper.updating or not smaller:
                    raise
            yield self._split(smaller)

    def _split(self, smaller: int) -> SplitRecord:
        """Prepares for smaller micro-batches, or for still smaller ones where that does not fit either."""
        before, prepared = self.batches.size, None
        self.batches.stop()  # a card is not to be used by another thread while a graph is captured
        while True:
            self.batches.size = smaller
            self.engine.drop_gradients()
            self.engine.let_go()
            gc.collect()
            free_cached_memory(self.device)
            try:
                prepared = self.warm_up() if self._warm else None
                break
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or not self.batches.smaller:
                    raise
                smaller = self.batches.smaller
        self.batches.load(self.sequences)
        return SplitRecord(
            iteration=self.iteration,
            batch_size=smaller,
            batch_size_before=before,
            recompute=prepared.recompute if prepared else None,
            wall_time=time.time(),
        )
