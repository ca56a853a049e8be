"""Which document came first: the hashes of all that were read, on disk, in bounded memory."""

import sqlite3
import threading
from pathlib import Path

from nanodyno.errors import RunFailed

_CACHE_KIB = 256 * 1024
_ROWS = 2**40
"""More rows than an input can have: a place is input * _ROWS + row."""


class SeenDocuments:
    """The first place of every document by its hash.

    Places come in order, and a place that comes again gets the same answer, so that a preparation which was
    stopped goes on with what it finds. commit() before anything on disk relies on the answers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._reported():
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._base.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS seen (hash BLOB PRIMARY KEY, place INTEGER) WITHOUT ROWID"
            )
            self._base.execute("BEGIN")

    def is_first(self, digest: bytes, number: int, row: int) -> bool:
        """Whether row `row` of input `number` is the first place of the document with this hash."""
        place = number * _ROWS + row
        with self._lock, self._reported():
            new = self._base.execute("INSERT INTO seen VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, place))
            if new.rowcount:
                return True
            found = self._base.execute("SELECT place FROM seen WHERE hash = ?", (digest,)).fetchone()
            return found[0] == place

    def commit(self) -> None:
        with self._lock, self._reported():
            self._base.execute("COMMIT")
            self._base.execute("BEGIN")

    def close(self) -> None:
        with self._lock, self._reported():
            if self._base.in_transaction:  # not so when Ctrl-C came in the middle of commit()
                self._base.execute("COMMIT")
            self._base.close()

    def _reported(self) -> "_Reported":
        return _Reported(self._path)


class _Reported:
    """sqlite's errors as ours: a full disk, a damaged file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise RunFailed(
                f"{self._path} cannot be used: {error}",
                "free some space, or delete it and repeat the command to read the hashes again",
            ) from error
