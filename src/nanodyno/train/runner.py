"""A run from its config to its folder: opens the data and the device, trains, and writes every record."""

import errno
import os
import socket
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nanodyno.config import RunConfig, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import Dataset
from nanodyno.data.tokenizers import TRAINED_FILE
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Message, Started, WatchRun
from nanodyno.records.files import write_whole
from nanodyno.records.store import CHECKPOINTS_FOLDER
from nanodyno.records.types import PreparedRecord, RunRecord, SaveRecord, StartRecord, StopReason, StopRecord
from nanodyno.records.writer import RunWriter, disk_is_full
from nanodyno.train import checkpoint, resuming
from nanodyno.train.describe import as_prepared, describe, speed_setup
from nanodyno.train.device import DeviceChoice, choose, is_out_of_memory, take_threads
from nanodyno.train.fitting import refuse_what_cannot_fit
from nanodyno.train.job import TrainingJob
from nanodyno.train.processes import Processes, launched, local_rank, open_processes
from nanodyno.train.resuming import Earlier
from nanodyno.train.spike_guard import Diverged
from nanodyno.train.stops import Stops, signals
from nanodyno.train.telemetry import TelemetrySampler, machine_reader
from nanodyno.train.trainer import SavePoint, Trainer

NOTHING = "nothing to do"


def run_training(job: TrainingJob, watch: WatchRun) -> StopReason:
    """Trains to the end of the config, or to where it is stopped; every record is on disk before it is shown.

    Of several processes the first one records and shows.
    """
    stops = Stops(job.limits if job.keeps else replace(job.limits, autosave_seconds=None))
    with open_processes() as processes:
        try:
            if processes.first:
                return _lead(job, watch, stops, processes)
            return _follow(job, stops, processes)
        except (MemoryError, RuntimeError, OSError) as error:
            reported = _reported(error, job, processes)
            if reported is None:
                raise
            raise reported from error


def _lead(job: TrainingJob, watch: WatchRun, stops: Stops, processes: Processes) -> StopReason:
    """The only process, or the first of several: decides where to begin, writes and saves."""
    choice = _choose(job.config, processes.count)
    earlier = resuming.earlier(job, watch)
    try:
        dataset = _open(job, watch)
        vocab_size = job.config.vocab_size or padded_vocab_size(dataset.vocab_size)
        record = describe(job, choice, dataset, vocab_size, processes.count)
        if earlier is not None:
            resuming.check(earlier, record, job.folder)
            resuming.check_files(earlier, record, dataset, watch)
            if resuming.has_ended(earlier, job.config):
                return _nothing_to_do(job.folder, earlier, watch, processes)
            record = resuming.continued(record, earlier)
        if not job.force:
            refuse_what_cannot_fit(job.config, vocab_size, choice, processes.count)
        saved = earlier.saved if earlier else None
        processes.share("checkpoint", str(saved.folder.absolute()) if saved else "")
        trainer = _trainer(job.config, dataset, vocab_size, choice, processes)
        if saved is not None:
            trainer.restore(saved)
        if job.config.eval_only and earlier is not None:
            return _look_only(trainer, Started(record, job.folder, trainer.iteration), watch)
        return _Recording(job, watch, stops, trainer).run(record, earlier)
    finally:
        if earlier is not None and earlier.lock is not None:
            earlier.lock.release()


def _keep_tokenizer(dataset: Dataset, folder: Path) -> None:
    """A tokenizer trained for the dataset goes along with the run, so that it can be sampled alone."""
    trained = dataset.folder / TRAINED_FILE
    if trained.exists():
        write_whole(folder / TRAINED_FILE, trained.read_text(encoding="utf-8"))


def _follow(job: TrainingJob, stops: Stops, processes: Processes) -> StopReason:
    """The other processes: the same steps, nothing written and nothing shown."""
    choice = _choose(job.config, processes.count)
    folder = processes.share("checkpoint")
    if folder == NOTHING:
        return "finished"
    dataset = _open(job, lambda _: None)
    vocab_size = job.config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = _trainer(job.config, dataset, vocab_size, choice, processes)
    if folder:
        trainer.restore(checkpoint.read(Path(folder)))
    with signals(stops, launched(), lambda _: None):
        if trainer.engine.needs_preparation and not job.config.eval_only:
            trainer.warm_up()
        for event in trainer.events(stops):
            if isinstance(event, SavePoint) and job.keeps:
                trainer.save(Path(), event.reason)
    return "finished" if trainer.finished else stops.reason() or "failed"


