"""Rates, times, shares of a peak, memory and time left, derived from records. Nothing else derives them.

Every figure of speed is one estimate, the seconds of an iteration, times or over something that is known:
tokens, micro-steps, FLOPs, peaks. The estimate is taken over a *stretch*: iterations made with one batch
size, one micro-batch and one setup (processes, device, kernels). Stretches are never mixed, and what is
reported of a run is its latest one.
"""

import itertools
import math
import statistics
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Generic, Self, TypeVar

from nanodyno.analysis.iteration_time import LEAST_EXCESS, recent_seconds
from nanodyno.analysis.statistics import Interval
from nanodyno.config import ModelShape, RunConfig
from nanodyno.costs.flops import NANOGPT_PEAK_FLOPS, flops_per_token, nanogpt_flops_per_token
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.gpus import Gpu, find_gpu
from nanodyno.records.imported import AnyStep, ImportedStep
from nanodyno.records.store import Run
from nanodyno.records.types import (
    HistoryRecord,
    MachineRecord,
    PreparedRecord,
    RunRecord,
    SaveRecord,
    Setting,
    StartRecord,
    StepRecord,
)

WARMUP_STEPS = 3
ENOUGH_STEPS = 8
RECENT_STEPS = 20
"""Iterations whose mean is the speed now, rounded up to whole periods: of the progress line and the ETA."""
PERIOD_STEPS = 200
"""Latest iterations in which such periods are looked for."""

S = TypeVar("S", bound=AnyStep)
S_co = TypeVar("S_co", bound=AnyStep, covariant=True)


@dataclass(frozen=True)
class Reference:
    """What a speed is compared with: the FLOPs of a token and what the GPUs can do. None means not known."""

    flops_per_token: int | None = None
    """Exact and causal, with the tokenizer's own vocabulary."""
    nanogpt_flops_per_token: int | None = None
    processes: int = 1
    """Each on a GPU of its own."""
    gpu_name: str | None = None
    """None, as is peak_flops_per_second, on a CPU, for a GPU not in the table and for a dtype its tensor
    cores lack."""
    peak_flops_per_second: float | None = None
    """Dense peak per second by the datasheet, of all GPUs together."""
    ceiling_flops_per_second: float | None = None
    """Measured in large matmuls, of all devices together; None where it was never measured."""

    @classmethod
    def of(
        cls,
        shape: ModelShape | None,
        data_vocab_size: int | None,
        gpu: Gpu | None,
        dtype: str,
        processes: int = 1,
        ceiling_flops_per_second: float | None = None,
    ) -> Self:
        """`ceiling_flops_per_second` is of one device."""
        peak = gpu.peak_flops_per_second(dtype) if gpu else None
        return cls(
            flops_per_token=None if shape is None else flops_per_token(shape, data_vocab_size),
            nanogpt_flops_per_token=None if shape is None else nanogpt_flops_per_token(shape),
            processes=processes,
            gpu_name=gpu.label if gpu and peak else None,
            peak_flops_per_second=peak * processes if peak else None,
            ceiling_flops_per_second=ceiling_flops_per_second * processes
            if ceiling_flops_per_second
            else None,
        )

    @classmethod
    def of_run(cls, record: RunRecord, ceilings: Ceilings | None = None) -> Self:
        """Of a run of ours; `ceilings` are those of its device, if they were measured."""
        dtype = record.arithmetic.dtype
        return cls.of(
            record.config.model_shape(record.vocab_size),
            record.data.vocab_size,
            gpu_of(record.machine),
            dtype,
            record.arithmetic.processes,
            ceilings.matmul_flops(dtype) if ceilings else None,
        )


def gpu_of(machine: MachineRecord) -> Gpu | None:
    """Return the GPU of the table, or None on a CPU and for a GPU that is not in it."""
    if machine.device_type == "cpu":
        return None
    return find_gpu(machine.device_name, machine.device_memory_bytes, machine.multiprocessors)


