"""Short trainings of attribute and judge: how schedules are cut short, the task, a round under one seed."""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanodyno.analysis.attribution import WatchAttribute
from nanodyno.analysis.factors import with_length
from nanodyno.analysis.probes import summarise_probe
from nanodyno.analysis.shapley import Combination
from nanodyno.config import RunConfig, changed
from nanodyno.data.resolve import EMBEDDED, resolve_dataset
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.probe.child import Report
from nanodyno.probe.process import Child, Failure, Watch, run_task
from nanodyno.records.attribution import TrainedRecord
from nanodyno.records.probe import Measured, ProbeProgress, ProbeResult
from nanodyno.records.types import Record, StepRecord
from nanodyno.train.job import DATA_FOLDER

TASK = "nanodyno.experiments.short_training:train_short"
PATIENCE = {"starting": 1800.0, "training": 1800.0}
"""Seconds of silence after which a child counts as hung: compiling is silent."""
REPORT_SECONDS = 0.5


def refuse_without_data(config: RunConfig) -> None:
    """Before every corner fails of it. The embedded corpus is always there."""
    if config.dataset != EMBEDDED:
        resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size)


def shortened(config: RunConfig, tokens: float) -> RunConfig:
    """So many tokens, with all of its schedule; evaluated at the end alone."""
    whole = config.ramp.tokens_after(config.max_iters)
    short = with_length(config, max(1, round(config.max_iters * tokens / whole)))
    return changed(
        short,
        eval_interval=short.max_iters,
        eval_iters=None,
        log_interval=short.max_iters,
        keep_checkpoints=1,
        out_dir=None,
        init_from="scratch",
        eval_only=False,
    )


def tokens_of_each(
    configs: Mapping[Combination, RunConfig], steps: int, paces: Mapping[Combination, ProbeResult] | None
) -> dict[Combination, float]:
    """Equal tokens: `steps` of the largest batch. Equal time: as far as each comes while the slowest makes
    so many."""
    if paces is None:
        tokens = steps * max(size for config in configs.values() for size in config.ramp.sizes)
        return dict.fromkeys(configs, float(tokens))
    rates = {combination: pace_of(paces.get(combination)) for combination in configs}
    seconds = max(
        steps * config.tokens_per_iter / rates[combination] for combination, config in configs.items()
    )
    return {combination: rates[combination] * seconds for combination in configs}


def pace_of(result: ProbeResult | None) -> float:
    if result is None:
        raise NanodynoError(
            "--budget is too short to measure the speed of every combination, which --equal time needs",
            "give more --budget, or --equal tokens",
        )
    if not isinstance(result, Measured):
        raise NanodynoError(
            "--equal time needs the speed of every combination, and one could not be measured",
            "use --equal tokens; --metric tokens_per_second shows why",
        )
    return summarise_probe(result).tokens_per_second.value


class ShortTraining(Record):
    """What a child is to train; what it writes is thrown away, since only the loss is wanted."""

    config: RunConfig
    data_folder: Path = DATA_FOLDER
    memory_limit_bytes: int | None = None
    folder: Path | None = None
    """Where its records are while it trains, for whoever wants to read them; None: nowhere in particular."""


class Trained(Record):
    val_loss: float
    training_seconds: float
    tokens_per_second: float | None = None
    """By the median iteration of the last two thirds; None of a single iteration."""
    train_loss: float | None = None
    """Mean of the last tenth of the iterations."""


def train_short(requests: Iterator[bytes], report: Report) -> Iterator[Trained]:
    """The task: train to the end of each config, reporting the iteration."""
    for request in requests:
        yield _train(ShortTraining.model_validate_json(request), report)


def _train(request: ShortTraining, report: Report) -> Trained:
    from nanodyno.probe.limits import limit_memory
    from nanodyno.records.store import read_run
    from nanodyno.train.device import choose
    from nanodyno.train.job import TrainingJob
    from nanodyno.train.runner import run_training

    limit_memory(choose(request.config).device, request.memory_limit_bytes)
    reported = 0.0

    def watch(event: object) -> None:
        nonlocal reported
        if isinstance(event, StepRecord) and time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            report("training", event.iteration)

    with tempfile.TemporaryDirectory(prefix="nanodyno-") as place:
        folder = request.folder or Path(place) / "run"
        job = TrainingJob(request.config, "run", folder, data_folder=request.data_folder, keeps=False)
        reason = run_training(job, watch)
        run = read_run(folder)
    last = run.own_evals[-1] if run.own_evals else None
    if reason != "finished" or last is None or not math.isfinite(last.val_loss):
        raise RunFailed(f"it ended after {run.iterations_done} iterations without a val loss ({reason})")
    steps = run.own_steps
    losses = [step.loss for step in steps[-max(1, len(steps) // 10) :]]
    return Trained(
        val_loss=last.val_loss,
        training_seconds=math.fsum(step.step_seconds for step in steps),
        tokens_per_second=_speed(steps),
        train_loss=statistics.fmean(losses) if all(map(math.isfinite, losses)) else None,
    )


def _speed(steps: Sequence[StepRecord]) -> float | None:
    later = steps[len(steps) // 3 :] if len(steps) > 1 else ()
    if not later:
        return None
    return statistics.median(step.tokens / step.step_seconds for step in later)


def train_in_child(request: ShortTraining, watch: Watch) -> Trained | Failure:
    return run_task(TASK, request, Trained, watch, patience=PATIENCE)


@dataclass
class ShortTrainings:
    """Trains corners with the seed of a round: the same weights and the same order of data in each."""

    configs: Mapping[Combination, RunConfig]
    """Already cut short."""
    names: Mapping[Combination, str]
    memory_limit_bytes: int | None
    watch: WatchAttribute
    clock: Callable[[], float]
    train: Callable[[ShortTraining, Watch], Trained | Failure] = train_in_child

    def round(self, number: int, combinations: list[Combination]) -> Iterator[TrainedRecord]:
        for combination in combinations:
            config = self.configs[combination]
            config = config.model_copy(update={"seed": config.seed + number})
            request = ShortTraining(config=config, memory_limit_bytes=self.memory_limit_bytes)
            began = self.clock()
            answer = self.train(request, self._watcher(combination, number))
            failed = isinstance(answer, Failure)
            yield TrainedRecord(
                round=number,
                combination=combination,
                cost_seconds=self.clock() - began,
                config=config,
                val_loss=None if failed else answer.val_loss,
                training_seconds=None if failed else answer.training_seconds,
                words=answer.words if failed else None,
            )

    def _watcher(self, combination: Combination, number: int) -> Watch:
        def watch(_: Child, iteration: int | None) -> None:
            if iteration is not None:
                self.watch(ProbeProgress(self.names[combination], number, "measuring", iteration + 1))

        return watch
