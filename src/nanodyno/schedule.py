"""The learning rate at an iteration. Pure arithmetic, since a forecast needs it as much as the trainer."""

import math
from typing import Protocol


class ScheduleSettings(Protocol):
    """The part of a RunConfig that the learning rate depends on."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def min_lr(self) -> float: ...
    @property
    def warmup_iters(self) -> int: ...
    @property
    def lr_decay_iters(self) -> int: ...
    @property
    def decay_lr(self) -> bool: ...
    @property
    def schedule(self) -> str: ...
    @property
    def wsd_decay_fraction(self) -> float: ...


def learning_rate_at(config: ScheduleSettings, iteration: int) -> float:
    """Linear warm-up, then the schedule down to min_lr at lr_decay_iters, then min_lr.

    As nanoGPT, iteration 0 has a learning rate above zero: warm-up climbs in warmup_iters + 1 steps.
    """
    peak, floor = config.learning_rate, config.min_lr
    if not config.decay_lr:
        return peak
    if iteration < config.warmup_iters:
        return peak * (iteration + 1) / (config.warmup_iters + 1)
    if config.schedule == "constant":
        return peak
    if iteration > config.lr_decay_iters:
        return floor
    return floor + _share_left(config, iteration) * (peak - floor)


def _share_left(config: ScheduleSettings, iteration: int) -> float:
    """How far above min_lr: 1 is learning_rate, held until the decay starts; 0 comes at lr_decay_iters."""
    start = config.warmup_iters
    if config.schedule == "wsd":
        start = max(start, round(config.lr_decay_iters * (1 - config.wsd_decay_fraction)))
    if iteration <= start:
        return 1.0
    progress = (iteration - start) / (config.lr_decay_iters - start)
    return 0.5 * (1 + math.cos(math.pi * progress)) if config.schedule == "cosine" else 1 - progress


def batch_factor(tokens: int, tokens_per_iter: int) -> float:
    """What the learning rate of an iteration of so many tokens is multiplied with: the root of its growth.

    learning_rate belongs to tokens_per_iter. AdamW divides by the gradient's own size, so that its steps in
    one direction add up with the number of samples and its steps astray with the root of it: the same path
    per token takes the root (Malladi and others, 2022).
    """
    return math.sqrt(tokens / tokens_per_iter)