def mfu(tokens_per_second: float, flops_per_token: float, peak_flops_per_second: float) -> float:
    """A speed as a fraction of a peak; name the peak and the FLOP formula wherever it is shown."""
    return tokens_per_second * flops_per_token / peak_flops_per_second


@dataclass(frozen=True)
class Speed:
    """How fast one config trains. Every figure follows from `iteration_seconds`; None means not known."""

    iteration_seconds: Interval | None = None
    tokens_per_iter: int | None = None
    """Of these iterations: a batch that grows has had others."""
    micro_steps: int | None = None
    """Of each process in an iteration."""
    reference: Reference = Reference()

    @property
    def micro_step_seconds(self) -> Interval | None:
        """An iteration's time over its micro-steps, the optimizer's share included."""
        return self._per_iteration(None if not self.micro_steps else 1 / self.micro_steps)

    @property
    def tokens_per_second(self) -> Interval | None:
        if self.iteration_seconds is None or not self.tokens_per_iter:
            return None
        return self.iteration_seconds.inverse(self.tokens_per_iter)

    @property
    def achieved_flops_per_second(self) -> Interval | None:
        """By exact causal FLOPs."""
        return self._per_token(self.reference.flops_per_token)

    @property
    def nanogpt_flops_per_second(self) -> Interval | None:
        """By nanoGPT's formula."""
        return self._per_token(self.reference.nanogpt_flops_per_token)

    @property
    def mfu(self) -> Interval | None:
        """Of the datasheet's dense peak, by exact causal FLOPs."""
        return self._share(self.reference.flops_per_token, self.reference.peak_flops_per_second)

    @property
    def ceiling_fraction(self) -> Interval | None:
        """Of the measured ceiling, by exact causal FLOPs."""
        return self._share(self.reference.flops_per_token, self.reference.ceiling_flops_per_second)

    @property
    def nanogpt_mfu(self) -> Interval | None:
        """What nanoGPT would print, as a fraction: its own formula against an A100, whatever the GPU.

        Of several processes each prints its own share.
        """
        peak = NANOGPT_PEAK_FLOPS * self.reference.processes
        return self._share(self.reference.nanogpt_flops_per_token, peak)

    def with_ceiling(self, ceiling_flops_per_second: float | None) -> Self:
        """Compared with another measured ceiling."""
        return replace(
            self, reference=replace(self.reference, ceiling_flops_per_second=ceiling_flops_per_second)
        )

    def document(self) -> dict[str, object]:
        """As every JSON document has a speed."""
        figures = {name: getattr(self, name) for name in METRICS}
        return {
            "tokens_per_iter": self.tokens_per_iter,
            "micro_steps": self.micro_steps,
            **asdict(self.reference),
            **{name: None if figure is None else figure.document() for name, figure in figures.items()},
        }

    def _share(self, flops: int | None, peak: float | None) -> Interval | None:
        return self._per_token(None if flops is None or not peak else flops / peak)

    def _per_token(self, amount: float | None) -> Interval | None:
        speed = self.tokens_per_second
        return None if speed is None or amount is None else speed.times(amount)

    def _per_iteration(self, amount: float | None) -> Interval | None:
        seconds = self.iteration_seconds
        return None if seconds is None or amount is None else seconds.times(amount)


METRICS = (
    "iteration_seconds", "micro_step_seconds", "tokens_per_second", "achieved_flops_per_second", "mfu",
    "ceiling_fraction", "nanogpt_mfu",
)  # fmt: skip
"""The figures of a Speed that documents report, each as {"value", "low", "high", "n"}."""


def recent_speed(steps: Sequence[StepRecord], micro_steps: int, reference: Reference) -> Speed:
    """Of the latest iterations, of PERIOD_STEPS that a display keeps (a deque) within one stretch.

    Takes microseconds, or a millisecond where some are slow. micro_steps stands in where a step does not
    record its own.
    """
    last = steps[-1]
    seconds = recent_pace([step.iteration for step in steps], [step.step_seconds for step in steps])
    return Speed(
        seconds,
        last.tokens,
        last.micro_steps or micro_steps,
        reference,
    )


