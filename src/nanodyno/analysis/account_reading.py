"""The account of a run as it is on disk: of our own runs everything, of a log what it reports."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from nanodyno.analysis.account import NANOGPT, Account, AccountEval, AccountStep
from nanodyno.analysis.imported import imported_gpu, known_shape
from nanodyno.analysis.iteration_time import slow_iterations
from nanodyno.analysis.machine_state import machine_state
from nanodyno.analysis.metrics import (
    Stretch,
    gpu_of,
    highest,
    latest_stretch,
    stretches,
    timed_seconds,
)
from nanodyno.config import SETTINGS, ConfigError, RunConfig, build_config
from nanodyno.config.idle import Idle, default_of, idle_settings
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.records.imported import AnyStep, ImportedRecord, ImportedStep, Setting
from nanodyno.records.store import Run
from nanodyno.records.types import (
    ArithmeticRecord,
    DataRecord,
    MachineRecord,
    StepRecord,
    TelemetryRecord,
    VersionsRecord,
)

CLOCK_WITHOUT_EVALUATIONS = ("modded-nanogpt", "llm.c", "nanochat", "autoresearch", "nanodyno")
"""Programs whose times of iterations are known to leave evaluations out."""


def account_of(run: Run, ceilings: Ceilings | None = None) -> Account:
    """What its record holds: of our own runs everything, of a log what it reports."""
    if isinstance(run.record, ImportedRecord):
        return _imported(run, run.record)
    return _own(run, ceilings)


def _own(run: Run, ceilings: Ceilings | None) -> Account:
    record, steps = run.own, run.own_steps
    found = stretches(steps, run.history, record.resumed_at_iterations)
    last = latest_stretch(found)
    newest = steps if last is None else last.steps
    ceiling = None if ceilings is None else ceilings.matmul_flops(record.arithmetic.dtype)
    return Account(
        name=run.name,
        settings=_known_settings(record.config),
        steps=_steps(found),
        evals=tuple(AccountEval(each.iteration, each.val_loss, each.train_loss) for each in run.own_evals),
        shape=record.config.model_shape(record.vocab_size),
        data_vocab_size=record.data.vocab_size,
        data=record.data,
        in_effect=_in_effect(record.config, record.arithmetic, record.machine, record.data),
        device_type=record.machine.device_type,
        device_name=record.machine.device_name,
        gpu=gpu_of(record.machine),
        processes=record.arithmetic.processes,
        dtype=record.arithmetic.dtype,
        ceiling_flops_per_second=ceiling,
        peak_allocated_bytes=highest(step.peak_allocated_bytes for step in newest),
        peak_reserved_bytes=highest(step.peak_reserved_bytes for step in newest),
        peak_host_bytes=highest(step.peak_host_bytes for step in newest),
        restarts=record.resumed_at_iterations,
        environment=_environment(record.machine, record.versions),
        machine_state=machine_state(
            [each for each in run.telemetry if newest and _is_within(each, newest)],
            on_gpu=record.machine.device_type != "cpu",
        ),
    )


def _environment(machine: MachineRecord, versions: VersionsRecord) -> dict[str, Setting]:
    return {
        **machine.model_dump(include={"driver", "cpu_threads"}),
        **versions.model_dump(include={"nanodyno", "torch", "cuda"}),
    }


def _is_within(sample: TelemetryRecord, steps: Sequence[StepRecord]) -> bool:
    """Whether it was taken after the first of these iterations had ended, and not in a later stretch."""
    return steps[0].iteration < sample.iteration <= steps[-1].iteration + 1


def _steps(found: Sequence[Stretch[AnyStep]], with_tokens: bool = True) -> tuple[AccountStep, ...]:
    return tuple(
        AccountStep(
            step.iteration, step.loss, step.step_seconds, step.iteration in steady,
            step.printed_mfu if isinstance(step, ImportedStep) else None, step.learning_rate,
            step.tokens if with_tokens else None, step.micro_steps, number,
            (step.elapsed_seconds or step.wall_time) if isinstance(step, ImportedStep) else None,
        )
        for number, stretch in enumerate(found)
        for steady in [{step.iteration for step in stretch.steady}]
        for step in stretch.steps
    )  # fmt: skip


def _known_settings(config: RunConfig) -> dict[str, Setting]:
    """With what a setting that was left out means; a vocabulary is known by its data."""
    means: dict[str, Setting] = {
        key: each.none_means
        for key, each in SETTINGS.items()
        if each.none_means and not each.pair and each.group not in ("model", "record")
    }
    given = {key: value for key, value in config.model_dump().items() if value is not None}
    return means | given


def _in_effect(
    config: RunConfig | None, used: ArithmeticRecord, machine: MachineRecord, data: DataRecord | None
) -> dict[str, Setting]:
    """What `auto` and None came to on the device, and the default of each setting that does nothing there.

    A dataset has its own tokenizer, whatever the setting.
    """
    found: dict[str, Setting] = {
        "device": used.device.removesuffix(":0"),
        "dtype": used.dtype,
        "kernels": used.kernels,
        "recompute": used.recompute,
        "gemm_algorithm": "auto" if used.gemm_algorithm == "measured" else "torch",
    }
    if data is not None and data.tokenizer is not None:
        found["tokenizer"] = data.tokenizer
    if used.attention is not None:
        found["attention"] = used.attention
    if machine.device_type == "cpu":
        found["threads"] = machine.cpu_threads
    if config is None:
        return found
    config = config.model_copy(update={"device": found["device"], "kernels": used.kernels})
    idle = [each for each in idle_settings(config, (), used.processes) if isinstance(each, Idle)]
    keys = [key for each in idle for key in each.keys if key not in found]
    defaults: dict[str, Any] = {key: default_of(config, key) for key in keys}
    return found | {
        key: SETTINGS[key].none_means if value is None else value for key, value in defaults.items()
    }


def _config_of(settings: Mapping[str, Setting]) -> RunConfig | None:
    """Of a result of ours, which has every setting."""
    try:
        return build_config({key: value for key, value in settings.items() if key in RunConfig.model_fields})
    except ConfigError:
        return None


def _imported(run: Run, record: ImportedRecord) -> Account:
    dtype = record.arithmetic.dtype if record.arithmetic else record.settings.get("dtype")
    grows = record.settings.get("batch_ramp") is not None
    steps = run.steps
    if record.origin.program not in CLOCK_WITHOUT_EVALUATIONS:
        steps = _evaluations_marked(steps, [each.iteration for each in run.evals])
    found = stretches(steps, resumed_at_iterations=record.resumed_at_iterations, by_tokens=grows)
    return Account(
        name=run.name,
        settings=record.settings,
        steps=_steps(found, with_tokens=grows),
        evals=_evals(run, record),
        shape=known_shape(record.settings),
        in_effect=_in_effect(_config_of(record.settings), record.arithmetic, record.machine, record.data)
        if record.arithmetic and record.machine
        else {},
        data_vocab_size=record.data.vocab_size if record.data else None,
        data=record.data,
        reported_parameters=record.parameters,
        device_type=_device_type(record),
        device_name=record.machine.device_name if record.machine else record.device_name,
        gpu=imported_gpu(record),
        processes=record.processes or 1,
        processes_reported=record.processes is not None,
        dtype=dtype if isinstance(dtype, str) else "float16",
        peak_allocated_bytes=record.peak_allocated_bytes,
        peak_reserved_bytes=record.peak_reserved_bytes,
        peak_host_bytes=record.peak_host_bytes,
        reported_tokens_per_iter=record.tokens_per_iter,
        restarts=record.resumed_at_iterations,
        foreign=record.machine is None,
        environment=_environment(record.machine, record.versions)
        if record.machine and record.versions
        else {},
        mfu_is_nanogpts=record.origin.program == NANOGPT,
    )


def _evals(run: Run, record: ImportedRecord) -> tuple[AccountEval, ...]:
    """Without the cells that a table pads with NaN: a model whose loss is NaN has no finite one with it."""
    padded = any(file.kind == "table" for file in record.origin.files)
    finite = [step.iteration for step in run.steps if step.loss is not None and math.isfinite(step.loss)]
    last = max(finite, default=-1) if padded else -1
    return tuple(
        AccountEval(each.iteration, each.val_loss, each.train_loss)
        for each in run.evals
        if not (math.isnan(each.val_loss) and each.iteration <= last)
    )


def _device_type(record: ImportedRecord) -> str | None:
    """As nanodyno noted it, or by the setting `device` of another program."""
    if record.machine is not None:
        return record.machine.device_type
    reported = record.settings.get("device")
    kind = reported.partition(":")[0].lower() if isinstance(reported, str) else None
    return kind if kind in ("cuda", "cpu", "mps") else None


def _evaluations_marked(steps: Sequence[AnyStep], evaluated: Sequence[int]) -> list[AnyStep]:
    """Mark slow iterations with an evaluation beside them: the log's clock may run on through it."""
    timed = [place for place, step in enumerate(steps) if timed_seconds(step)]
    slow = slow_iterations([timed_seconds(steps[place]) or 0.0 for place in timed])
    marked, places = list(steps), sorted(evaluated)
    for place in itertools.compress(timed, slow):
        step = marked[place]
        before = marked[place - 1].iteration if place else -1
        if isinstance(step, ImportedStep) and (
            bisect_right(places, step.iteration) > bisect_right(places, before - 1)
        ):
            marked[place] = step.model_copy(update={"overhead": "evaluation"})
    return marked
