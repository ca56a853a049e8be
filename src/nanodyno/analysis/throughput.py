"""How fast a run went: medians over its steady steps, and the yardsticks to hold a rate against."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from nanodyno.analysis.peaks import card_of
from nanodyno.analysis.statistics import Interval, median_interval
from nanodyno.analysis.stretches import stretches
from nanodyno.costs.flops import NANOGPT_PEAK_FLOPS, flops_per_token, nanogpt_flops_per_token
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.records.imported import AnyStep, ImportedStep
from nanodyno.records.types import RunRecord, StepRecord

WARMUP_STEPS = 3
ENOUGH_STEPS = 8
PACE_STEPS = 100

S = TypeVar("S", bound=AnyStep)


def training_seconds(step: AnyStep) -> float | None:
    """What an iteration took; None where a foreign log does not tell, or tells it with an evaluation in."""
    if isinstance(step, ImportedStep) and step.overhead is not None:
        return None
    return step.step_seconds


def steady_steps(steps: Sequence[S], resumed_at_iterations: Sequence[int] = ()) -> list[S]:
    """The steps whose time counts: without the first three of the run and of every stretch.

    A stretch begins with a resume, or with micro-batches of another size. In its first steps the allocator
    finds its blocks, the optimiser creates its state and kernels are loaded. When that leaves fewer than
    eight in all, only the first of each stretch is dropped, so that a short run still has a rate. Empty when
    the run ended inside its warm-up. Of a foreign log the import has marked what does not count.
    """
    timed = [step for step in steps if training_seconds(step) is not None]
    if timed and isinstance(timed[0], ImportedStep):
        return timed
    parts = stretches(timed, resumed_at_iterations)
    steady = [step for stretch in parts for step in stretch[WARMUP_STEPS:]]
    if len(steady) < ENOUGH_STEPS:
        steady = [step for stretch in parts for step in stretch[1:]]
    return steady


def step_seconds(steps: Sequence[AnyStep], resumed_at_iterations: Sequence[int] = ()) -> Interval | None:
    """Median over steady steps with its interval; None when the run ended inside its warm-up."""
    return seconds_of(steady_steps(steps, resumed_at_iterations))


def seconds_of(steady: Sequence[AnyStep]) -> Interval | None:
    return median_interval(_seconds(steady))


def tokens_per_second(steps: Sequence[AnyStep], resumed_at_iterations: Sequence[int] = ()) -> Interval | None:
    """Median over steady steps with its interval; None when the run ended inside its warm-up."""
    return rate_of(steady_steps(steps, resumed_at_iterations))


def rate_of(steady: Sequence[AnyStep]) -> Interval | None:
    """Tokens per second."""
    per_token = median_interval(
        [seconds / step.tokens for step in steady if step.tokens and (seconds := training_seconds(step))]
    )
    return None if per_token is None else per_token.inverse()


def pace_seconds(steps: Sequence[AnyStep], resumed_at_iterations: Sequence[int] = ()) -> float | None:
    """The time of an iteration now, for what is still to come: of the last stretch as soon as it is steady.

    A run that went on with more processes or smaller micro-batches goes on at that speed.
    """
    steady = steady_steps(steps, resumed_at_iterations)
    if not steady:
        return None
    latest = _seconds(stretches(steps, resumed_at_iterations)[-1][WARMUP_STEPS:]) or _seconds(steady)
    return statistics.median(latest[-PACE_STEPS:])


def micro_step_seconds(steady: Sequence[AnyStep], micro_steps: int | None) -> float | None:
    """Median over the steady steps with micro-batches of the last size; None without any.

    micro_steps stands in where a step does not tell its own.
    """
    if not steady:
        return None
    now = steady[-1].micro_steps
    parts = now or micro_steps
    if parts is None:
        return None
    return statistics.median(_seconds([step for step in steady if step.micro_steps == now])) / parts


def _seconds(steps: Sequence[AnyStep]) -> list[float]:
    return [seconds for step in steps if (seconds := training_seconds(step)) is not None]


def mfu(tokens_per_second: float, flops_per_token: float, peak_flops: float) -> float:
    """A rate as a fraction of a peak; name the peak and the FLOP formula wherever it is shown."""
    return tokens_per_second * flops_per_token / peak_flops


@dataclass(frozen=True)
class Yardstick:
    """What a run's speed is held against; it stays the same for the whole run."""

    flops_per_token: int
    """Exact and causal, with the tokenizer's own vocabulary."""
    nanogpt_flops_per_token: int
    micro_steps: int
    """Of each process in an iteration, as planned: a step may tell of more and smaller ones."""
    processes: int
    """Each on a card of its own."""
    card_name: str | None
    """None, as is peak_flops, on a CPU, for a card not in the table and for a dtype its tensor cores lack."""
    peak_flops: float | None
    """Of all cards together."""
    ceiling_flops: float | None = None
    """Measured in large products, of all devices together; None where it was never measured."""

    @classmethod
    def of(cls, record: RunRecord, ceilings: Ceilings | None = None) -> Self:
        shape = record.config.model_shape(record.vocab_size)
        card = card_of(record.machine)
        peak = card.peak_flops(record.arithmetic.dtype) if card else None
        processes = record.arithmetic.processes
        ceiling = ceilings.matmul_flops(record.arithmetic.dtype) if ceilings else None
        return cls(
            flops_per_token=flops_per_token(shape, record.data.vocab_size),
            nanogpt_flops_per_token=nanogpt_flops_per_token(shape),
            micro_steps=record.config.gradient_accumulation_steps // processes,
            processes=processes,
            card_name=card.name if card and peak else None,
            peak_flops=peak * processes if peak else None,
            ceiling_flops=ceiling * processes if ceiling else None,
        )

    def card_share(self, tokens_per_second: float) -> float | None:
        """The exact rate of work as a fraction of the cards' datasheet peak."""
        if self.peak_flops is None:
            return None
        return mfu(tokens_per_second, self.flops_per_token, self.peak_flops)

    def ceiling_share(self, tokens_per_second: float) -> float | None:
        """The same as a fraction of the measured ceiling."""
        if self.ceiling_flops is None:
            return None
        return mfu(tokens_per_second, self.flops_per_token, self.ceiling_flops)

    def nanogpt_mfu(self, tokens_per_second: float) -> float:
        """What nanoGPT would print, as a fraction: its own formula against an A100, whatever the card.

        Of several processes each prints its own share.
        """
        return mfu(tokens_per_second / self.processes, self.nanogpt_flops_per_token, NANOGPT_PEAK_FLOPS)


@dataclass(frozen=True)
class Rates:
    """The speed of the last few steps, for a display."""

    step_seconds: float
    micro_step_seconds: float
    tokens_per_second: float
    flops_per_second: float
    card_share: float | None
    card_name: str | None
    ceiling_share: float | None
    processes: int
    nanogpt_mfu: float


def rates(recent_steps: Sequence[StepRecord], yardstick: Yardstick) -> Rates | None:
    """Medians over a short window that the caller keeps (a deque); None while it is empty.

    Cheap enough for every iteration. At the start of a run the window holds its warm-up, which the median
    forgets after a few steps.
    """
    if not recent_steps:
        return None
    seconds = statistics.median([step.step_seconds for step in recent_steps])
    rate = recent_steps[-1].tokens / seconds
    return Rates(
        step_seconds=seconds,
        micro_step_seconds=seconds / (recent_steps[-1].micro_steps or yardstick.micro_steps),
        tokens_per_second=rate,
        flops_per_second=rate * yardstick.flops_per_token,
        card_share=yardstick.card_share(rate),
        card_name=yardstick.card_name,
        ceiling_share=yardstick.ceiling_share(rate),
        processes=yardstick.processes,
        nanogpt_mfu=yardstick.nanogpt_mfu(rate),
    )
