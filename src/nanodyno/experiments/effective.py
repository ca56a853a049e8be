"""A short training that asks for the gradient noise and keeps nothing."""

import time
from collections.abc import Callable

from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.errors import NanodynoError
from nanodyno.records.types import StepRecord
from nanodyno.train.device import choose, take_threads
from nanodyno.train.job import DATA_FOLDER
from nanodyno.train.trainer import Trainer

Watch = Callable[[str], None]
ITERATIONS = 1000
MICRO_STEPS = 8
"""Of an iteration, where the micro-batch can be divided so."""
SHOWN_EVERY = 50


def measurable(config: RunConfig) -> RunConfig:
    """The same in micro-batches so small that the noise is soon known; nothing else changes.

    With 8 micro-steps the demo's interval is half as wide as with its 2 (LOG.md); of its signal, 8 leave a
    seventh more variance than any number would, and 2 twice of it (docs/noise.md).
    """
    steps = config.gradient_accumulation_steps
    if steps == config.batch_size == 1:
        raise NanodynoError(
            "batch_size=1 is all of the iteration, and cannot be divided: noise is what differs between "
            "micro-steps",
            "give --tokens_per_iter for two micro-steps or more",
        )
    parts = [n for n in range(1, config.batch_size + 1) if config.batch_size % n == 0]
    into = next((n for n in parts if n * steps >= MICRO_STEPS), parts[-1])
    values = config.model_dump(exclude={"gradient_accumulation_steps", "eval_iters"})
    return config if into == 1 else build_config(values | {"batch_size": config.batch_size // into})


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
            if clock() - began > budget_seconds or len(steps) >= ITERATIONS:
                return steps, False
    except KeyboardInterrupt:
        return steps, True
    return steps, False


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
