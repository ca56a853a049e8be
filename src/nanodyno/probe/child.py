"""The process of a probe: builds one config, then does what its parent asks until the parent is gone.

Started as `python -m nanodyno.probe.child`; a job and commands come on stdin, messages go to stdout.
"""

import os
import queue
import signal
import statistics
import sys
import threading
import time

import psutil
import torch

from nanodyno.analysis.probes import iteration_seconds
from nanodyno.analysis.steady import is_enough
from nanodyno.errors import NanodynoError
from nanodyno.probe.messages import (
    COMMANDS,
    AtStage,
    BrokenDown,
    Command,
    Fault,
    Measure,
    Message,
    Mistake,
    NoMemory,
    ProbeJob,
    Ready,
    Sampled,
    Visited,
)
from nanodyno.probe.profile import profile_iterations
from nanodyno.probe.workload import Workload
from nanodyno.records.probe import MemoryRecord, SampleRecord, Stage
from nanodyno.train.device import is_out_of_memory, peak_memory, reset_peak_memory

FIRST_LOOK = 16
"""Iterations after which a process first asks whether it has enough; then after twice as many, and so on."""


class Channel:
    """Lines to and from the parent. What libraries print to stdout goes to stderr, which the parent keeps."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def tell(self, message: Message) -> None:
        self._out.write(message.model_dump_json().encode() + b"\n")
        self._out.flush()

    def at(self, stage: Stage) -> None:
        self.tell(AtStage(stage=stage))

    def job(self) -> ProbeJob:
        return ProbeJob.model_validate_json(self._lines.get())

    def command(self) -> Command:
        return COMMANDS.validate_json(self._lines.get())

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            self._lines.put(line)
        end_at_once()


def end_at_once() -> None:
    """The parent has no more use for this process, or is gone: whatever it is doing ends here.

    With all it started, which torch's compiler does: it leads a process group of its own.
    """
    if os.name == "posix" and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    channel = Channel()
    channel.at("starting")
    import_seconds = time.time() - psutil.Process().create_time()
    try:
        job = channel.job()
        _serve(job, time.time() - import_seconds, channel)
    except NanodynoError as error:
        channel.tell(Mistake(message=error.message, hint=error.hint))
    except (MemoryError, RuntimeError, OSError) as error:
        if not _ran_out(error):
            channel.tell(Fault(words=_first_line(error)))
            raise
        channel.tell(NoMemory(memory=_memory(), words=_first_line(error)))


def _serve(job: ProbeJob, began: float, channel: Channel) -> None:
    workload = Workload(job, began, channel.at)
    channel.tell(Ready(setup=workload.setup))
    samples: list[SampleRecord] = []
    while True:
        command = channel.command()
        if isinstance(command, Measure):
            channel.at("measuring")
            samples = _measure(workload, command, channel)
            channel.tell(Visited(memory=_memory(workload.engine.graph_bytes)))
        else:
            channel.at("profiling")
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
    breakdown, fault = profile_iterations(
        workload.iteration,
        workload.device,
        wall_seconds=statistics.median(sample.seconds for sample in samples),
        data_seconds=statistics.median(sample.data_seconds for sample in samples),
    )
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
