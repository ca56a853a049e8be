"""A file of records by iteration that grows, and is cut back where a log starts anew from an earlier one."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

BLOCK = 4096

Item = TypeVar("Item", bound=tuple[object, ...])


class GrowingRecords(Generic[Item]):
    """Items begin with their iteration. The latest few thousand are in memory, the others on disk.

    `lines` writes items as JSON documents, `item` reads one back; `dropped` is told what a cut takes away.
    """

    def __init__(
        self,
        path: Path,
        lines: Callable[[Sequence[Item]], list[str]],
        item: Callable[[dict[str, object]], Item],
        dropped: Callable[[Sequence[Item]], None] = lambda _: None,
    ) -> None:
        self._file = path.open("w+b")
        self._lines, self._item, self._dropped = lines, item, dropped
        self._latest: list[Item] = []
        self._blocks: list[tuple[int, int, int]] = []
        """First and last iteration of what is on disk, and where in the file it begins."""
        self._size = 0
        self.count = 0

    @property
    def last(self) -> Item | None:
        return self._latest[-1] if self._latest else None

    def append(self, item: Item) -> None:
        """Of a later iteration than all before: `cut` first where it is not."""
        self._latest.append(item)
        self.count += 1
        if len(self._latest) >= 2 * BLOCK:
            self._write(self._latest[:BLOCK])
            del self._latest[:BLOCK]

    def cut(self, iteration: int) -> None:
        """Drops everything from an iteration on."""
        while self._blocks and self._first(self._latest) >= iteration:
            self._drop(0)
            self._latest = self._take_back()
        self._drop(sum(_iteration(item) < iteration for item in self._latest))

    def close(self) -> None:
        try:
            self._write(self._latest)
        finally:
            self._file.close()

    def _drop(self, kept: int) -> None:
        """All but the first so many of those in memory."""
        gone = self._latest[kept:]
        del self._latest[kept:]
        self.count -= len(gone)
        self._dropped(gone)

    def _first(self, items: Sequence[Item]) -> float:
        return _iteration(items[0]) if items else float("inf")

    def _write(self, items: Sequence[Item]) -> None:
        if not items:
            return
        data = ("\n".join(self._lines(items)) + "\n").encode()
        self._blocks.append((_iteration(items[0]), _iteration(items[-1]), self._size))
        self._file.write(data)
        self._size += len(data)

    def _take_back(self) -> list[Item]:
        """The last block on disk, back in memory."""
        _, _, place = self._blocks.pop()
        self._file.seek(place)
        items = [self._item(json.loads(line)) for line in self._file.read(self._size - place).splitlines()]
        self._file.seek(place)
        self._file.truncate()
        self._size = place
        return items


def _iteration(item: tuple[object, ...]) -> int:
    assert isinstance(item[0], int)
    return item[0]
