"""One iteration: how large it is, its gradients, whether they are good, the update, and its record."""

import math
import time

import torch

from nanodyno.config import RunConfig
from nanodyno.data.order import random_words
from nanodyno.records.types import Skipped, StepRecord
from nanodyno.schedule import batch_factor, learning_rate_at
from nanodyno.train.batches import Batches
from nanodyno.train.device import Clock, peak_memory
from nanodyno.train.effective import BatchRampState, EffectiveBatch
from nanodyno.train.engine import Engine, first_half
from nanodyno.train.spike_guard import MOST_SKIPS_IN_A_ROW, SpikeGuard, SpikeGuardState

_SEED_STREAM = 2  # 0 and 1 are the data order's
SMALLEST_SCALE = 2.0**-6
"""Of fp16's losses: gradients that overflow below it are no numbers for good."""


class Stepper:
    """`updating`: the weights are neither the old nor the new, so that what fails now cannot be redone."""

    def __init__(self, config: RunConfig, batches: Batches, clock: Clock, device_type: str) -> None:
        self.config = config
        self.spike_guard = SpikeGuard(config.spike_zscore)
        self.effective = EffectiveBatch(config, device_type)
        self.updating = False
        self._batches, self._clock = batches, clock

    def restore(self, seen: SpikeGuardState, growth: BatchRampState | None) -> None:
        self.spike_guard = SpikeGuard(self.config.spike_zscore, seen)
        self.effective.restore(growth)

    def resize(self, sequences_seen: int) -> None:
        """For the iteration that begins after so many sequences."""
        self._batches.sequences = self.effective.sequences(sequences_seen)

    def step(self, engine: Engine, iteration: int) -> StepRecord:
        """The clock is read before the first micro-step and after the update has ended."""
        batches, block_size = self._batches, self.config.block_size
        loader, micro_steps = batches.loader, batches.steps
        tokens, micro_tokens = batches.sequences * block_size, batches.size * block_size
        learning_rate = learning_rate_at(self.config, iteration)
        learning_rate *= batch_factor(tokens, self.config.tokens_per_iter)
        measured = not engine.sharded and self.effective.is_measured(iteration, micro_steps, micro_tokens)
        waited = loader.wait_seconds
        began = self._clock.seconds()
        torch.manual_seed(self._seed(iteration, engine.processes.rank))
        loss, norm, micro_norm = engine.gradients(loader, micro_steps, measured)
        skipped = self._update(engine, loss, norm, learning_rate)
        step_seconds = self._clock.seconds() - began
        peak = peak_memory(engine.device, engine.graph_bytes)
        return StepRecord(
            iteration=iteration,
            loss=loss,
            grad_norm=norm,
            learning_rate=learning_rate,
            tokens=tokens,
            step_seconds=step_seconds,
            data_seconds=loader.wait_seconds - waited,
            micro_steps=micro_steps,
            micro_grad_norm=micro_norm,
            micro_tokens=None if micro_norm is None else first_half(micro_steps) * micro_tokens,
            skipped=skipped,
            peak_allocated_bytes=peak.allocated,
            peak_reserved_bytes=peak.reserved,
            peak_host_bytes=peak.host,
            wall_time=time.time(),
        )

    def gives_up(self, skipped: Skipped | None) -> bool:
        if skipped in (None, "overflow"):
            return False
        return self.config.bad_update == "stop" or self.spike_guard.skipped_in_a_row >= MOST_SKIPS_IN_A_ROW

    def _seed(self, iteration: int, rank: int) -> int:
        """Of dropout in this iteration: a function of it, so that no generator's state need be saved."""
        key = (self.config.seed, iteration)
        return int(random_words(1, key, _SEED_STREAM + rank)[0]) >> 1

    def _update(
        self, engine: Engine, loss: float, norm: float | None, learning_rate: float
    ) -> Skipped | None:
        """Judged first: what was judged bad never reaches the weights."""
        # A scaled gradient may overflow in order; the scaler then leaves the update out and scales less.
        overflows = engine.scaler.is_enabled() and norm is not None and not math.isfinite(norm)
        skipped = self.spike_guard.judge(loss, None if overflows else norm)
        if skipped is not None:
            self.spike_guard.skip()
            engine.drop_gradients()
            return skipped
        self.updating = True
        applied = engine.update(learning_rate)
        self.updating = False
        if applied:
            self.spike_guard.accept(loss, norm)
            return None
        return "overflow" if engine.scaler.get_scale() >= SMALLEST_SCALE else "not-finite"