class _Recording:
    """One stretch of a run from its first record to its last."""

    def __init__(self, job: TrainingJob, watch: WatchRun, stops: Stops, trainer: Trainer) -> None:
        self.job = job
        self.watch = watch
        self.stops = stops
        self.trainer = trainer

    def run(self, record: RunRecord, earlier: Earlier | None) -> StopReason:
        with _writer(self.job.folder, record, earlier) as writer:
            self._recorded = earlier is not None
            try:
                reason = self._train(record, writer)
                self._stop(writer, reason)
            except BaseException as error:
                if self._recorded:
                    with suppress(OSError):
                        self._stop(writer, *_reason(error, self.job, self.trainer.processes))
                raise
            finally:
                if not self._recorded:
                    writer.abandon()
        return reason

    def _train(self, record: RunRecord, writer: RunWriter) -> StopReason:
        trainer, watch = self.trainer, self.watch
        writer.append(_start(trainer))
        _keep_tokenizer(trainer.dataset, self.job.folder)
        if words := self.job.limits.words():
            watch(Message(words))
        with signals(self.stops, launched(), lambda text: watch(Message(text))):
            began = _warm_up(trainer, record, watch)
            writer.replace_run(began)
            writer.append(_prepared(trainer, began))
            watch(Started(began, self.job.folder, trainer.iteration))
            reader = partial(machine_reader, trainer.device, trainer.processes)
            with TelemetrySampler(reader, lambda: trainer.iteration) as telemetry:
                for event in trainer.events(self.stops):
                    if isinstance(event, SavePoint) and not self.job.keeps:
                        continue
                    entry = self._saved(writer, event) if isinstance(event, SavePoint) else event
                    writer.append(entry)
                    self._recorded = True
                    watch(entry)
                    for sample in telemetry.take():
                        writer.append(sample)
                for sample in telemetry.stop():
                    writer.append(sample)
        return "finished" if trainer.finished else self.stops.reason() or "failed"

    def _saved(self, writer: RunWriter, point: SavePoint) -> SaveRecord:
        writer.flush()
        saved = self.trainer.save(self.job.folder / CHECKPOINTS_FOLDER, point.reason)
        self.stops.saved(saved)
        return saved

    def _stop(self, writer: RunWriter, reason: StopReason, words: str | None = None) -> None:
        stop = StopRecord(iteration=self.trainer.iteration, reason=reason, words=words, wall_time=time.time())
        if self._recorded or reason == "finished":
            writer.append(stop)
            writer.flush()
        if words is None:
            self.watch(stop)


