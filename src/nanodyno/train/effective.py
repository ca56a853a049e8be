"""The effective batch of each iteration: fixed, by a schedule or by the gradient noise that is measured."""

import math
from collections import deque

from pydantic import BaseModel, ConfigDict

from nanodyno.config import RunConfig
from nanodyno.noise import ENOUGH, HELD, KEPT, MIDDLE, WINDOW, Sample, noise_scale, recent, sample
from nanodyno.records.types import StepRecord
from nanodyno.schedule import batch_factor

MEASURED_TOKENS = 32_768
"""Of a process on a card between two measurements. Reading all gradients once more, 4 bytes a parameter
beside 6 FLOP a parameter and token, takes 2/3 * FLOP/s / (bytes/s) / tokens of the time: under 1% from this
on, as no card of the table has 490 FLOP a byte."""
LOOKS = 10
"""Measurements between two looks at what they say."""


class BatchRampState(BaseModel):
    """What the next size depends on where the noise decides, as a checkpoint keeps it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    tokens_per_iter: int
    waited: int
    """Measurements since it last grew."""
    samples: tuple[tuple[float, float], ...]


class EffectiveBatch:
    """Asked before each iteration, and told what came of it."""

    def __init__(self, config: RunConfig, device_type: str) -> None:
        self._config = config
        self._ramp = config.ramp
        self._block_size = config.block_size
        self._reading_is_dear = device_type != "cpu"
        self._now = self._ramp.first
        self._waited = 0
        self._samples: deque[Sample] = deque(maxlen=2 * KEPT)  # `recent` takes the later half

    def sequences(self, seen: int) -> int:
        """Of the iteration that begins after so many sequences."""
        if self._ramp.most is None:
            self._now = self._ramp.at(seen * self._block_size)
        elif self._may_double():
            self._now, self._waited = 2 * self._now, 0
        return self._now // self._block_size

    def is_measured(self, iteration: int, micro_steps: int, micro_tokens: int) -> bool:
        """Whether this iteration reads its gradients half-way; never with one micro-step."""
        if micro_steps < 2:
            return False
        every = math.ceil(MEASURED_TOKENS / (micro_steps * micro_tokens)) if self._reading_is_dear else 1
        return iteration % every == 0

    def learn(self, step: StepRecord) -> None:
        measured = self._ramp.most is not None and step.skipped is None and not self._decays(step)
        if not measured or step.micro_grad_norm is None or step.micro_tokens is None:
            return
        assert step.grad_norm is not None
        found = sample(step.micro_grad_norm, step.micro_tokens, step.grad_norm, step.tokens)
        if found is not None:
            self._samples.append(found)
            self._waited += 1

    def _decays(self, step: StepRecord) -> bool:
        """Whether the rate has fallen so far that the noise scale rises for that alone."""
        peak = self._config.learning_rate * batch_factor(step.tokens, self._ramp.first)
        return step.iteration >= self._config.warmup_iters and step.learning_rate < HELD * peak

    def growth(self) -> BatchRampState | None:
        """None where nothing depends on the past but the place in the data."""
        if self._ramp.most is None:
            return None
        pairs = tuple((each.signal, each.noise) for each in self._samples)
        return BatchRampState(tokens_per_iter=self._now, waited=self._waited, samples=pairs)

    def restore(self, saved: BatchRampState | None) -> None:
        if saved is not None and self._ramp.most is not None:
            while 2 * self._now <= saved.tokens_per_iter:  # another first size is gone on from by doubling
                self._now *= 2
            self._waited = saved.waited
            self._samples.extend(Sample(*pair) for pair in saved.samples)

    def _may_double(self) -> bool:
        """Into the middle of what serves, within it even by the lower end, and not too soon after the last.

        Far below the scale a batch shows no signal: then there is a lower end and no other, and it is enough.
        """
        assert self._ramp.most is not None
        looked_at = self._waited >= WINDOW and self._waited % LOOKS == 0
        if not looked_at or 2 * self._now > self._ramp.most:
            return False
        scale = noise_scale(recent(tuple(self._samples)))
        if scale is None or scale.samples < ENOUGH:
            return False
        middle = math.inf if scale.tokens is None else MIDDLE * scale.tokens
        return min(middle, scale.low or 0.0) >= 2 * self._now
