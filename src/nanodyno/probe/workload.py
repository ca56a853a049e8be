"""The task of a probe: the trainer's own engine and loader, an iteration at a time, with marks for the clock.

The one place of probes that knows how training computes.
"""

import itertools
import math
import platform
import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import torch
from pydantic import TypeAdapter

from nanodyno import __version__
from nanodyno.analysis.probes import iteration_seconds
from nanodyno.analysis.steady import is_enough
from nanodyno.config import RunConfig, padded_vocab_size
from nanodyno.data.loader import Loader, Windows
from nanodyno.data.resolve import EMBEDDED, resolve_dataset, why_unopened
from nanodyno.data.shards import TokenFiles
from nanodyno.data.tokenizers import VOCABULARIES
from nanodyno.errors import NanodynoError
from nanodyno.probe.ceilings import large_product, unless_full
from nanodyno.probe.child import Report
from nanodyno.probe.limits import limit_memory, memory_reached
from nanodyno.probe.profile import profile_iterations
from nanodyno.probe.repetition import BreakDown, Measure, ProbeJob
from nanodyno.probe.timing import TimingLimits
from nanodyno.records.probe import ProbeStage, SampleRecord, SetupRecord
from nanodyno.records.types import VersionsRecord
from nanodyno.schedule import learning_rate_at
from nanodyno.train import collector
from nanodyno.train.describe import arithmetic, as_prepared
from nanodyno.train.device import Clock, choose, describe_machine, reset_peak_memory, take_threads
from nanodyno.train.engine import DeviceBatch, Prepared
from nanodyno.train.kernels import choose_way, make_engine
from nanodyno.train.processes import Processes

SYNTHETIC_TOKENS = 2**21
LEAST_MICRO_STEPS = 3
"""A first, one between and a last: what a longer iteration repeats is the one between."""
SAMPLE_SECONDS = 0.1
"""An iteration is cut down to about this long, so that many of them fit a short probe."""
FIRST_LOOK = 16
"""Iterations after which a process first asks whether it has enough; then after twice as many, and so on."""


