"""What is known of a run, whoever trained it: the one thing that audits and comparisons read.

A foreign log tells little. What it does not tell is None, or missing from `settings`, and never assumed.
"""

import itertools
import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from nanodyno.analysis.growth import BatchGrowth, growth_of
from nanodyno.analysis.imported import whole
from nanodyno.analysis.iteration_time import disturbances, mean_seconds
from nanodyno.analysis.machine_state import MachineState
from nanodyno.analysis.metrics import (
    Reference,
    Speed,
    recent_pace,
)
from nanodyno.analysis.statistics import Interval
from nanodyno.config import ModelShape
from nanodyno.costs.parameters import parameters
from nanodyno.hardware.gpus import Gpu
from nanodyno.records.imported import Setting, within_plan
from nanodyno.records.types import (
    DataRecord,
)

NANOGPT = "nanoGPT"
"""As an imported run names its program."""
GPT2_VOCABULARY = 50257
NANOGPT_VOCABULARY = 50304
OF_GPT2 = (GPT2_VOCABULARY, NANOGPT_VOCABULARY)
"""Its tokenizer's, and what nanoGPT makes of it, which is what a user gives for a folder of its files."""
LARGEST_VOCABULARY = 262_144
"""Gemma's: a loss above its logarithm is worse than guessing with any usual tokenizer."""
NEAR, CLEARLY_ABOVE = 1.0, 1.5
"""Nats between the logarithm of a perplexity and a train loss; times ln of the vocabulary."""

ELAPSED_AGREES = 0.03
"""How far the elapsed time may be from speed times iterations."""


@dataclass(frozen=True, slots=True)
class AccountStep:
    """One iteration as it was recorded."""

    iteration: int
    loss: float | None = None
    seconds: float | None = None
    steady: bool = True
    """Whether its time is training's alone: no evaluation, checkpoint or compilation in it."""
    printed_mfu: float | None = None
    """A fraction, as the program itself gave it."""
    learning_rate: float | None = None
    tokens: int | None = None
    """Of a log only where it reports a batch that grows: a wrong tokens_per_iter would look like one."""
    micro_steps: int | None = None
    """Of each process; None where it is not recorded."""
    stretch: int = 0
    """Iterations of one stretch have one batch size, micro-batch and setup (`metrics.stretches`)."""
    clock: float | None = None
    """The log's own clock at its end, in seconds; None where it reports none."""


@dataclass(frozen=True)
class AccountEval:
    iteration: int
    """Updates made before it."""
    val_loss: float
    train_loss: float | None = None


