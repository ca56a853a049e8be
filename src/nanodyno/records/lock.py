"""One writer a run: a lock that the system itself lets go of when its process ends, however it ends."""

from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"
PATIENCE_SECONDS = 2.0
"""A reader that asks who writes holds the lock for an instant."""


class RunIsTaken(Exception):
    """Another process writes this run."""


class RunLock:
    """Held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        self._lock = FileLock(folder / LOCK_FILE, thread_local=False)
        try:
            self._lock.acquire(timeout=PATIENCE_SECONDS)
        except Timeout:
            raise RunIsTaken from None

    def release(self) -> None:
        self._lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process writes this run now; False where that cannot be asked, as in a read-only folder."""
    path = folder / LOCK_FILE
    if not path.exists():
        return False
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False
