"""Probes read: how long an iteration takes, at what rate with what interval, and where the time went."""

import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nanodyno.analysis.budget import Budget, Reading, read, read_cut_short
from nanodyno.analysis.metrics import Reference, Speed, gpu_of
from nanodyno.analysis.repeats import RepetitionTime, config_interval
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.steady import ProcessSummary, summarise
from nanodyno.config import RunConfig
from nanodyno.records.probe import (
    BreakdownPart,
    BreakdownRecord,
    Measured,
    ProbeResult,
    RepetitionRecord,
    SampleRecord,
    SetupRecord,
)

ONCE: BreakdownPart = "optimizer"
"""The part of an iteration that its micro-steps do not repeat."""


def iteration_seconds(sample: SampleRecord, accumulation: int) -> float:
    """Of a whole iteration: what was timed, and the micro-steps left out at the pace of those between."""
    missing = accumulation - sample.micro_steps
    if missing == 0:
        return sample.seconds
    each = statistics.fmean(sample.micro_step_seconds or [sample.seconds / sample.micro_steps])
    return sample.seconds + missing * each


def repetition_summary(repetition: RepetitionRecord, config: RunConfig) -> ProcessSummary:
    """One visit as one number: seconds of a whole iteration."""
    accumulation = config.gradient_accumulation_steps
    regulated = any(each.code == "power-limit" for each in repetition.disturbances)
    summary = summarise([iteration_seconds(sample, accumulation) for sample in repetition.samples], regulated)
    assert summary is not None, "a visit has one iteration at least"
    return summary


def repetitions_of(results: Mapping[str, ProbeResult]) -> list[RepetitionTime]:
    """What comparisons read. Seconds are of one token, so that configs of other sizes of batch compare."""
    return [
        RepetitionTime(
            name,
            repetition.process,
            repetition.round,
            repetition_summary(repetition, result.config).seconds / result.config.tokens_per_iter,
        )
        for name, result in results.items()
        if isinstance(result, Measured)
        for repetition in result.repetitions
    ]


def reading_of(results: Mapping[str, ProbeResult], budget: Budget, reference: str, margin: float) -> Reading:
    """Every config against the reference; also when the measuring was cut short."""
    repetitions = repetitions_of(results)
    reading = read(repetitions, budget, reference=reference, margin=margin)
    return reading or read_cut_short(repetitions, budget, reference=reference, margin=margin)


def probe_speed(seconds: Interval, config: RunConfig, setup: SetupRecord) -> Speed:
    """Of a config of which an iteration takes so long."""
    return Speed(
        seconds,
        config.tokens_per_iter,
        config.gradient_accumulation_steps,
        Reference.of(
            config.model_shape(setup.vocab_size),
            setup.data_vocab_size,
            gpu_of(setup.machine),
            setup.arithmetic.dtype,
            ceiling_flops_per_second=setup.matmul_flops_per_second,
        ),
    )


def repetition_speed(repetition: RepetitionRecord, config: RunConfig, setup: SetupRecord) -> Speed:
    """Of one process alone, which has no interval."""
    seconds = repetition_summary(repetition, config).seconds
    return probe_speed(Interval(seconds, None, None, 0.95, 1), config, setup)


@dataclass(frozen=True)
class ProbeSummary:
    """Everything derived from one measured config; None means not measured or not known."""

    speed: Speed
    """Over processes, with Student's t; without bounds from a single one. The ceiling is of matmuls measured
    in the same process."""
    own_precision: float | None
    """To which the least precise process knew its own mean: says nothing about the next process."""
    processes: int
    iterations: int
    """That count."""
    warmup: int
    spikes: int
    time: "TimeShares | None"

    @property
    def iteration_seconds(self) -> Interval:
        return _measured(self.speed.iteration_seconds)

    @property
    def micro_step_seconds(self) -> Interval:
        return _measured(self.speed.micro_step_seconds)

    @property
    def tokens_per_second(self) -> Interval:
        return _measured(self.speed.tokens_per_second)

    @property
    def achieved_flops_per_second(self) -> Interval:
        return _measured(self.speed.achieved_flops_per_second)


def _measured(figure: Interval | None) -> Interval:
    assert figure is not None, "a probe knows its tokens and its model"
    return figure


def summarise_probe(measured: Measured, left_out: Collection[int] = ()) -> ProbeSummary:
    """left_out: rounds that a reading has set aside."""
    config = measured.config
    counted = [
        repetition for repetition in measured.repetitions if repetition.round not in left_out
    ] or measured.repetitions
    measured = measured.model_copy(update={"repetitions": tuple(counted)})
    per_token = config_interval(repetitions_of({"": measured}), "")
    assert per_token is not None, "a measured config has visits"
    each = [repetition_summary(repetition, config) for repetition in measured.repetitions]
    precisions = [summary.precision for summary in each if summary.precision is not None]
    return ProbeSummary(
        speed=probe_speed(per_token.times(config.tokens_per_iter), config, measured.setup),
        own_precision=max(precisions, default=None),
        processes=per_token.n,
        iterations=sum(summary.counted for summary in each),
        warmup=sum(summary.warmup for summary in each),
        spikes=sum(summary.spikes for summary in each),
        time=None
        if measured.breakdown is None
        else time_shares(measured.breakdown, config.gradient_accumulation_steps),
    )


@dataclass(frozen=True)
class TimeShares:
    """Where the time went, as fractions that add up to 1."""

    parts: dict[BreakdownPart, float]
    data: float
    """Waiting for a batch, the device idle."""
    idle: float
    """Between kernels for any other reason: launching, synchronising; on a CPU, Python and dispatching."""
    kernels_per_micro_step: float
    launches_per_micro_step: float | None
    adds_up: float
    """All that the profiler saw, idle time included, over the wall time without it: 1 is perfect."""


def time_shares(breakdown: BreakdownRecord, accumulation: int) -> TimeShares:
    """Of whole iterations: micro-steps that were left out are like those profiled, and updates are as many.

    Kernels last as long watched as unwatched, and gaps between them do not: idle is what they leave of the
    unwatched wall time. Operators on a CPU are slowed as the gaps are, so their whole is the watched time.
    """
    longer = accumulation * breakdown.iterations / breakdown.micro_steps
    seconds: dict[BreakdownPart, float] = {
        part: own * (1.0 if part == ONCE else longer) for part, own in breakdown.part_seconds.items()
    }
    busy = sum(breakdown.part_seconds.values())
    watched = breakdown.wall_seconds if breakdown.source == "kernels" else breakdown.profiled_seconds
    idle = max(0.0, watched - busy)
    data = min(idle, breakdown.data_seconds)
    whole = sum(seconds.values()) + idle * longer
    launches = breakdown.launches
    return TimeShares(
        parts={part: own / whole for part, own in seconds.items()},
        data=data * longer / whole,
        idle=(idle - data) * longer / whole,
        kernels_per_micro_step=breakdown.kernels / breakdown.micro_steps,
        launches_per_micro_step=None if launches is None else launches / breakdown.micro_steps,
        adds_up=max(busy, breakdown.profiled_seconds) / breakdown.wall_seconds,
    )
