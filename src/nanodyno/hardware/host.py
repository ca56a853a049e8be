"""What of the host a program may use: memory that it may still take, and a container's share of the cores."""

from contextlib import suppress
from pathlib import Path

import psutil

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""As a container sees it; elsewhere there is no such file."""
CONTROL_GROUPS = Path("/sys/fs/cgroup")


def available_memory(container_limit: Path = CONTAINER_LIMIT) -> int:
    """Without swapping. A container's limit counts where it is less; what it holds is not taken off."""
    available = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # "max" is no limit
        return min(available, int(container_limit.read_text()))
    return available


def cpu_quota(control_groups: Path = CONTROL_GROUPS) -> float | None:
    """Return how many cores a container may use at once (docker --cpus), or None without such a limit."""
    with suppress(OSError, ValueError):  # version 2; "max" is no limit
        quota, period = (control_groups / "cpu.max").read_text().split()
        return _cores(int(quota), int(period))
    with suppress(OSError, ValueError):  # version 1; -1 is no limit
        quota, period = (
            int((control_groups / "cpu" / f"cpu.cfs_{each}_us").read_text()) for each in ("quota", "period")
        )
        return _cores(quota, period)
    return None


def _cores(quota: int, period: int) -> float | None:
    """A sandbox may report zeros."""
    return quota / period if quota > 0 and period > 0 else None