def recent_pace(iterations: Sequence[int], seconds: Sequence[float]) -> Interval:
    """Return the seconds of an iteration now, for what is still to come."""
    return recent_seconds(iterations[-PERIOD_STEPS:], seconds[-PERIOD_STEPS:], RECENT_STEPS)


@dataclass(frozen=True)
class Stretch(Generic[S_co]):
    """Iterations that can be put together, over however many starts."""

    steps: tuple[S_co, ...]
    steady: tuple[S_co, ...]
    """Those whose time is training's alone, after the warm-up. Slow ones are among them: which of those are a
    disturbance is decided where the mean is taken (`iteration_time.mean_seconds`)."""


def timed_seconds(step: AnyStep) -> float | None:
    """What an iteration took; None where a log does not report it, or only with an evaluation in it."""
    if isinstance(step, ImportedStep) and step.overhead not in (None, "unknown"):
        return None
    return step.step_seconds


def stretches(
    steps: Sequence[S],
    history: Sequence[HistoryRecord] = (),
    resumed_at_iterations: Sequence[int] = (),
    by_tokens: bool = True,
) -> list[Stretch[S]]:
    """A run's iterations in order, cut where the batch size, the micro-batch or the setup changed.

    After every start, and where a stretch begins, the first three iterations do not count: the allocator
    finds its blocks, the optimizer creates its state, kernels are loaded. Where that leaves fewer than eight
    of a stretch, only the first is left out, and the other two if they are slow, so that a short run still
    has a speed. Of an imported log, the import has marked what does not count.
    """
    starts = _starts(history, resumed_at_iterations)
    places = [iteration for iteration, _ in starts]

    def start_of(step: S) -> int:
        return bisect_right(places, step.iteration) - 1

    def kind_of(step: S) -> Hashable:
        start = start_of(step)
        return (starts[start][1] if start >= 0 else 0), step.tokens if by_tokens else None, step.micro_steps

    found: list[Stretch[S]] = []
    for _, group in itertools.groupby(steps, key=kind_of):
        whole = tuple(group)
        parts = [list(part) for _, part in itertools.groupby(whole, key=start_of)]
        found.append(Stretch(whole, tuple(_steady(parts))))
    return found


def _steady(parts: list[list[S]]) -> list[S]:
    if isinstance(parts[0][0], ImportedStep):
        return [step for part in parts for step in part if timed_seconds(step) is not None]
    steady = [step for part in parts for step in part[WARMUP_STEPS:]]
    if len(steady) >= ENOUGH_STEPS:
        return steady
    usual = statistics.median_low(step.step_seconds or 0.0 for step in steady) if steady else math.inf
    return [
        step
        for part in parts
        for place, step in enumerate(part[1:], 1)
        if place >= WARMUP_STEPS or (step.step_seconds or 0.0) <= (1 + LEAST_EXCESS) * usual
    ]


def _starts(history: Sequence[HistoryRecord], resumed: Sequence[int]) -> list[tuple[int, int]]:
    """The iterations at which processes took the run up, and a number that changes with their setup."""
    kept: list[tuple[int, dict[str, Setting]]] = []
    for entry in history:
        if isinstance(entry, StartRecord):
            # What was done from here on before was done again, and its records are gone.
            kept = [each for each in kept if each[0] < entry.iteration]
            kept.append((entry.iteration, {"processes": entry.processes}))
        elif isinstance(entry, PreparedRecord) and kept:
            kept[-1][1].update(entry.setup)
    number, numbered = 0, [(iteration, 0) for iteration, _ in kept[:1]]
    for (_, before), (iteration, after) in itertools.pairwise(kept):
        # As far as both recorded it: runs of older versions noted the processes alone.
        number += any(before[key] != after[key] for key in before.keys() & after)
        numbered.append((iteration, number))
    known = {iteration for iteration, _ in numbered}
    unknown = [(at, bisect_right(numbered, (at, number)) - 1) for at in resumed if at not in known]
    return sorted([*numbered, *((at, numbered[place][1] if place >= 0 else 0) for at, place in unknown)])


