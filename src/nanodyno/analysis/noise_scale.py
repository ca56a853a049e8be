"""The gradient noise scale of a run, from its records: what it is now, how it went, where it heads.

docs/noise.md says what it means and how well it was found to name a batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nanodyno.analysis.student import t_quantile
from nanodyno.noise import (
    ENOUGH,
    HELD,
    LONGEST,
    REACH,
    SERVED,
    WINDOW,
    NoiseScale,
    Sample,
    noise_scale,
    sample,
    whole_scale,
)
from nanodyno.records.imported import AnyStep
from nanodyno.records.types import StepRecord

SHORTEST = ENOUGH + ENOUGH // 2
"""Measured iterations of a stretch."""
FEWEST_POINTS = 4
"""For a line through them."""


@dataclass(frozen=True)
class NoiseScalePoint:
    """The noise scale over a stretch of the run, and how far that had come in its middle."""

    tokens_seen: float
    loss: float
    """The mean of those iterations: that of a single one is mostly noise."""
    scale: NoiseScale


@dataclass(frozen=True)
class Heading:
    """Where the noise scale goes: a power of the tokens seen, fitted to the run so far."""

    exponent: float
    tokens_seen: int
    """At which it is foretold."""
    tokens: float
    low: float
    high: float
    points: int


def measured(steps: Sequence[AnyStep]) -> list[tuple[StepRecord, Sample]]:
    """The steps that tell of the noise; one whose update was left out does not count."""
    return [
        (step, found)
        for step in steps
        if isinstance(step, StepRecord) and step.skipped is None and (found := _sample(step)) is not None
    ]


def _sample(step: StepRecord) -> Sample | None:
    if step.micro_grad_norm is None or step.micro_tokens is None or step.grad_norm is None:
        return None
    return sample(step.micro_grad_norm, step.micro_tokens, step.grad_norm, step.tokens)


def latest(steps: Sequence[AnyStep]) -> NoiseScale | None:
    """By the later half of the run; None where none was measured."""
    return whole_scale([found for _, found in measured(steps)])


def before_decay(steps: Sequence[StepRecord]) -> Sequence[StepRecord]:
    """As far as the learning rate, less what a larger batch adds to it, was HELD of its highest or more."""
    rates = [step.learning_rate / math.sqrt(step.tokens) for step in steps]
    highest = max(rates, default=0.0)
    last = next((at for at in range(len(rates), 0, -1) if rates[at - 1] >= HELD * highest), 0)
    return steps[:last]


def served(scale: NoiseScale) -> tuple[float, float]:
    """The effective batches that a settled noise scale calls for, in tokens."""
    assert scale.tokens is not None
    return SERVED[0] * scale.tokens, SERVED[1] * scale.tokens


def course(steps: Sequence[AnyStep]) -> list[NoiseScalePoint]:
    """Over stretches that lengthen by half, as it moves with the logarithm; settled ones only."""
    pairs = measured(steps)
    seen = _tokens_seen(steps)
    points: list[NoiseScalePoint] = []
    start = 0
    while start + SHORTEST <= len(pairs):
        end = start + max(SHORTEST, start // 2)
        part = pairs[start : end if end + SHORTEST <= len(pairs) else None]
        window = max(WINDOW, min(LONGEST, len(part) // REACH))
        scale = noise_scale([found for _, found in part], window)
        if scale is not None and scale.settled:
            middle = part[max(len(part) // 2, len(part) - window)][0]  # about where the weights have theirs
            losses = [step.loss for step, _ in part[-window:]]
            points.append(NoiseScalePoint(seen[middle.iteration], math.fsum(losses) / len(losses), scale))
        start += len(part)
    return points


def heading(points: Sequence[NoiseScalePoint], tokens_seen: int) -> Heading | None:
    """The line through the logarithms, read where the run will end; None where they are too few to tell."""
    if len(points) < FEWEST_POINTS or tokens_seen <= points[-1].tokens_seen:
        return None
    x = [math.log(point.tokens_seen) for point in points]
    y = [math.log(point.scale.tokens) for point in points if point.scale.tokens]
    mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
    spread = math.fsum((each - mx) ** 2 for each in x)
    slope = math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / spread
    rest = math.fsum((b - my - slope * (a - mx)) ** 2 for a, b in zip(x, y, strict=True)) / (len(x) - 2)
    far = math.log(tokens_seen) - mx
    half = t_quantile(len(x) - 2, 0.95) * math.sqrt(rest * (1 / len(x) + far**2 / spread))
    at = my + slope * far
    return Heading(slope, tokens_seen, math.exp(at), math.exp(at - half), math.exp(at + half), len(x))


def _tokens_seen(steps: Sequence[AnyStep]) -> dict[int, float]:
    seen: dict[int, float] = {}
    total = 0.0
    for step in steps:
        total += step.tokens or 0
        seen[step.iteration] = total
    return seen