def probe(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """Yield a SetupRecord for the job, a MemoryRecord for a Measure, a breakdown or a fault for a BreakDown.

    Each iteration of a Measure is reported as a SampleRecord.
    """
    import_seconds = time.time() - psutil.Process().create_time()
    job = ProbeJob.model_validate_json(next(requests))
    workload = Workload(job, time.time() - import_seconds, report)
    yield workload.setup
    accumulation = job.config.gradient_accumulation_steps
    samples: list[SampleRecord] = []
    kinds: TypeAdapter[Measure | BreakDown] = TypeAdapter(Measure | BreakDown)
    for line in requests:
        request = kinds.validate_json(line)
        if isinstance(request, Measure):
            report("measuring")
            samples = _measure(workload, request, report)
            yield memory_reached(workload.engine.graph_bytes)
        else:
            report("profiling")
            yield profile_iterations(workload.iteration, workload.device, samples, accumulation)


def _measure(workload: "Workload", request: Measure, report: Report) -> list[SampleRecord]:
    accumulation = workload.config.gradient_accumulation_steps
    samples: list[SampleRecord] = []
    reset_peak_memory(workload.device)
    end = time.perf_counter() + request.limit_seconds
    look = FIRST_LOOK
    while not samples or time.perf_counter() < end:
        samples.append(workload.iteration())
        report("measuring", samples[-1])
        if len(samples) == look:
            if is_enough([iteration_seconds(sample, accumulation) for sample in samples], request.precision):
                break
            look *= 2
    return samples


class Workload:
    """One config ready to iterate. Everything before its first iteration happens here, told by stages."""

    def __init__(self, job: ProbeJob, began: float, tell: Callable[[ProbeStage], None]) -> None:
        self.config = config = job.config
        take_threads(job.threads or config.threads)
        choice = choose(config)
        self.device = choice.device
        self.clock = Clock(self.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # marks are put on the current card's stream
        limit_memory(self.device, job.memory_limit_bytes)
        tell("building")
        ceiling = unless_full(
            self.device, lambda: large_product(self.device, choice.dtype, TimingLimits(0.0))
        )
        reset_peak_memory(self.device)
        files, data_vocab_size, notes = _tokens(job)
        vocab_size = config.vocab_size or padded_vocab_size(data_vocab_size)
        windows = Windows(files, config.block_size, vocab_size, config.seed)
        self.engine = make_engine(config, config.model_shape(vocab_size), choice, Processes())
        way = choose_way(config, choice)
        used = arithmetic(config, way, choice, processes=1)
        prepared = self._prepare(windows, tell)
        self.loader = Loader(windows, config.batch_size, self.device)
        tell("warming up")
        collector.quieten()
        self._done = 0
        self.micro_steps = min(config.gradient_accumulation_steps, LEAST_MICRO_STEPS)
        self.iteration()  # the optimiser makes its state, the allocator finds its blocks
        self.micro_steps = _worthwhile(self.iteration(), config.gradient_accumulation_steps)
        properties = torch.cuda.get_device_properties(self.device) if self.device.type == "cuda" else None
        self.setup = SetupRecord(
            machine=describe_machine(self.device),
            arithmetic=as_prepared(used, prepared) if prepared else used,
            versions=VersionsRecord(
                nanodyno=__version__,
                python=platform.python_version(),
                torch=torch.__version__,
                cuda=torch.version.cuda,
            ),
            vocab_size=vocab_size,
            data_vocab_size=data_vocab_size,
            dataset=config.dataset if job.with_data else None,
            device_uuid=None if properties is None else str(properties.uuid),
            matmul_flops_per_second=None if ceiling is None else ceiling.timing.best_rate,
            matmul_size=None if ceiling is None else ceiling.m,
            start_seconds=time.time() - began,
            notes=(*choice.notes, *_said(way.note), *notes, *(prepared.notes if prepared else ())),
        )

    def iteration(self, micro_steps: int | None = None) -> SampleRecord:
        """Micro-steps and an update as the trainer makes them, timed from outside."""
        micro_steps = micro_steps or self.micro_steps
        marks = _Marks(self.loader, self.device)
        waited = self.loader.wait_seconds
        began = self.clock.seconds()
        marks.mark()
        torch.manual_seed(self._done)
        self.engine.gradients(marks, micro_steps)
        self.engine.update(learning_rate_at(self.config, self._done))
        marks.mark()
        seconds = self.clock.seconds() - began
        self._done += 1
        times = marks.times()
        beginnings = times[1:-1]
        steps = [after - before for before, after in itertools.pairwise(beginnings)][1:]
        return SampleRecord(
            seconds=seconds,
            device_seconds=times[-1] - times[0] if self.device.type == "cuda" else None,
            micro_steps=micro_steps,
            micro_step_seconds=tuple(steps),
            data_seconds=self.loader.wait_seconds - waited,
        )

    def _prepare(self, windows: Windows, tell: Callable[[ProbeStage], None]) -> Prepared | None:
        if not self.engine.needs_preparation:
            self.engine.get_ready()
            return None
        tell("compiling")
        inputs, targets = (
            torch.from_numpy(part).to(self.device)
            for part in windows.batch(np.arange(self.config.batch_size))
        )
        return self.engine.prepare((inputs, targets), self.clock)


class _Marks:
    """Micro-batches that mark the moment each is asked for: where a micro-step begins.

    A card marks on its own timeline, since the host runs ahead of it.
    """

    def __init__(self, batches: Loader, device: torch.device) -> None:
        self._batches = batches
        self._device = device
        self._events: list[torch.cuda.Event] = []
        self._seconds: list[float] = []

    def __iter__(self) -> "_Marks":
        return self

    def __next__(self) -> DeviceBatch:
        self.mark()
        return next(self._batches)

    def mark(self) -> None:
        if self._device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        else:
            self._seconds.append(time.perf_counter())

    def times(self) -> list[float]:
        """Seconds after the first mark; asked for after a synchronisation."""
        if self._events:
            return [self._events[0].elapsed_time(event) / 1000 for event in self._events]
        return [moment - self._seconds[0] for moment in self._seconds]


def _worthwhile(sample: SampleRecord, accumulation: int) -> int:
    """Micro-steps that make an iteration long enough to be timed well, and no longer than it is."""
    each = sample.seconds / sample.micro_steps
    return min(accumulation, max(LEAST_MICRO_STEPS, math.ceil(SAMPLE_SECONDS / each)))


def _tokens(job: ProbeJob) -> tuple[TokenFiles, int, tuple[str, ...]]:
    """What to read, how many different tokens it has, and what had to be assumed."""
    config = job.config
    if job.with_data:
        dataset = resolve_dataset(config.dataset, job.data_folder, config.tokenizer, config.vocab_size)
        return dataset.split("train"), dataset.vocab_size, ()
    vocab_size, notes = _vocabulary(job)
    return synthetic_tokens(vocab_size, config), vocab_size, notes


def _vocabulary(job: ProbeJob) -> tuple[int, tuple[str, ...]]:
    config = job.config
    known = VOCABULARIES[config.tokenizer]
    if config.vocab_size is not None:
        return min(known, config.vocab_size), ()
    if config.dataset == EMBEDDED:
        return known, ()
    try:
        return resolve_dataset(config.dataset, job.data_folder, config.tokenizer, None).vocab_size, ()
    except NanodynoError as error:
        return known, (f"{why_unopened(config.dataset, error)}: {known} different tokens are assumed",)


def synthetic_tokens(vocab_size: int, config: RunConfig) -> TokenFiles:
    """Seeded, and as unevenly frequent as words are (Zipf): gradients of common tokens meet in memory."""
    uniform = np.random.default_rng(config.seed).random(max(SYNTHETIC_TOKENS, 2 * config.block_size + 2))
    ids = np.minimum(np.exp(uniform * math.log(vocab_size + 1)).astype(np.int64) - 1, vocab_size - 1)
    dtype = np.uint16 if vocab_size <= 2**16 else np.uint32
    return TokenFiles("synthetic tokens", ("synthetic tokens",), (ids.astype(dtype),))


def _said(note: str | None) -> tuple[str, ...]:
    return (note,) if note else ()
