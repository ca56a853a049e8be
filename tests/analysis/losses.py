"""Curves with a known end: drawn from the law itself, with numbers of their own."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.analysis.accounts import account

from nanodyno.analysis.account import Account, AccountEval
from nanodyno.analysis.forecast_law import Array, Schedule, Shape, annealed, elapsed

SHAPE = Shape(pace=0.1, reach=0.4, fading=0.25, bend=0.55)
LEVEL, SCALE, EXPONENT, DROP = 3.0, 25.0, 0.48, 0.2


def cosine(updates: int, warmup: int = 100, floor: float = 0.1) -> Schedule:
    at = np.arange(updates)
    fall = floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * (at - warmup) / (updates - warmup)))
    return Schedule(6e-4 * np.where(at < warmup, (at + 1) / (warmup + 1), fall))


def true_loss(schedule: Schedule, updates: Array, level: float = LEVEL) -> Array:
    fallen = annealed(schedule, updates, SHAPE)
    return level + SCALE * elapsed(schedule, updates) ** -EXPONENT - DROP * fallen


def with_losses(
    until: int,
    every: int = 200,
    max_iters: int = 10_000,
    loss: Callable[[Array], Array] | None = None,
    **more: Any,
) -> Account:
    """A run on FineWeb that has come so far under nanoGPT's cosine."""
    settings = {
        "learning_rate": 6e-4, "min_lr": 6e-5, "warmup_iters": 100, "lr_decay_iters": max_iters,
        "max_iters": max_iters, "decay_lr": True, "schedule": "cosine", "dataset": "fineweb",
        "eval_interval": every,
    } | more.pop("settings", {})  # fmt: skip
    places = np.arange(every, until + 1, every, dtype=np.float64)
    values = (loss or (lambda at: true_loss(cosine(max_iters), at)))(places)
    evals = tuple(AccountEval(int(at), float(value)) for at, value in zip(places, values, strict=True))
    return account(evals=evals, steps=more.pop("steps", ()), settings=settings, **more)
