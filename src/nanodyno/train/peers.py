"""Which of the processes that train together are alive: each beats in the shared store and sees the others.

A process that is killed takes its connections along, and what torch then says names no one; under NCCL the
others would hang. Here the survivors learn who is gone, say so and end, and the launcher starts them again.
"""

import os
import sys
import threading
import time
from dataclasses import dataclass

from torch.distributed import DistError, Store  # pyright: ignore[reportPrivateImportUsage]

BEAT_SECONDS = 0.5
PATIENCE_SECONDS = 20.0
"""Without a beat; a process that imports or loads may hold the interpreter for seconds."""
HURRIED_PATIENCE_SECONDS = 3.0
"""Once an exchange with the others has failed."""
GRACE_SECONDS = 5.0
"""For the main thread to end by itself once it is known who is gone."""


@dataclass
class _Peer:
    rank: int
    name: str
    beat: bytes
    seen: float


class Peers:
    """A thread that beats and watches until `leave`."""

    def __init__(self, store: Store, rank: int, count: int, name: str) -> None:
        self._store: Store = store.clone()  # pyright: ignore[reportAttributeAccessIssue] - a connection of its own: the main thread may wait in the other
        self._rank = rank
        self._left = threading.Event()
        self._hurried = False
        self._lost: str | None = None
        self._beats = 0
        self._store.set(f"name/{rank}", name)
        self._beat()
        now = time.monotonic()
        self._peers = [
            _Peer(other, store.get(f"name/{other}").decode(), b"", now)
            for other in range(count)
            if other != rank
        ]
        threading.Thread(target=self._watch, name="peers", daemon=True).start()

    def lost(self, wait_seconds: float = 0.0) -> str | None:
        """Who is gone, in words; waits that long for it to show."""
        self._hurried = self._hurried or wait_seconds > 0
        deadline = time.monotonic() + wait_seconds
        while self._lost is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._lost

    def leave(self, words: str = "") -> None:
        """Tells the others that this process ends, and why when it failed."""
        self._left.set()
        try:
            self._store.set(f"bye/{self._rank}", words)
        except DistError:
            return  # the store has ended before

    def _beat(self) -> None:
        self._beats += 1
        self._store.set(f"beat/{self._rank}", str(self._beats))

    def _watch(self) -> None:
        try:
            while self._lost is None and not self._left.wait(BEAT_SECONDS):
                self._beat()
                self._lost = next(filter(None, map(self._look, self._peers)), None)
        except DistError as error:
            self._lost = f"the store that the processes share is gone ({str(error).splitlines()[0]})"
        if self._left.is_set() or self._left.wait(GRACE_SECONDS):
            return
        # The main thread hangs in an exchange that will never end; nothing but this ends the process.
        sys.stderr.write(f"error: {self._lost}; this is process {self._rank}, which ends too\n")
        sys.stderr.flush()
        os._exit(1)

    def _look(self, peer: _Peer) -> str | None:
        bye = f"bye/{peer.rank}"
        if self._store.check([bye]):
            words = self._store.get(bye).decode()
            return f"process {peer.rank} ({peer.name}) ended: {words}" if words else None
        beat = self._store.get(f"beat/{peer.rank}")
        now = time.monotonic()
        if beat != peer.beat:
            peer.beat, peer.seen = beat, now
        patience = HURRIED_PATIENCE_SECONDS if self._hurried else PATIENCE_SECONDS
        if now - peer.seen > patience:
            return f"process {peer.rank} ({peer.name}) has died or hangs"
        return None
