"""How much memory a child may take and has taken: a smaller GPU emulated, a host that is not brought down."""

import sys

import psutil
import torch

from nanodyno.errors import NanodynoError
from nanodyno.records.probe import MemoryRecord
from nanodyno.train.device import peak_memory


def limit_memory(device: torch.device, limit_bytes: int | None) -> None:
    """On a card through the allocator. On a CPU through the system, where the limit is what is free now.

    So that a config too large for the host ends in an error of this process, and not with the system
    choosing some process to kill.
    """
    if device.type == "cuda":
        if limit_bytes is not None:
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total), device)
        return
    if sys.platform != "linux":
        if limit_bytes is not None:
            raise NanodynoError("a memory limit on the CPU needs Linux", "leave it out")
        return
    import resource

    taken = psutil.Process().memory_info().rss
    if limit_bytes is not None and limit_bytes <= taken:
        words = (
            f"a limit of {limit_bytes / 2**30:.2f} GiB is too low: torch alone takes {taken / 2**30:.2f} GiB"
        )
        raise NanodynoError(words, "raise it")
    wanted = limit_bytes or taken + psutil.virtual_memory().available
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    within = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (within, hard))


def memory_reached(graph_bytes: int = 0) -> MemoryRecord:
    """Return this process's peaks, and what its GPU has left."""
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
