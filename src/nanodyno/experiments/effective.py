"""A short training that asks for the gradient noise and keeps nothing."""

import time
from collections.abc import Callable

from nanodyno.analysis.noise_scale import latest
from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.errors import NanodynoError
from nanodyno.records.types import StepRecord
from nanodyno.train.device import choose, take_threads
from nanodyno.train.job import DATA_FOLDER
from nanodyno.train.trainer import Trainer

Watch = Callable[[str], None]
ENOUGH = 1000
"""Iterations after which it ends as soon as the noise scale has settled."""
SHOWN_EVERY = 50


def measurable(config: RunConfig) -> RunConfig:
    """The same with at least two micro-steps an iteration; nothing else changes."""
    if config.gradient_accumulation_steps > 1:
        return config
    if config.batch_size % 2:
        raise NanodynoError(
            f"batch_size={config.batch_size} is all of the iteration, and cannot be halved: noise is what "
            "differs between micro-steps",
            "give --tokens_per_iter for two micro-steps or more",
        )
    values = config.model_dump(exclude={"gradient_accumulation_steps", "eval_iters"})
    return build_config(values | {"batch_size": config.batch_size // 2})


def short_training(
    config: RunConfig, budget_seconds: float, watch: Watch, clock: Callable[[], float] = time.monotonic
) -> tuple[list[StepRecord], bool]:
    """Its steps, and whether Ctrl-C ended it; it also ends with the budget, or when there is enough."""
    steps: list[StepRecord] = []
    began = clock()
    try:
        trainer = _trainer(config, watch)
        for event in trainer.events():
            if isinstance(event, StepRecord):
                steps.append(event)
                if len(steps) % SHOWN_EVERY == 0:
                    watch(f"{len(steps)} iterations, loss {event.loss:.4f}")
                    if len(steps) >= ENOUGH and _has_settled(steps):
                        return steps, False
            if clock() - began > budget_seconds:
                watch(f"ended by the budget after {len(steps)} iterations")
                return steps, False
    except KeyboardInterrupt:
        return steps, True
    watch(f"ended with the config's own {len(steps)} iterations (--max_iters)")
    return steps, False


def _has_settled(steps: list[StepRecord]) -> bool:
    scale = latest(steps)
    return scale is not None and scale.settled


def _trainer(config: RunConfig, watch: Watch) -> Trainer:
    """Evaluations would only take time: the one before the first iteration reads next to nothing.

    The learning rate is held after its warm-up: while it falls, the noise tells nothing about the batch.
    """
    take_threads(config.threads)
    values = config.model_dump(exclude={"eval_iters", "gradient_accumulation_steps", "wsd_decay_fraction"})
    held = {"eval_interval": config.max_iters, "eval_tokens": config.block_size, "schedule": "constant"}
    quick = build_config(values | held)
    dataset = resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size, watch)
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(quick, dataset, vocab_size, choose(quick))
    if trainer.engine.needs_preparation:
        watch("preparing the micro-step")
        trainer.warm_up()
    return trainer