def latest_stretch(found: Sequence[Stretch[S]]) -> Stretch[S] | None:
    """The last one with a steady iteration: what is reported of a run. None where there is none."""
    return next((each for each in reversed(found) if each.steady), None)


def highest(values: Iterable[int | None]) -> int | None:
    """A peak, of those that were measured."""
    return max((value for value in values if value is not None), default=None)


def data_wait_share(steady: Sequence[StepRecord]) -> float | None:
    """The part of the time of steady iterations that was spent waiting for a batch."""
    seconds = sum(step.step_seconds for step in steady)
    return sum(step.data_seconds for step in steady) / seconds if seconds else None


@dataclass(frozen=True)
class RunTimes:
    """Where the time of a run went, in seconds."""

    training: float
    evaluation: float
    saving: float

    @classmethod
    def of(cls, run: Run, saves: Sequence[SaveRecord]) -> Self:
        return cls(
            training=sum(step.step_seconds for step in run.own_steps),
            evaluation=sum(entry.eval_seconds for entry in run.own_evals),
            saving=sum(save.save_seconds for save in saves),
        )

    @property
    def saving_share(self) -> float | None:
        """Of training, evaluation and saving together; None where nothing was saved."""
        return self.saving / (self.training + self.evaluation + self.saving) if self.saving else None


def evaluations_between(done: int, last: int, eval_interval: int, last_eval: int | None) -> int:
    """Evaluations fall on every eval_interval-th iteration, 0 included, and after the last one."""
    first = max(done, 0 if last_eval is None else last_eval + 1)
    if first > last:
        return 0
    return (last - 1) // eval_interval - (first - 1) // eval_interval + 1


def evaluation_seconds(eval_seconds: Sequence[float], save_seconds: Sequence[float]) -> float | None:
    """What an evaluation and the save after it take, by those so far; None before the first evaluation.

    Long saves do not follow every evaluation, nor does any the one before the first iteration.
    """
    if not eval_seconds:
        return None
    saving = statistics.median(save_seconds) if save_seconds else 0.0
    share = min(1.0, len(save_seconds) / max(1, len(eval_seconds) - 1))
    return statistics.median(eval_seconds) + share * saving


def eta_seconds(
    config: RunConfig,
    iterations_done: int,
    last_eval_iteration: int | None,
    iteration_seconds: float | None,
    eval_seconds: float | None,
    tokens_per_iter: int | None = None,
) -> float | None:
    """Seconds of training and evaluation ahead; None while the time of either is not known, 0 at the end.

    iteration_seconds is that of an iteration of tokens_per_iter, or of the latest batch size; eval_seconds
    includes the save that follows an evaluation, or its share.
    """
    last = 0 if config.eval_only else config.max_iters
    ahead = max(0, last - iterations_done)
    iterations = _iterations_ahead(config, iterations_done, ahead, tokens_per_iter)
    evaluations = evaluations_between(iterations_done, last, config.eval_interval, last_eval_iteration)
    if (iterations and iteration_seconds is None) or (evaluations and eval_seconds is None):
        return None
    return iterations * (iteration_seconds or 0.0) + evaluations * (eval_seconds or 0.0)


def _iterations_ahead(config: RunConfig, done: int, iterations: int, tokens_per_iter: int | None) -> float:
    """In iterations of so many tokens, or of the size of the last one: a schedule's later ones are larger.

    Where the measured noise decides, nobody knows yet, and they are taken to stay as they are.
    """
    ramp = config.ramp
    if not ramp.steps or not iterations:
        return iterations
    last = tokens_per_iter or ramp.at(ramp.tokens_after(max(0, done - 1)))
    return (ramp.tokens_after(done + iterations) - ramp.tokens_after(done)) / last
