"""One writer a folder: a lock that the system itself lets go of when its process ends, however it ends."""

from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"
PATIENCE_SECONDS = 2.0
"""A reader that asks whether somebody writes holds the lock for an instant."""
LOOK_SECONDS = 0.05
"""So that two readers do not take each other for a writer."""


class FolderIsTaken(Exception):
    """Another process writes there."""


class FolderLock:
    """Held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        self._lock = FileLock(folder / LOCK_FILE, thread_local=False)
        try:
            self._lock.acquire(timeout=PATIENCE_SECONDS)
        except Timeout:
            raise FolderIsTaken from None

    def release(self) -> None:
        self._lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process writes there now; False where that cannot be asked, as in a read-only folder."""
    path = folder / LOCK_FILE
    if not path.exists():
        return False
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=LOOK_SECONDS, poll_interval=LOOK_SECONDS / 10)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def remove_if_unused(folder: Path) -> None:
    """Removes a folder in which nothing came about but a lock; one with anything else in it stays."""
    with suppress(OSError):
        if {path.name for path in folder.iterdir()} <= {LOCK_FILE}:
            (folder / LOCK_FILE).unlink(missing_ok=True)
            folder.rmdir()
