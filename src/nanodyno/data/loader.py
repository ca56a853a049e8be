"""Batches: which window of tokens comes at which position, and a thread that has them ready in time.

A window is block_size inputs and the same shifted by one as targets. The stream is a function of the seed
and the position alone, counted in sequences from 0 across epochs, so the micro-batch does not change it and
a resumed run starts where it stopped.
"""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from nanodyno.data.order import random_words, shuffled
from nanodyno.data.shards import TokenFiles
from nanodyno.errors import NanodynoError

Batch = tuple[np.ndarray, np.ndarray]

TOKENS_AT_ONCE, BATCHES_AT_ONCE = 2**18, 64
"""What the loader prepares in one go, at most: 4 MiB. Every return of its thread to the interpreter disturbs
the one that trains, so many micro-batches share the few returns that a gathering needs."""
READY = 2
"""Such portions kept ahead."""


@dataclass(frozen=True)
class Places:
    """Where windows begin: the file of each and its first token there."""

    files: np.ndarray
    starts: np.ndarray


class Windows:
    """The windows of one split: every one once an epoch, in the epoch's shuffled order.

    A file's last (tokens - 1) % block_size tokens do not fill a window. Each epoch shifts a file's windows
    by a seeded offset within that remainder, so that what is left out differs from epoch to epoch.
    """

    def __init__(self, files: TokenFiles, block_size: int, vocab_size: int, seed: int = 0) -> None:
        self._names = files.names
        self._seed = seed
        self.block_size = block_size
        self.vocab_size = vocab_size
        lengths = np.array([len(tokens) for tokens in files], dtype=np.int64)
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
        self._dtype = files[0].dtype
        # Row i of such a view is the window that begins at token i: a batch is gathered by one indexing.
        self._views = [
            sliding_window_view(np.asarray(tokens), block_size + 1) if len(tokens) > block_size else None
            for tokens in files
        ]

    def batch(self, positions: np.ndarray) -> Batch:
        """Inputs and targets (B x T, int64) of these positions of the endless shuffled stream."""
        return self._new_batch(self.places(positions))

    def in_order(self, windows: np.ndarray) -> Batch:
        """Inputs and targets of windows by their index in range(count), unshuffled and without offset."""
        return self._new_batch(self._places_of(windows, np.zeros_like(windows)))

    def places(self, positions: np.ndarray) -> Places:
        """Where the windows of these positions of the endless shuffled stream lie."""
        epochs, indices = np.divmod(np.asarray(positions, dtype=np.int64), self.count)
        windows = np.empty_like(indices)
        offsets = np.empty_like(indices)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            windows[here] = shuffled(indices[here], self.count, (self._seed, epoch))
            offsets[here] = self._epoch_offsets(epoch)[self._file_of(windows[here])]
        return self._places_of(windows, offsets)

    def gather(self, places: Places) -> np.ndarray:
        """The tokens of these windows, T + 1 each, as the files hold them."""
        rows = np.empty((len(places.files), self.block_size + 1), dtype=self._dtype)
        for file in np.unique(places.files).tolist():
            here = places.files == file
            view = self._views[file]
            assert view is not None
            rows[here] = view[places.starts[here]]
            self._check_ids(rows[here], file)
        return rows

    def _new_batch(self, places: Places) -> Batch:
        rows = self.gather(places).astype(np.int64)
        return rows[:, :-1].copy(), rows[:, 1:].copy()

    def _file_of(self, windows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._ends, windows, side="right")

    def _epoch_offsets(self, epoch: int) -> np.ndarray:
        words = random_words(len(self._tails), (self._seed, epoch), stream=1)
        return (words % (self._tails + 1).astype(np.uint64)).astype(np.int64)

    def _places_of(self, windows: np.ndarray, offsets: np.ndarray) -> Places:
        files = self._file_of(windows)
        return Places(files, (windows - self._firsts[files]) * self.block_size + offsets)

    def _check_ids(self, rows: np.ndarray, file: int) -> None:
        """On CUDA an id beyond the embedding is a device assert that names nothing and ends the process."""
        if (largest := rows.max()) >= self.vocab_size:
            raise NanodynoError(
                f"{self._names[file]} holds token {largest}, outside vocab_size={self.vocab_size}",
                hint="the file has another vocabulary: set vocab_size to that one's, or prepare it again",
            )


