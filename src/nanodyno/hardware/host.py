"""The memory of the host that a program may still take."""

from contextlib import suppress
from pathlib import Path

import psutil

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""As a container sees it; elsewhere there is no such file."""


def available_memory(container_limit: Path = CONTAINER_LIMIT) -> int:
    """Without swapping. A container's limit counts where it is less; what it holds is not taken off."""
    available = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # "max" is no limit
        return min(available, int(container_limit.read_text()))
    return available