def _reason(error: BaseException, job: TrainingJob, processes: Processes) -> tuple[StopReason, str | None]:
    """How a stretch ended that did not end in order."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", "at once, in the middle of an iteration"
    if isinstance(error, Diverged):
        return "diverged", error.message
    cause = error.__cause__ if isinstance(error, RunFailed) else error
    if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
        return "no-space", str(error)
    if is_out_of_memory(error):
        return "no-memory", str(error)
    reported = _reported(error, job, processes)
    return "failed", str(reported or error) or type(error).__name__


def _reported(error: BaseException, job: TrainingJob, processes: Processes) -> NanodynoError | None:
    """What a user can act on; None is a bug of ours."""
    if is_out_of_memory(error):
        return RunFailed(
            f"out of memory: {(str(error).splitlines() or [''])[0]}",
            f"halve --batch_size (now {job.config.batch_size}) and keep --tokens_per_iter="
            f"{job.config.tokens_per_iter}: the results stay the same except for rounding",
        )
    if isinstance(error, OSError):
        place = Path(error.filename or job.folder)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return disk_is_full(place)
        return RunFailed(
            f"cannot read or write {place}: {error.strerror or error}",
            "repair that and repeat the command. The records and the last checkpoint are kept",
        )
    return processes.explain(error) if isinstance(error, RuntimeError) else None


def _open(job: TrainingJob, watch: WatchRun) -> Dataset:
    config = job.config
    return resolve_dataset(
        config.dataset,
        job.data_folder,
        config.tokenizer,
        config.vocab_size,
        lambda text: watch(Message(text)),
    )


def _trainer(
    config: RunConfig, dataset: Dataset, vocab_size: int, choice: DeviceChoice, processes: Processes
) -> Trainer:
    processes.connect(choice.device)
    return Trainer(config, dataset, vocab_size, choice, processes)


def _choose(config: RunConfig, processes: int) -> DeviceChoice:
    take_threads(config.threads)
    choice = choose(config, local_rank())
    if processes > 1:
        refuse_together(config, choice, processes)
    return choice


def refuse_together(config: RunConfig, choice: DeviceChoice, processes: int) -> None:
    """What several processes cannot do; tokens_per_iter is of all of them, and each does its share."""
    steps = config.sequences_divided // config.batch_size
    if steps % processes:
        raise NanodynoError(
            f"{steps} micro-steps cannot be divided among {processes} processes",
            f"tokens_per_iter counts all processes. Choose a --batch_size that makes the micro-steps a "
            f"multiple of {processes}, or another number of processes",
        )
    if config.parallel == "fsdp" and choice.dtype == "float16":
        raise NanodynoError("parallel=fsdp has no loss scaler for float16", "use --parallel=ddp")
    if config.parallel == "fsdp" and config.optimizer != "adamw":
        raise NanodynoError(
            f"parallel=fsdp divides matrices, and optimizer={config.optimizer} needs them whole",
            "use --parallel=ddp, or --optimizer=adamw",
        )
    if ":" in config.device:
        raise NanodynoError(
            f"--device={config.device} is one GPU, but there are {processes} processes",
            "leave --device out: each process then takes the GPU of its own number",
        )


def _nothing_to_do(folder: Path, earlier: Earlier, watch: WatchRun, processes: Processes) -> StopReason:
    watch(
        Message(
            f"{folder} finished after {earlier.iteration} iterations, so there is nothing to do. "
            f"--resume {folder} --max_iters=N extends it; another --name starts a new run"
        )
    )
    processes.share("checkpoint", NOTHING)
    return "finished"


def _look_only(trainer: Trainer, started: Started, watch: WatchRun) -> StopReason:
    """Evaluates a saved run and leaves its records as they are."""
    watch(started)
    watch(trainer.evaluate())
    return "finished"


def _writer(folder: Path, record: RunRecord, earlier: Earlier | None) -> RunWriter:
    if earlier is None:
        return RunWriter.create(folder, record)
    return RunWriter.resume(folder, record, earlier.iteration, earlier.evaluated, earlier.lock)


def _start(trainer: Trainer) -> StartRecord:
    return StartRecord(
        iteration=trainer.iteration,
        process=os.getpid(),
        host=socket.gethostname(),
        processes=trainer.processes.count,
        wall_time=time.time(),
    )


def _prepared(trainer: Trainer, record: RunRecord) -> PreparedRecord:
    return PreparedRecord(iteration=trainer.iteration, setup=speed_setup(record), wall_time=time.time())


def _warm_up(trainer: Trainer, record: RunRecord, watch: WatchRun) -> RunRecord:
    """Compiles and measures what there is to, and puts how that went into the record."""
    if not trainer.engine.needs_preparation or trainer.config.eval_only:  # evaluations are never compiled
        return record
    compiling = "compiling the model (up to a minute, less the next time)"
    preparing = "preparing the kernels (some seconds, less the next time)"
    watch(Message(preparing if record.arithmetic.kernels == "fused" else compiling))
    prepared = trainer.warm_up()
    arithmetic = as_prepared(record.arithmetic, prepared)
    return record.model_copy(update={"arithmetic": arithmetic, "notes": (*record.notes, *prepared.notes)})
