"""A short training that asks for the gradient noise and keeps nothing."""

import time
from collections.abc import Callable

from nanodyno.analysis.noise_scale import measured
from nanodyno.config import RunConfig, changed, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.errors import NanodynoError
from nanodyno.noise import Sample, whole_scale
from nanodyno.records.events import Notify
from nanodyno.records.types import StepRecord
from nanodyno.train.device import choose, take_threads
from nanodyno.train.job import DATA_FOLDER
from nanodyno.train.trainer import Trainer

SOONEST = 500
"""Iterations before the first look at whether the noise scale has settled."""
LOOKED_EVERY = 50


def measurable(config: RunConfig) -> RunConfig:
    """The same with at least two micro-steps an iteration; nothing else changes."""
    if config.gradient_accumulation_steps > 1:
        return config
    if config.batch_size % 2:
        raise NanodynoError(
            f"batch_size={config.batch_size} is the whole iteration and cannot be halved: gradient "
            "noise needs at least two micro-steps",
            "raise --tokens_per_iter, or lower --batch_size",
        )
    return changed(config, batch_size=config.batch_size // 2)


def short_training(
    config: RunConfig, budget_seconds: float, watch: Notify, clock: Callable[[], float] = time.monotonic
) -> tuple[list[StepRecord], bool]:
    """Its steps, and whether Ctrl-C ended it; it also ends with the budget, or when there is enough."""
    steps: list[StepRecord] = []
    settling = _Settling()
    began = clock()
    try:
        trainer = _trainer(config, watch)
        for event in trainer.events():
            if isinstance(event, StepRecord):
                steps.append(event)
                if len(steps) % LOOKED_EVERY == 0:
                    watch(f"{len(steps)} iterations, loss {event.loss:.4f}")
                if settling.is_enough_with(event):
                    return steps, False
            if clock() - began > budget_seconds:
                watch(f"ended by the budget after {len(steps)} iterations")
                return steps, False
    except KeyboardInterrupt:
        return steps, True
    watch(f"ended with the config's own {len(steps)} iterations (--max_iters)")
    return steps, False


class _Settling:
    """Enough is what has settled at one look and has so at twice as many iterations too.

    What is settled at the first of many looks is mostly what came out too low.
    """

    def __init__(self) -> None:
        self._samples: list[Sample] = []
        self._done = 0
        self._again_at: int | None = None

    def is_enough_with(self, step: StepRecord) -> bool:
        self._samples += (found for _, found in measured([step]))
        self._done += 1
        if self._again_at is None:
            if self._done >= SOONEST and self._done % LOOKED_EVERY == 0 and self._has_settled():
                self._again_at = 2 * self._done
        elif self._done == self._again_at:
            self._again_at = None
            return self._has_settled()
        return False

    def _has_settled(self) -> bool:
        scale = whole_scale(self._samples)
        return scale is not None and scale.settled


def _trainer(config: RunConfig, watch: Notify) -> Trainer:
    """Evaluations would only take time: the one before the first iteration reads next to nothing.

    The learning rate is held after its warm-up: while it falls, the noise tells nothing about the batch.
    """
    take_threads(config.threads)
    wsd = RunConfig.model_fields["wsd_decay_fraction"].default
    quick = changed(
        config,
        eval_interval=config.max_iters,
        eval_tokens=config.block_size,
        schedule="constant",
        wsd_decay_fraction=wsd,
    )
    dataset = resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size, watch)
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(quick, dataset, vocab_size, choose(quick))
    if trainer.engine.needs_preparation:
        watch("preparing the micro-step")
        trainer.warm_up()
    return trainer