def evaluation_batches(
    windows: Windows, tokens: int, batch_size: int, part: tuple[int, int] = (0, 1)
) -> Iterator[Batch]:
    """About `tokens` tokens spread evenly over the split: the same sequences at every call.

    At least one sequence, at most all of them; the last batch may be smaller, and batch_size changes only
    how they are grouped. part = (k, n) is every n-th of the batches from the k-th on.
    """
    sequences = max(1, min(windows.count, tokens // windows.block_size))
    chosen = np.arange(sequences, dtype=np.int64) * windows.count // sequences
    mine, parts = part
    for first in range(mine * batch_size, sequences, parts * batch_size):
        yield windows.in_order(chosen[first : first + batch_size])


class Loader:
    """Endless micro-batches on the device, made ahead of time by a thread.

    part = (k, n) is every n-th micro-batch from the k-th on: n processes divide one stream among them.
    wait_seconds is how long the consumer has stood waiting for data, all calls together.
    """

    def __init__(
        self,
        windows: Windows,
        batch_size: int,
        device: torch.device,
        start: int = 0,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.wait_seconds = 0.0
        self._part = part
        self._windows = windows
        self._batch_size = batch_size
        self._device = device
        self._copies = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._ready: queue.Queue[torch.Tensor | BaseException] = queue.Queue(READY)
        self._portion: Iterator[torch.Tensor] = iter(())
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
        both = next(self._portion, None)
        if both is None:
            self._portion = self._next_portion()
            both = next(self._portion)
        inputs, targets = both
        return inputs, targets

    def _next_portion(self) -> Iterator[torch.Tensor]:
        began = time.perf_counter()
        item = self._ready.get()
        self.wait_seconds += time.perf_counter() - began
        if isinstance(item, BaseException):
            self._failure = item
            raise item
        return iter(self._moved(item))

    def _moved(self, portion: torch.Tensor) -> torch.Tensor:
        """On a stream of its own, so that the copy runs beside the micro-steps that are queued already.

        Torch's pinned-memory allocator records the copy and reuses the memory only once it is done, so the
        pinned tensor may be let go of here.
        """
        if self._copies is None:
            return portion.to(self._device)
        training = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._copies):
            moved = portion.to(self._device, non_blocking=True)
        training.wait_stream(self._copies)
        moved.record_stream(training)
        return moved

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
            size, T = self._batch_size, self._windows.block_size
            count = max(1, min(BATCHES_AT_ONCE, TOKENS_AT_ONCE // (size * T)))
            while not self._closed.is_set():
                self._ready.put(self._portion_from(start, count))
                start += count * size * self._part[1]
        except BaseException as error:  # handed over: __next__ raises it where the run can answer
            self._ready.put(error)

    def _portion_from(self, start: int, count: int) -> torch.Tensor:
        """count micro-batches as one tensor of count x 2 x B x T: one copy brings inputs and targets over."""
        size, T = self._batch_size, self._windows.block_size
        mine, parts = self._part
        firsts = start + (np.arange(count) * parts + mine) * size
        positions = (firsts[:, None] + np.arange(size)).ravel()
        rows = self._windows.gather(self._windows.places(positions))
        rows = rows.reshape(count, size, T + 1)
        portion = torch.empty((count, 2, size, T), dtype=torch.int64, pin_memory=self._device.type == "cuda")
        portion.numpy()[:, 0] = rows[..., :-1]
        portion.numpy()[:, 1] = rows[..., 1:]
        return portion
