"""A run in one value: what it did, how fast, how well, and how long it still has to go."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from nanodyno.analysis.eta import eta_seconds, evaluation_seconds
from nanodyno.analysis.imported import imported_micro_steps, imported_yardstick, known_shape, tokens_up_to
from nanodyno.analysis.noise_scale import before_decay, latest
from nanodyno.analysis.state import RunState, run_state
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.stretches import same_batch_since, same_processes_since
from nanodyno.analysis.throughput import (
    Yardstick,
    micro_step_seconds,
    pace_seconds,
    rate_of,
    seconds_of,
    steady_steps,
    step_seconds,
    tokens_per_second,
)
from nanodyno.config import RunConfig
from nanodyno.costs.parameters import ParameterCount, parameters
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.noise import NoiseScale
from nanodyno.records.imported import AnyEval, AnyStep, ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import SaveRecord, Skipped, StepRecord

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
    parameters: ParameterCount | None
    """None where a foreign log does not tell the model's shape."""
    counted_parameters: int | None
    """As a foreign log counts them."""
    iterations_done: int
    iterations_planned: int | None
    state: RunState
    finished: bool
    tokens_seen: int | None
    skipped_updates: Mapping[Skipped, int]
    """How many updates were left out, by why."""

    processes: int
    """That trained together in the last stretch."""
    rated_from: int
    """The iteration from which on it was that many, and the effective batch the last one: the rates are of no
    earlier step."""
    step_seconds: Interval | None
    """Over the steady steps, as are all rates and shares below."""
    micro_step_seconds: float | None
    """Of the micro-batches of the latest size."""
    tokens_per_second: Interval | None
    flops_per_token: int | None
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

    noise: NoiseScale | None
    """Of the gradients, in the latest iterations before noise_until; None where it was not measured."""
    noise_until: int | None
    """Updates after which the learning rate fell below half of its peak, which alone raises the noise scale;
    None where it did not."""

    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    peak_host_bytes: int | None

    last_train_loss: float | None
    """Mean over the last 10 iterations; NaN if one of them was."""
    best_val: ValLoss | None
    """The lowest; NaN is never the best."""
    last_val: ValLoss | None

    training_seconds: float | None
    evaluation_seconds: float | None
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
            training=sum(step.step_seconds for step in run.own_steps),
            evaluation=sum(entry.eval_seconds for entry in run.own_evals),
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
    if isinstance(run.record, ImportedRecord):
        return _summarise_imported(run, run.record)
    record, config, steps = run.record, run.record.config, run.own_steps
    held = before_decay(steps)
    yardstick = Yardstick.of(record, ceilings)
    resumed = record.resumed_at_iterations
    rated_from = max(same_processes_since(run.history), same_batch_since(steps))
    rated = [step for step in steps if step.iteration >= rated_from]
    steady = steady_steps(rated, resumed)
    speed = rate_of(steady)
    saves = [entry for entry in run.history if isinstance(entry, SaveRecord)]
    times = _Times.of(run, saves)
    return Summary(
        name=run.name,
        parameters=parameters(config.model_shape(record.vocab_size)),
        counted_parameters=None,
        iterations_done=run.iterations_done,
        iterations_planned=0 if config.eval_only else config.max_iters,
        state=run_state(run),
        finished=run.finished,
        tokens_seen=sum(step.tokens for step in steps),
        skipped_updates=dict(Counter(step.skipped for step in steps if step.skipped is not None)),
        processes=yardstick.processes,
        rated_from=rated_from,
        step_seconds=seconds_of(steady),
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
        noise=latest(held),
        noise_until=held[-1].iteration + 1 if len(held) < len(steps) else None,
        peak_allocated_bytes=_highest(step.peak_allocated_bytes for step in steps),
        peak_reserved_bytes=_highest(step.peak_reserved_bytes for step in steps),
        peak_host_bytes=_highest(step.peak_host_bytes for step in steps),
        last_train_loss=_last_train_loss(run.steps),
        best_val=_best_val(run.evals),
        last_val=_val_loss(run.evals[-1]) if run.evals else None,
        training_seconds=times.training,
        evaluation_seconds=times.evaluation,
        saves=len(saves),
        saving_seconds=times.saving,
        saving_share=times.saving_share,
        saved_bytes=saves[-1].saved_bytes if saves else None,
        eta_seconds=_eta(run, config, rated, saves),
    )


