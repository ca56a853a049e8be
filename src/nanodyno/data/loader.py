"""Batches: which window of tokens comes at which position, and a thread that has them ready in time.

A window is block_size inputs and the same shifted by one as targets. The stream is a function of the seed
and the position alone, counted in sequences from 0 across epochs, so the micro-batch does not change it and
a resumed run starts where it stopped.
"""

import queue
import threading
import time
from collections.abc import Iterator
from types import TracebackType

import numpy as np
import torch

from nanodyno.data.order import random_words, shuffled
from nanodyno.data.shards import TokenFiles
from nanodyno.errors import NanodynoError

Batch = tuple[np.ndarray, np.ndarray]


class Windows:
    """The windows of one split: every one once an epoch, in the epoch's shuffled order.

    A file's last (tokens - 1) % block_size tokens do not fill a window. Each epoch shifts a file's windows
    by a seeded offset within that remainder, so that what is left out differs from epoch to epoch.
    """

    def __init__(self, files: TokenFiles, block_size: int, vocab_size: int, seed: int = 0) -> None:
        # Plain views of the memory maps: numpy.memmap costs a Python call for every slice.
        self._tokens = [np.asarray(tokens) for tokens in files]
        self._names = files.names
        self._seed = seed
        self.block_size = block_size
        self.vocab_size = vocab_size
        lengths = np.array([len(tokens) for tokens in self._tokens], dtype=np.int64)
        counts, self._tails = np.divmod(np.maximum(lengths - 1, 0), block_size)
        self._ends = np.cumsum(counts)
        self._firsts = self._ends - counts
        self.count = int(counts.sum())
        if self.count == 0:
            raise NanodynoError(
                f"{files.label} has no file of {block_size + 1} tokens, which one window of "
                f"block_size={block_size} needs (the longest has {lengths.max(initial=0)})",
                hint="choose a smaller block_size or a larger dataset",
            )

    def batch(self, positions: np.ndarray) -> Batch:
        """Inputs and targets (B x T, int64) of these positions of the endless shuffled stream."""
        epochs, places = np.divmod(np.asarray(positions, dtype=np.int64), self.count)
        windows = np.empty_like(places)
        offsets = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            windows[here] = shuffled(places[here], self.count, (self._seed, epoch))
            offsets[here] = self._epoch_offsets(epoch)[self._file_of(windows[here])]
        return self._gather(windows, offsets)

    def in_order(self, windows: np.ndarray) -> Batch:
        """Inputs and targets of windows by their index in range(count), unshuffled and without offset."""
        return self._gather(windows, np.zeros_like(windows))

    def _file_of(self, windows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._ends, windows, side="right")

    def _epoch_offsets(self, epoch: int) -> np.ndarray:
        words = random_words(len(self._tails), (self._seed, epoch), stream=1)
        return (words % (self._tails + 1).astype(np.uint64)).astype(np.int64)

    def _gather(self, windows: np.ndarray, offsets: np.ndarray) -> Batch:
        T = self.block_size
        files = self._file_of(windows)
        starts = (windows - self._firsts[files]) * T + offsets
        rows = np.empty((len(windows), T + 1), dtype=np.int64)
        for row, file, start in zip(rows, files.tolist(), starts.tolist(), strict=True):
            row[:] = self._tokens[file][start : start + T + 1]
        self._check_ids(rows, files)
        return rows[:, :-1].copy(), rows[:, 1:].copy()

    def _check_ids(self, rows: np.ndarray, files: np.ndarray) -> None:
        """On CUDA an id beyond the embedding is a device assert that names nothing and ends the process."""
        if rows.max() < self.vocab_size:
            return
        row = int(rows.max(axis=1).argmax())
        raise NanodynoError(
            f"{self._names[files[row]]} holds token {rows[row].max()}, outside vocab_size={self.vocab_size}",
            hint="the file has another vocabulary: set vocab_size to that one's, or prepare it again",
        )


def evaluation_batches(windows: Windows, tokens: int, batch_size: int) -> Iterator[Batch]:
    """About `tokens` tokens spread evenly over the split: the same sequences at every call.

    At least one sequence, at most all of them; the last batch may be smaller, and batch_size changes only
    how they are grouped.
    """
    sequences = max(1, min(windows.count, tokens // windows.block_size))
    chosen = np.arange(sequences, dtype=np.int64) * windows.count // sequences
    for first in range(0, sequences, batch_size):
        yield windows.in_order(chosen[first : first + batch_size])


class Loader:
    """Endless micro-batches on the device, made ahead of time by a thread.

    wait_seconds is how long the consumer has stood waiting for data, all calls together.
    """

    def __init__(
        self, windows: Windows, batch_size: int, device: torch.device, start: int = 0, prefetch: int = 8
    ) -> None:
        self.wait_seconds = 0.0
        self._windows = windows
        self._batch_size = batch_size
        self._device = device
        self._ready: queue.Queue[tuple[torch.Tensor, torch.Tensor] | BaseException] = queue.Queue(prefetch)
        self._closed = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._fill, args=(start,), name="loader", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._failure is not None:
            raise self._failure
        if self._closed.is_set():
            raise StopIteration
        began = time.perf_counter()
        item = self._ready.get()
        self.wait_seconds += time.perf_counter() - began
        if isinstance(item, BaseException):
            self._failure = item
            raise item
        # The copy is queued on the caller's stream. Torch's pinned-memory allocator records it there and
        # reuses the memory only once the copy is done, so the pinned tensors may be let go of here.
        x, y = (part.to(self._device, non_blocking=True) for part in item)
        return x, y

    def close(self) -> None:
        """End the thread. A full queue is emptied, so that a thread waiting for room sees the end."""
        self._closed.set()
        while not self._ready.empty():
            self._ready.get_nowait()
        self._thread.join()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, start: int) -> None:
        try:
            if self._device.type == "cuda":
                torch.cuda.set_device(self._device)  # else pinning would open a context on card 0
            while not self._closed.is_set():
                self._ready.put(self._prepared(start))
                start += self._batch_size
        except BaseException as error:  # handed over: __next__ raises it where the run can answer
            self._ready.put(error)

    def _prepared(self, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = self._windows.batch(np.arange(start, start + self._batch_size))
        if self._device.type == "cuda":
            return torch.from_numpy(x).pin_memory(), torch.from_numpy(y).pin_memory()
        return torch.from_numpy(x), torch.from_numpy(y)