@dataclass(frozen=True)
class Account:
    name: str
    settings: Mapping[str, Setting]
    """nanoGPT's keys, those that are known."""
    steps: tuple[AccountStep, ...] = ()
    evals: tuple[AccountEval, ...] = ()
    shape: ModelShape | None = None
    """None where a part of it is not known. Heads count for nothing that is derived here."""
    shape_found: bool = False
    """Whether the shape was worked out from the numbers and not told."""
    in_effect: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What settings came to that the device decided, and the default of those that do nothing on it."""
    data_vocab_size: int | None = None
    """Of the tokenizer; the shape's is padded."""
    data: DataRecord | None = None
    """What our own programs note of it."""
    reported_parameters: float | None = None
    device_type: str | None = None
    """cuda, cpu or mps; None where it is not reported."""
    device_name: str | None = None
    gpu: Gpu | None = None
    """None on a CPU, where no GPU is named, and for a GPU that is not in the table."""
    processes: int = 1
    """Each on a GPU of its own; a log that reports none is compared with one."""
    processes_reported: bool = True
    dtype: str = "bfloat16"
    ceiling_flops_per_second: float | None = None
    """Of one device, measured in large matmuls of this dtype; None where that was never measured."""
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None
    reported_tokens_per_iter: int | None = None
    """As printed; `tokens_per_iter` follows from the settings."""
    restarts: tuple[int, ...] = ()
    """Iterations at which it was taken up again."""
    foreign: bool = False
    """By another program, whose times and losses are taken as it printed them."""
    mfu_is_nanogpts: bool = True
    """Whether what it printed is of an A100's peak; of other programs' MFU the peak is not known."""
    environment: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What the speed depends on besides settings and the device: driver, threads, versions. Empty where it
    is not recorded."""
    machine_state: MachineState | None = None
    """While the iterations of `speed` were trained; None for logs and for runs of before it was recorded."""

    @property
    def tokens_per_iter(self) -> int | None:
        """Of all processes. An accumulation may be that of one process: then the log reports a multiple."""
        by_settings = self._product("batch_size", "gradient_accumulation_steps", "block_size")
        reported = self.reported_tokens_per_iter
        if by_settings and reported and reported % by_settings == 0:
            by_settings = reported
        return whole(self.settings.get("tokens_per_iter")) or by_settings or reported

    @cached_property
    def growth(self) -> BatchGrowth | None:
        """None where tokens_per_iter is not known."""
        if self.tokens_per_iter is None:
            return None
        recorded = ((step.iteration, step.tokens) for step in self.steps if step.tokens is not None)
        return growth_of(self.tokens_per_iter, recorded, self.settings.get("batch_ramp"))

    @property
    def even_evals(self) -> tuple[AccountEval, ...]:
        """By iterations of tokens_per_iter, where the batch grew."""
        growth = self.growth
        if growth is None or not growth.stages:
            return self.evals
        return tuple(replace(each, iteration=int(growth.even(each.iteration))) for each in self.evals)

    @cached_property
    def _steady(self) -> dict[int, list[AccountStep]]:
        """The iterations whose time counts, by stretch and in order."""
        found: dict[int, list[AccountStep]] = {}
        for step in self.steps:
            if step.steady and step.seconds:
                found.setdefault(step.stretch, []).append(step)
        return found

    @cached_property
    def speeds(self) -> dict[int, Speed]:
        """Of each stretch that has a steady iteration."""
        return {number: self._speed(steady) for number, steady in self._steady.items()}

    @property
    def speed(self) -> Speed:
        """Of the latest stretch: what is reported of the run."""
        return self.speeds[max(self.speeds)] if self.speeds else Speed(reference=self.reference)

    def _speed(self, steady: Sequence[AccountStep]) -> Speed:
        tokens = steady[-1].tokens or self.tokens_per_iter
        seconds = self._mean(steady)
        if seconds is not None and self._elapsed_excess(steady, seconds.value) is not None:
            seconds = replace(seconds, low=None, high=None)
        return Speed(
            seconds,
            tokens,
            steady[-1].micro_steps or self._micro_steps(tokens),
            self.reference,
        )

    def _mean(self, steady: Sequence[AccountStep]) -> Interval | None:
        seconds = [step.seconds for step in steady if step.seconds]
        rounded = resolution(seconds) if self.foreign else 0.0
        if _by_differences(steady[-2:]):
            rounded /= len(seconds)  # of a rounded clock: their sum is off by no more than one
        return mean_seconds([step.iteration for step in steady], seconds, rounded)

    @property
    def elapsed_excess(self) -> float | None:
        """How much longer iterations took by the elapsed time than by the speed of the latest stretch.

        A fraction. None where the two agree within 3%, or the iterations are not kept.
        """
        seconds = self.speed.iteration_seconds
        steady = self._steady[max(self._steady)] if self._steady else []
        return self._elapsed_excess(steady, seconds.value) if seconds is not None and steady else None

    @property
    def disturbed_iterations(self) -> int:
        """Iterations of the latest stretch that the speed leaves out, where they took more than 3% of it."""
        seconds = self.speed.iteration_seconds
        steady = self._steady[max(self._steady)] if self._steady else []
        if seconds is None or not steady or abs(_excess_of_all(steady, seconds.value)) <= ELAPSED_AGREES:
            return 0
        return sum(
            disturbances([step.iteration for step in steady], [step.seconds or 0.0 for step in steady])
        )

    def _elapsed_excess(self, steady: Sequence[AccountStep], seconds: float) -> float | None:
        """By the sum of the iterations, and by the log's own clock where it reports one."""
        excess = _excess_of_all(steady, seconds)
        if abs(excess) > ELAPSED_AGREES:
            return excess
        elapsed, iterations, error = self._by_clock({step.iteration for step in steady})
        if not elapsed:
            return None
        excess = elapsed / iterations / seconds - 1
        return excess if abs(excess) > ELAPSED_AGREES + error / elapsed else None

    def _by_clock(self, counted: Set[int]) -> tuple[float, int, float]:
        """Return seconds and iterations between neighbours in a log, without evaluations, and their error.

        The error is what a clock of whole seconds leaves open where a part ends, or the longest single step
        of the clock: programs that hold their output back print many lines at one time.
        """
        evaluated = [each.iteration for each in self.evals]
        spans: list[tuple[float, int]] = []
        parts, whole_seconds, joined = 0, True, False
        for before, step in itertools.pairwise(self.steps):
            first, last, between = before.clock, step.clock, (before.iteration, step.iteration)
            evaluations = bisect_right(evaluated, between[1]) - bisect_right(evaluated, between[0])
            if first is None or last is None or last < first or evaluations or between[1] not in counted:
                joined = False
                continue
            spans.append((last - first, between[1] - between[0]))
            whole_seconds = whole_seconds and first.is_integer() and last.is_integer()
            parts, joined = parts + (not joined), True
        error = max([float(parts) if whole_seconds else 0.0, *(span for span, _ in spans)])
        return math.fsum(span for span, _ in spans), sum(count for _, count in spans), error

    def _micro_steps(self, tokens: int | None) -> int | None:
        """Of each process, by the settings: nanoGPT divides the accumulation among them."""
        micro = self._product("batch_size", "block_size")
        steps = tokens // micro if tokens and micro else self._product("gradient_accumulation_steps")
        return steps and (steps // self.processes or None)

    @cached_property
    def reference(self) -> Reference:
        """Without a peak for a foreign float32: most programs, nanoGPT among them, allow TF32 in it."""
        return Reference.of(
            self.shape,
            self.data_vocab_size,
            None if self.foreign and self.dtype == "float32" else self.gpu,
            self.dtype,
            self.processes,
            self.ceiling_flops_per_second,
        )

    @property
    def pace_seconds(self) -> float | None:
        """The time of an iteration of the latest batch size now, for what is still to come."""
        if not self.speeds:
            return None
        steady = self._steady[max(self._steady)]
        return recent_pace(
            [step.iteration for step in steady], [step.seconds or 0.0 for step in steady]
        ).value

    def in_tokens_per_iter(self, seconds: float) -> float:
        """What an iteration of tokens_per_iter takes where one of the latest batch size takes so long."""
        tokens, latest = self.tokens_per_iter, self.speed.tokens_per_iter
        return seconds * tokens / latest if tokens and latest else seconds

    def seconds_after(self, iterations: float) -> float | None:
        """Of training, at the steady pace of each stretch; None where no time is known."""
        if not self.speeds:
            return None
        at = max(0, bisect_right(self._spans, iterations, key=lambda span: span[0]) - 1)
        first, before, seconds = self._spans[at]
        return before + (iterations - first) * seconds

    @cached_property
    def _spans(self) -> list[tuple[int, float, float]]:
        """Of each stretch: its first iteration, the seconds before it, and those of an iteration in it.

        A stretch without a steady iteration is taken to be as fast as the nearest that has one.
        """
        timed = {
            number: speed.iteration_seconds.value
            for number, speed in self.speeds.items()
            if speed.iteration_seconds
        }
        spans: list[tuple[int, float, float]] = []
        for number, members in itertools.groupby(self.steps, key=lambda step: step.stretch):
            first = next(members).iteration
            seconds = timed[min(timed, key=lambda other: abs(other - number))]
            last = spans[-1] if spans else (0, 0.0, seconds)
            spans.append((first, last[1] + (first - last[0]) * last[2], seconds))
        return spans

    @property
    def device_kind(self) -> Literal["gpu", "cpu"] | None:
        """None where it is not recorded."""
        if self.gpu is not None:
            return "gpu"
        return None if self.device_type is None else "cpu" if self.device_type == "cpu" else "gpu"

    @property
    def eval_tokens(self) -> int | None:
        """Tokens that a val loss is the mean over: by the settings, and no more than there are."""
        asked = whole(self.settings.get("eval_tokens")) or self._product(
            "eval_iters", "batch_size", "block_size"
        )
        return asked if asked is None or self.data is None else min(asked, self.data.val_tokens)

    def without_steps(self) -> "Account":
        """Return a copy that keeps what was derived of the iterations and not the iterations themselves.

        For reading many runs at once.
        """
        return self._with_derived(replace(self, steps=()))

    def renamed(self, name: str) -> "Account":
        return self._with_derived(replace(self, name=name))

    def _with_derived(self, other: "Account") -> "Account":
        other.__dict__.update(
            speeds=self.speeds,
            growth=self.growth,
            _spans=self.speeds and self._spans,
            iterations=self.iterations,
            tells_perplexity=self.tells_perplexity,
        )
        return other

    @property
    def parameters(self) -> int | None:
        """As nanoGPT counts them: without the position embedding."""
        return None if self.shape is None else parameters(self.shape).nanogpt

    @property
    def vocabulary(self) -> int | None:
        """Of the tokenizer, as far as it is known; a model of 50,304 rows is nanoGPT's for GPT-2's."""
        reported = self.data_vocab_size or whole(self.settings.get("vocab_size"))
        return GPT2_VOCABULARY if reported in OF_GPT2 else reported

    @property
    def names_no_device(self) -> bool:
        """Whether it is a log that names neither a GPU nor another device: its user may know it."""
        return self.foreign and self.device_name is None and self.device_type in (None, "cuda")

    @property
    def trained_evals(self) -> tuple[AccountEval, ...]:
        """With a finite val loss, after at least one update."""
        return tuple(each for each in self.evals if each.iteration > 0 and math.isfinite(each.val_loss))

    @property
    def guessed_among(self) -> int:
        """Tokens of the vocabulary; where it is not known, those of the largest that is usual."""
        return self.vocabulary or LARGEST_VOCABULARY

    @cached_property
    def tells_perplexity(self) -> bool:
        """Whether another program's val losses are perplexities.

        A loss above ln of the vocabulary is no sign of that: a model that is untrained, diverged or badly
        overfitted has one. A perplexity also falls, and its logarithm is a loss: it lies near the train
        losses. Without any to compare with, it has to stay 1.5 times above ln of the vocabulary while it
        falls at two evaluations or more.
        """
        found, guessing = self.trained_evals, math.log(self.guessed_among)
        if not self.foreign or not found or min(each.val_loss for each in found) <= guessing:
            return False
        if found[-1].val_loss > found[0].val_loss:
            return False
        beside = [(each.val_loss, train) for each in found if (train := self._train_loss(each)) is not None]
        if beside:
            return all(abs(math.log(val) - train) <= min(NEAR, abs(val - train)) for val, train in beside)
        falls = found[-1].val_loss < found[0].val_loss
        return falls and all(each.val_loss > CLEARLY_ABOVE * guessing for each in found)

    def _train_loss(self, at: AccountEval) -> float | None:
        """Of the evaluation itself, or of the iteration logged nearest to it."""
        if at.train_loss is not None:
            return at.train_loss
        logged = [step for step in self.steps if step.loss is not None and math.isfinite(step.loss)]
        nearest = min(logged, key=lambda step: abs(step.iteration - at.iteration), default=None)
        return None if nearest is None else nearest.loss

    @property
    def printed_mfu(self) -> float | None:
        """The median of what the program printed; nanoGPT prints -100% before it knows any."""
        printed = [step.printed_mfu for step in self.steps if step.printed_mfu and step.printed_mfu > 0]
        return statistics.median(printed) if printed else None

    @cached_property
    def iterations(self) -> int:
        """Those done: the last that was logged, and what the last evaluation counts."""
        done = max(
            (*(step.iteration + 1 for step in self.steps), *(e.iteration for e in self.evals)), default=0
        )
        return within_plan(done, self.settings.get("max_iters"))

    def _product(self, *keys: str) -> int | None:
        product = 1
        for key in keys:
            value = whole(self.settings.get(key))
            if value is None:
                return None
            product *= value
        return product


def resolution(seconds: Sequence[float]) -> float:
    """Return what times of a log were rounded to: the coarsest power of ten of which all are multiples."""
    for digits in range(9):
        if all(abs(each - round(each, digits)) < 1e-9 for each in seconds):
            return 10.0**-digits
    return 0.0


def _excess_of_all(steady: Sequence[AccountStep], seconds: float) -> float:
    """Of the mean over all iterations, disturbed ones too, over this time."""
    return math.fsum(step.seconds or 0.0 for step in steady) / len(steady) / seconds - 1


def _by_differences(pair: Sequence[AccountStep]) -> bool:
    """Return whether the later one's time is a difference of two readings of the log's clock."""
    if len(pair) < 2 or pair[0].clock is None or pair[1].clock is None or pair[1].seconds is None:
        return False
    return abs(pair[1].clock - pair[0].clock - pair[1].seconds) < 1e-6 * pair[1].clock
