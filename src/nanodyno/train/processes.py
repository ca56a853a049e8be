"""The processes that train one run together, as torchrun starts them; for one alone this is next to nothing.

The first one (rank 0) decides, records and saves; the others follow what it shares through the store.
"""

import faulthandler
import gc
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.train.peers import Peers

LOOK_SECONDS = 10.0
"""How long to look for who is gone after an exchange has failed."""
END_SECONDS = 15.0
HINT = "RANK and WORLD_SIZE are torchrun's: start the processes with it, or unset both"
_openings = itertools.count()
_NOWHERE = Path(os.devnull).open("w")  # noqa: SIM115 - kept open for a timer that may fire at any time


class Processes:
    """One of `count` processes, number `rank`."""

    def __init__(self, rank: int = 0, count: int = 1, store: Store | None = None) -> None:
        self.rank = rank
        self.count = count
        self._store = store
        self._peers: Peers | None = None
        self._looked = False
        if store is not None:
            self._peers = Peers(store, rank, count, f"pid {os.getpid()} on {socket.gethostname()}")

    @property
    def first(self) -> bool:
        return self.rank == 0

    def connect(self, device: torch.device) -> None:
        """Opens the exchange of tensors: NCCL between GPUs, gloo between CPUs."""
        if self._store is not None:
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=PrefixStore("group", self._store),
                rank=self.rank,
                world_size=self.count,
                device_id=device if device.type == "cuda" else None,
                timeout=timedelta(minutes=30),
            )

    def share(self, key: str, text: str | None = None) -> str:
        """The first process's text, in all of them; the others wait for it as long as it lives."""
        if self._store is None or self.first:
            assert text is not None
            if self._store is not None:
                self._store.set(key, text)
            return text
        assert self._peers is not None
        while not self._store.check([key]):
            if lost := self._peers.lost():
                raise RunFailed(lost)
            time.sleep(0.02)
        return self._store.get(key).decode()

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in all of them."""
        if self.count > 1:
            dist.all_reduce(value)
        return value

    def average_(self, value: Tensor) -> None:
        """In place, the mean over all processes."""
        if self.count > 1:
            dist.all_reduce(value)
            value /= self.count

    def largest(self, number: int, device: torch.device) -> int:
        if self.count == 1:
            return number
        value = torch.tensor(number, device=device)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return int(value.item())

    def explain(self, error: RuntimeError) -> RunFailed | None:
        """What an exchange that failed really means: one of the others is gone."""
        if self._peers is None:
            return None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, sent while we look
        lost = self._peers.lost(0.0 if self._looked else LOOK_SECONDS)
        self._looked = True
        if lost is None:
            return None
        reported = RunFailed(
            lost, "torchrun --max-restarts=N restarts them. Repeating the command also resumes"
        )
        reported.__cause__ = error
        return reported

    def leave(self, words: str = "") -> None:
        """Ends the exchange; with words, after a failure.

        A replica that is freed after its group ends that group while it holds the interpreter, for which a
        thread of gloo's may be waiting: for ever. After a failure the error still holds the replica, so the
        group is left to the end of the process, and a timer that needs no interpreter makes that come.
        """
        if self._peers is not None:
            self._peers.leave(words)
        if words and self.count > 1:
            faulthandler.dump_traceback_later(END_SECONDS, exit=True, file=_NOWHERE)
        elif dist.is_initialized():
            gc.collect()
            dist.destroy_process_group()


def launched() -> bool:
    """Whether torchrun, or a launcher that speaks as it does, has started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def launched_count() -> int:
    """Of the processes that train together, this one included."""
    reported = os.environ["WORLD_SIZE"] if launched() else "1"
    if not reported.isdecimal():
        raise NanodynoError(f"WORLD_SIZE={reported} is not a number of processes", HINT)
    return int(reported)


def is_first() -> bool:
    """Whether this process decides, records and shows; known before any has met another."""
    return not launched() or os.environ["RANK"] == "0"


def local_rank() -> int:
    """Which of the processes on this machine; its number is that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0")) if launched() else 0


@contextmanager
def open_processes() -> Iterator[Processes]:
    """The processes of torchrun's environment; without one, this process alone."""
    if launched_count() == 1:
        yield Processes()
        return
    try:
        store, rank, count = next(rendezvous("env://"))
    except (ValueError, dist.DistError) as error:
        raise NanodynoError(
            f"RANK and WORLD_SIZE are set, but the processes cannot meet: {error}",
            HINT,
        ) from error
    # A launcher that restarts its processes may keep its store, with what the ended ones have said; and one
    # process may train several runs.
    prefix = f"nanodyno/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_openings)}"
    processes = Processes(rank, count, PrefixStore(prefix, store))
    try:
        yield processes
    except BaseException as error:
        processes.leave(str(error) or type(error).__name__)
        raise
    processes.leave()
