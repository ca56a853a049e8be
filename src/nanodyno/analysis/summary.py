"""A run in one value: what it did, how fast, how well, and how long it still has to go."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nanodyno.analysis.account import Account, AccountEval
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.imported import tokens_up_to
from nanodyno.analysis.machine_state import MachineState
from nanodyno.analysis.metrics import (
    RunTimes,
    Speed,
    data_wait_share,
    eta_seconds,
    evaluation_seconds,
    latest_stretch,
    stretches,
)
from nanodyno.analysis.noise_scale import before_decay, latest
from nanodyno.analysis.state import RunState, run_state
from nanodyno.costs.parameters import ParameterCount, parameters
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.noise import NoiseScale
from nanodyno.records.imported import AnyStep, ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import SaveRecord, Skipped

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

    speed: Speed
    """Of the latest stretch, as are the peaks of memory and the share of waiting."""
    speed_from: int
    """The first iteration of that stretch."""
    data_wait_share: float | None
    machine_state: MachineState | None
    """Of the same iterations; None for logs and for runs of before it was recorded."""

    noise_scale: NoiseScale | None
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
    """The lowest that is finite."""
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


def summarise(run: Run, ceilings: Ceilings | None = None) -> Summary:
    """Derive a summary from what is on disk; a run without any step has one too, with little in it.

    `ceilings` are those of the run's device, if they were measured.
    """
    account = with_found_shape(account_of(run, ceilings))
    imported = run.record if isinstance(run.record, ImportedRecord) else None
    config, steps = run.record.config, run.own_steps
    held = before_decay(steps)
    saves = [entry for entry in run.history if isinstance(entry, SaveRecord)]
    times = None if imported else RunTimes.of(run, saves)
    newest = latest_stretch(stretches(steps, run.history, run.record.resumed_at_iterations))
    planned = run.settings.get("max_iters")
    return Summary(
        name=run.name,
        parameters=None if account.shape is None or account.shape_found else parameters(account.shape),
        counted_parameters=imported.parameters if imported else None,
        iterations_done=run.iterations_done,
        iterations_planned=0
        if config and config.eval_only
        else planned
        if isinstance(planned, int)
        else None,
        state=run_state(run),
        finished=run.finished,
        tokens_seen=tokens_up_to(run.steps, run.iterations_done, run.tokens_per_iter)
        if imported
        else sum(step.tokens for step in steps),
        skipped_updates=dict(Counter(step.skipped for step in steps if step.skipped is not None)),
        speed=account.speed,
        speed_from=newest.steps[0].iteration if newest else 0,
        data_wait_share=data_wait_share(newest.steady) if newest else None,
        machine_state=account.machine_state,
        noise_scale=latest(held),
        noise_until=held[-1].iteration + 1 if held and len(held) < len(steps) else None,
        peak_allocated_bytes=account.peak_allocated_bytes,
        peak_reserved_bytes=account.peak_reserved_bytes,
        peak_host_bytes=account.peak_host_bytes,
        last_train_loss=_last_train_loss(run.steps),
        best_val=_best_val(account.evals),
        last_val=_val_loss(account.evals[-1]) if account.evals else None,
        training_seconds=times.training if times else None,
        evaluation_seconds=times.evaluation if times else None,
        saves=len(saves),
        saving_seconds=times.saving if times else 0.0,
        saving_share=times.saving_share if times else None,
        saved_bytes=saves[-1].saved_bytes if saves else None,
        eta_seconds=None if imported else _eta(run, account, saves),
    )


def perplexity(loss: float) -> float:
    """exp of a loss in nats; infinite where a float cannot hold it."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _eta(run: Run, account: Account, saves: Sequence[SaveRecord]) -> float | None:
    return eta_seconds(
        run.own.config,
        run.iterations_done,
        run.evals[-1].iteration if run.evals else None,
        account.pace_seconds,
        evaluation_seconds(
            [entry.eval_seconds for entry in run.own_evals], [save.save_seconds for save in saves]
        ),
        account.speed.tokens_per_iter,
    )


def _last_train_loss(steps: Sequence[AnyStep]) -> float | None:
    losses = [step.loss for step in steps[-LAST_STEPS:] if step.loss is not None]
    return statistics.fmean(losses) if losses else None


def _best_val(evals: Sequence[AccountEval]) -> ValLoss | None:
    numbers = [entry for entry in evals if math.isfinite(entry.val_loss)]
    return _val_loss(min(numbers, key=lambda entry: entry.val_loss)) if numbers else None


def _val_loss(entry: AccountEval) -> ValLoss:
    return ValLoss(entry.iteration, entry.val_loss, perplexity(entry.val_loss))
