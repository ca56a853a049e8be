"""What effective batch the gradient noise of a run calls for: now, and on its way to the end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nanodyno.analysis.noise_scale import (
    Heading,
    NoiseScalePoint,
    before_decay,
    course,
    heading,
    latest,
    served,
)
from nanodyno.config import RunConfig
from nanodyno.noise import MIDDLE, SERVED, WIDEST, NoiseScale
from nanodyno.records.types import StepRecord

MOST_STEPS = 6

Verdict = Literal["not-measured", "not-settled", "small", "within", "open", "large"]
"""within: of the critical batch range. open: outside of it, by no more than the interval leaves open."""

Lack = Literal["no-iteration", "one-micro-step", "no-sample"]


@dataclass(frozen=True)
class BatchSizeAdvice:
    verdict: Verdict
    scale: NoiseScale | None
    tokens_per_iter: int
    """That the run has, at its last iteration."""
    critical_batch_range: tuple[float, float] | None
    suggested: int | None
    """The doubling of one sequence next to the middle of the critical batch range."""
    batch_size: int | None
    """The largest micro-batch, up to the config's, that divides it."""
    token_cost_ratio: float | None
    """Tokens to the same loss over those of the smallest batch, by the theory: 1 + batch / scale."""
    points: tuple[NoiseScalePoint, ...]
    heading: Heading | None
    ramp: tuple[tuple[int, int], ...]
    """Steps of a batch_ramp that would keep in the middle, as far as the heading is known."""
    decayed_at: int | None = None
    """Updates after which the learning rate fell below half of its peak: nothing later is in the scale."""
    lack: Lack | None = None
    """Why nothing was measured."""


def advise_batch(steps: Sequence[StepRecord], config: RunConfig) -> BatchSizeAdvice:
    held = before_decay(steps)
    scale = latest(held)
    decayed_at = held[-1].iteration + 1 if len(held) < len(steps) else None
    has = steps[-1].tokens if steps else config.tokens_per_iter
    points = tuple(course(held))
    if scale is None or not scale.settled or scale.tokens is None:
        verdict: Verdict = "not-measured" if scale is None else "not-settled"
        lack = _lacking(steps) if scale is None else None
        return BatchSizeAdvice(
            verdict, scale, has, None, None, None, None, points, None, (), decayed_at, lack
        )
    low, high = served(scale)
    seen = sum(step.tokens for step in steps)
    ends_at = config.ramp.tokens_after(config.max_iters)
    if config.ramp.most is not None:
        ends_at = seen + (config.max_iters - steps[-1].iteration - 1) * has
    heads = heading(points, ends_at) if ends_at > seen else None
    suggested = _doubling(MIDDLE * scale.tokens, config.block_size)
    return BatchSizeAdvice(
        verdict=_judged(has, scale),
        scale=scale,
        tokens_per_iter=has,
        critical_batch_range=(low, high),
        suggested=suggested,
        batch_size=_dividing(suggested // config.block_size, config.batch_size),
        token_cost_ratio=1 + has / scale.tokens,
        points=points,
        heading=heads,
        ramp=_ramp(heads, suggested),
        decayed_at=decayed_at,
    )


def _lacking(steps: Sequence[StepRecord]) -> Lack:
    if not steps:
        return "no-iteration"
    return "one-micro-step" if all(step.micro_steps == 1 for step in steps) else "no-sample"


def _judged(has: int, scale: NoiseScale) -> Verdict:
    """Small and large are what would be so anywhere in the interval."""
    assert scale.low is not None
    assert scale.high is not None
    low, high = served(scale)
    if low <= has <= high:
        return "within"
    if SERVED[0] * scale.low <= has <= SERVED[1] * scale.high:
        return "open"
    return "small" if has < low else "large"


def _doubling(request: float, one: int) -> int:
    """one * 2^n next to the wish on a logarithmic scale, and not below one."""
    return one * 2 ** max(0, round(math.log2(request / one)))


def _dividing(sequences: int, most: int) -> int:
    return next(size for size in range(min(most, sequences), 0, -1) if sequences % size == 0)


def _ramp(heads: Heading | None, first: int) -> tuple[tuple[int, int], ...]:
    """The tokens at which the middle comes to each doubling, where the heading is known well and rises."""
    if heads is None or heads.exponent <= 0 or heads.high > WIDEST * heads.low:
        return ()
    sizes = (first * 2**n for n in range(1, MOST_STEPS + 1))
    shares = ((size / MIDDLE / heads.tokens, size) for size in sizes)
    # One or more comes at the end or after it: how long after, no number holds where the scale hardly rises.
    steps = ((heads.tokens_seen * share ** (1 / heads.exponent), size) for share, size in shares if share < 1)
    return tuple((round(since), size) for since, size in steps if since >= 1)
