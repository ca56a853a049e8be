"""The micro-batches of an iteration: how many of which size, and the loader that has them ready."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nanodyno.config import RunConfig
from nanodyno.data.loader import Loader, Windows
from nanodyno.train.processes import Processes


class Batches:
    """This process's share of one stream; `size` is the micro-batch, which shrinks when memory runs out."""

    def __init__(
        self, config: RunConfig, windows: Windows, device: torch.device, processes: Processes
    ) -> None:
        self.size = config.batch_size
        self.sequences = config.batch_size * config.gradient_accumulation_steps
        """Of one iteration, in all processes; a ramp sets it anew before each."""
        self._divided = config.sequences_divided
        self._windows = windows
        self._device = device
        self._part = (processes.rank, processes.count)
        self._loader: Loader | None = None

    @property
    def steps(self) -> int:
        """Micro-steps of this process in one iteration."""
        return self.sequences // self._part[1] // self.size

    @property
    def loader(self) -> Loader:
        assert self._loader is not None
        return self._loader

    @property
    def smaller(self) -> int | None:
        """The largest size of at most half that fills the iteration, and those that a ramp will bring.

        None with several processes: all of them would have to change at the same moment.
        """
        halves = range(self.size // 2, 0, -1) if self._part[1] == 1 else ()
        return next((size for size in halves if self._divided % size == 0), None)

    def stop(self) -> None:
        """Until `load`."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def load(self, start: int) -> None:
        """From this sequence of the stream on, in micro-batches of the size that now is."""
        self.stop()
        self._loader = Loader(self._windows, self.size, self._device, start, self._part)

    @contextmanager
    def loading(self, start: int) -> Iterator[Loader]:
        self.load(start)
        try:
            yield self.loader
        finally:
            self.stop()
