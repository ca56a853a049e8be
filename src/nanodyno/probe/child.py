"""The process of a probe: builds one config, then does what its parent asks until the parent is gone.

Started as `python -m nanodyno.probe.child`; a job and commands come on stdin, messages go to stdout.
"""

import time

import psutil
import torch

from nanodyno.analysis.probes import iteration_seconds
from nanodyno.analysis.steady import is_enough
from nanodyno.errors import NanodynoError
from nanodyno.probe.channel import Channel
from nanodyno.probe.messages import (
    COMMANDS,
    AtStage,
    BrokenDown,
    Fault,
    Measure,
    Mistake,
    NoMemory,
    ProbeJob,
    Ready,
    Sampled,
    Visited,
)
from nanodyno.probe.profile import profile_iterations
from nanodyno.probe.workload import Workload
from nanodyno.records.probe import MemoryRecord, SampleRecord
from nanodyno.train.device import is_out_of_memory, peak_memory, reset_peak_memory

FIRST_LOOK = 16
"""Iterations after which a process first asks whether it has enough; then after twice as many, and so on."""


def main() -> None:
    channel = Channel()
    channel.tell(AtStage(stage="starting"))
    import_seconds = time.time() - psutil.Process().create_time()
    try:
        job = ProbeJob.model_validate_json(channel.line())
        _serve(job, time.time() - import_seconds, channel)
    except NanodynoError as error:
        channel.tell(Mistake(message=error.message, hint=error.hint))
    except (MemoryError, RuntimeError, OSError) as error:
        if not _ran_out(error):
            channel.tell(Fault(words=_first_line(error)))
            raise
        channel.tell(NoMemory(memory=_memory(), words=_first_line(error)))


def _serve(job: ProbeJob, began: float, channel: Channel) -> None:
    workload = Workload(job, began, lambda stage: channel.tell(AtStage(stage=stage)))
    channel.tell(Ready(setup=workload.setup))
    samples: list[SampleRecord] = []
    while True:
        command = COMMANDS.validate_json(channel.line())
        if isinstance(command, Measure):
            channel.tell(AtStage(stage="measuring"))
            samples = _measure(workload, command, channel)
            channel.tell(Visited(memory=_memory(workload.engine.graph_bytes)))
        else:
            channel.tell(AtStage(stage="profiling"))
            channel.tell(_broken_down(workload, samples))


def _measure(workload: Workload, command: Measure, channel: Channel) -> list[SampleRecord]:
    accumulation = workload.config.gradient_accumulation_steps
    samples: list[SampleRecord] = []
    reset_peak_memory(workload.device)
    end = time.perf_counter() + command.limit_seconds
    look = FIRST_LOOK
    while not samples or time.perf_counter() < end:
        samples.append(workload.iteration())
        channel.tell(Sampled(sample=samples[-1]))
        if len(samples) == look:
            if is_enough([iteration_seconds(sample, accumulation) for sample in samples], command.precision):
                break
            look *= 2
    return samples


def _broken_down(workload: Workload, samples: list[SampleRecord]) -> BrokenDown:
    whole = workload.config.gradient_accumulation_steps
    breakdown, fault = profile_iterations(workload.iteration, workload.device, samples, whole)
    return BrokenDown(breakdown=breakdown, fault=fault)


def _memory(graph_bytes: int = 0) -> MemoryRecord:
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return MemoryRecord(peak_host_bytes=peak_memory(torch.device("cpu")).host)
    device = torch.device("cuda", torch.cuda.current_device())
    peak, stats = peak_memory(device, graph_bytes), torch.cuda.memory_stats(device)
    free, total = torch.cuda.mem_get_info(device)
    return MemoryRecord(
        peak_allocated_bytes=peak.allocated,
        peak_reserved_bytes=peak.reserved,
        peak_host_bytes=peak.host,
        device_memory_bytes=total,
        device_free_bytes=free,
        alloc_retries=stats.get("num_alloc_retries"),
        inactive_split_bytes=stats.get("inactive_split_bytes.all.peak"),
    )


def _ran_out(error: BaseException) -> bool:
    """Also where no context could be opened on a card that others have filled."""
    return is_out_of_memory(error) or "out of memory" in str(error).lower()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    main()