def _summarise_imported(run: Run, record: ImportedRecord) -> Summary:
    """Times are those of iterations without an evaluation or a save in them; of the rest nothing is known."""
    yardstick, shape = imported_yardstick(record), known_shape(record.settings)
    resumed, planned = record.resumed_at_iterations, record.settings.get("max_iters")
    speed = tokens_per_second(run.steps, resumed)
    known = yardstick if speed else None
    return Summary(
        name=run.name,
        parameters=parameters(shape) if shape else None,
        counted_parameters=record.parameters,
        iterations_done=run.iterations_done,
        iterations_planned=planned if isinstance(planned, int) else None,
        state=run_state(run),
        finished=False,
        tokens_seen=tokens_up_to(run.steps, run.iterations_done, record.tokens_per_iter),
        skipped_updates={},
        processes=record.processes or 1,
        rated_from=0,
        step_seconds=step_seconds(run.steps, resumed),
        micro_step_seconds=micro_step_seconds(steady_steps(run.steps, resumed), imported_micro_steps(record)),
        tokens_per_second=speed,
        flops_per_token=yardstick.flops_per_token if yardstick else None,
        flops_per_second=speed.estimate * known.flops_per_token if speed and known else None,
        card_name=yardstick.card_name if yardstick else None,
        peak_flops=yardstick.peak_flops if yardstick else None,
        card_share=known.card_share(speed.estimate) if speed and known else None,
        ceiling_flops=None,
        ceiling_share=None,
        nanogpt_mfu=known.nanogpt_mfu(speed.estimate) if speed and known else None,
        data_wait_share=None,
        noise=None,
        noise_until=None,
        peak_allocated_bytes=record.peak_allocated_bytes,
        peak_reserved_bytes=record.peak_reserved_bytes,
        peak_host_bytes=record.peak_host_bytes,
        last_train_loss=_last_train_loss(run.steps),
        best_val=_best_val(run.evals),
        last_val=_val_loss(run.evals[-1]) if run.evals else None,
        training_seconds=None,
        evaluation_seconds=None,
        saves=0,
        saving_seconds=0.0,
        saving_share=None,
        saved_bytes=None,
        eta_seconds=None,
    )


def perplexity(loss: float) -> float:
    """exp of a loss in nats; infinite where a float cannot hold it."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _eta(
    run: Run, config: RunConfig, rated: Sequence[StepRecord], saves: Sequence[SaveRecord]
) -> float | None:
    return eta_seconds(
        config,
        run.iterations_done,
        run.evals[-1].iteration if run.evals else None,
        pace_seconds(rated, run.record.resumed_at_iterations),
        evaluation_seconds(
            [entry.eval_seconds for entry in run.own_evals], [save.save_seconds for save in saves]
        ),
    )


def _data_wait_share(steady: Sequence[StepRecord]) -> float | None:
    if not steady:
        return None
    return sum(step.data_seconds for step in steady) / sum(step.step_seconds for step in steady)


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _last_train_loss(steps: Sequence[AnyStep]) -> float | None:
    losses = [step.loss for step in steps[-LAST_STEPS:] if step.loss is not None]
    return statistics.fmean(losses) if losses else None


def _best_val(evals: Sequence[AnyEval]) -> ValLoss | None:
    numbers = [entry for entry in evals if not math.isnan(entry.val_loss)]
    return _val_loss(min(numbers, key=lambda entry: entry.val_loss)) if numbers else None


def _val_loss(entry: AnyEval) -> ValLoss:
    return ValLoss(entry.iteration, entry.val_loss, perplexity(entry.val_loss))
