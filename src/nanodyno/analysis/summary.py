"""A run in one value: what it did, how fast, how well, and how long it still has to go."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from nanodyno.analysis.eta import eta_seconds, evaluation_seconds
from nanodyno.analysis.state import RunState, run_state
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.stretches import same_processes_since
from nanodyno.analysis.throughput import (
    Yardstick,
    micro_step_seconds,
    pace_seconds,
    steady_steps,
    step_seconds,
    tokens_per_second,
)
from nanodyno.costs.parameters import ParameterCount, parameters
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.records.store import Run
from nanodyno.records.types import EvalRecord, SaveRecord, Skipped, StepRecord

LAST_STEPS = 10
"""One iteration's loss is noisy; the mean over this many is what is called the last train loss."""


@dataclass(frozen=True)
class ValLoss:
    """An evaluation's result, in nats per token."""

    iteration: int
    loss: float
    perplexity: float


@dataclass(frozen=True)
class Summary:
    """Everything derived from one run's records; None means not measured or not known."""

    name: str
    parameters: ParameterCount
    iterations_done: int
    iterations_planned: int
    state: RunState
    finished: bool
    tokens_seen: int
    skipped_updates: Mapping[Skipped, int]
    """How many updates were left out, by why."""

    processes: int
    """That trained together in the last stretch."""
    rated_from: int
    """The iteration from which on it was that many: the rates are of no earlier step."""
    step_seconds: Interval | None
    """Over the steady steps, as are all rates and shares below."""
    micro_step_seconds: float | None
    """Of the micro-batches of the latest size."""
    tokens_per_second: Interval | None
    flops_per_token: int
    flops_per_second: float | None
    card_name: str | None
    peak_flops: float | None
    """The cards' datasheet peak, all processes together, for the dtype that the run used."""
    card_share: float | None
    ceiling_flops: float | None
    """What the same devices were measured to reach in large products of that dtype; None: never measured."""
    ceiling_share: float | None
    nanogpt_mfu: float | None
    """nanoGPT's formula against an A100, whatever the card."""
    data_wait_share: float | None

    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    peak_host_bytes: int | None

    last_train_loss: float | None
    """Mean over the last 10 iterations; NaN if one of them was."""
    best_val: ValLoss | None
    """The lowest; NaN is never the best."""
    last_val: ValLoss | None

    training_seconds: float
    evaluation_seconds: float
    saves: int
    saving_seconds: float
    saving_share: float | None
    """Of training, evaluation and saving together."""
    saved_bytes: int | None
    """Of the last checkpoint."""
    eta_seconds: float | None


@dataclass(frozen=True)
class _Times:
    """Where the time of a run went, in seconds."""

    training: float
    evaluation: float
    saving: float

    @classmethod
    def of(cls, run: Run, saves: Sequence[SaveRecord]) -> Self:
        return cls(
            training=sum(step.step_seconds for step in run.steps),
            evaluation=sum(entry.eval_seconds for entry in run.evals),
            saving=sum(save.save_seconds for save in saves),
        )

    @property
    def saving_share(self) -> float | None:
        total = self.training + self.evaluation + self.saving
        return self.saving / total if self.saving else None


def summarise(run: Run, ceilings: Ceilings | None = None) -> Summary:
    """Derives a summary from what is on disk; a run without any step has one too, with little in it.

    `ceilings` are those of the run's device, if they were measured.
    """
    record, config = run.record, run.record.config
    yardstick = Yardstick.of(record, ceilings)
    resumed = record.resumed_at_iterations
    rated_from = same_processes_since(run.history)
    rated = [step for step in run.steps if step.iteration >= rated_from]
    steady = steady_steps(rated, resumed)
    speed = tokens_per_second(rated, resumed)
    saves = [entry for entry in run.history if isinstance(entry, SaveRecord)]
    times = _Times.of(run, saves)
    return Summary(
        name=run.name,
        parameters=parameters(config.model_shape(record.vocab_size)),
        iterations_done=run.iterations_done,
        iterations_planned=0 if config.eval_only else config.max_iters,
        state=run_state(run),
        finished=run.finished,
        tokens_seen=sum(step.tokens for step in run.steps),
        skipped_updates=dict(Counter(step.skipped for step in run.steps if step.skipped is not None)),
        processes=yardstick.processes,
        rated_from=rated_from,
        step_seconds=step_seconds(rated, resumed),
        micro_step_seconds=micro_step_seconds(steady, yardstick.micro_steps),
        tokens_per_second=speed,
        flops_per_token=yardstick.flops_per_token,
        flops_per_second=speed.estimate * yardstick.flops_per_token if speed else None,
        card_name=yardstick.card_name,
        peak_flops=yardstick.peak_flops,
        card_share=yardstick.card_share(speed.estimate) if speed else None,
        ceiling_flops=yardstick.ceiling_flops,
        ceiling_share=yardstick.ceiling_share(speed.estimate) if speed else None,
        nanogpt_mfu=yardstick.nanogpt_mfu(speed.estimate) if speed else None,
        data_wait_share=_data_wait_share(steady),
        peak_allocated_bytes=_highest(step.peak_allocated_bytes for step in run.steps),
        peak_reserved_bytes=_highest(step.peak_reserved_bytes for step in run.steps),
        peak_host_bytes=_highest(step.peak_host_bytes for step in run.steps),
        last_train_loss=_last_train_loss(run.steps),
        best_val=_best_val(run.evals),
        last_val=_val_loss(run.evals[-1]) if run.evals else None,
        training_seconds=times.training,
        evaluation_seconds=times.evaluation,
        saves=len(saves),
        saving_seconds=times.saving,
        saving_share=times.saving_share,
        saved_bytes=saves[-1].saved_bytes if saves else None,
        eta_seconds=_eta(run, rated, saves),
    )


def perplexity(loss: float) -> float:
    """exp of a loss in nats; infinite where a float cannot hold it."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _eta(run: Run, rated: Sequence[StepRecord], saves: Sequence[SaveRecord]) -> float | None:
    return eta_seconds(
        run.record.config,
        run.iterations_done,
        run.evals[-1].iteration if run.evals else None,
        pace_seconds(rated, run.record.resumed_at_iterations),
        evaluation_seconds(
            [entry.eval_seconds for entry in run.evals], [save.save_seconds for save in saves]
        ),
    )


def _data_wait_share(steady: Sequence[StepRecord]) -> float | None:
    if not steady:
        return None
    return sum(step.data_seconds for step in steady) / sum(step.step_seconds for step in steady)


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _last_train_loss(steps: Sequence[StepRecord]) -> float | None:
    return statistics.fmean(step.loss for step in steps[-LAST_STEPS:]) if steps else None


def _best_val(evals: Sequence[EvalRecord]) -> ValLoss | None:
    numbers = [entry for entry in evals if not math.isnan(entry.val_loss)]
    return _val_loss(min(numbers, key=lambda entry: entry.val_loss)) if numbers else None


def _val_loss(entry: EvalRecord) -> ValLoss:
    return ValLoss(entry.iteration, entry.val_loss, perplexity(entry.val_loss))
