"""Work in a child process, the child's side: `python -m nanodyno.probe.child module:function` (process.py).

The function is a task: a generator that takes the parent's requests, a JSON document each, reports progress
and yields a result for each of them.
"""

import importlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, Protocol

from nanodyno.errors import NanodynoError
from nanodyno.probe.process import Failure, TaskProgress, TaskResult
from nanodyno.records.types import Record


class Report(Protocol):
    """Reports what the child is doing; with a value, that a piece of the work is done."""

    def __call__(self, stage: str, value: Any = None) -> None: ...


class Channel:
    """The pipes to the parent. What libraries print to stdout goes to stderr, which the parent keeps.

    The pipes are duplicates: Python would abort at its end if a thread were reading its own stdin then.
    """

    def __init__(self) -> None:
        self._in, self._out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def send(self, message: Record) -> None:
        self._out.write(message.model_dump_json().encode() + b"\n")
        self._out.flush()

    def report(self, stage: str, value: Any = None) -> None:
        self.send(TaskProgress(stage=stage, value=value))

    def requests(self) -> Iterator[bytes]:
        while True:
            yield self._lines.get()

    def _read(self) -> None:
        for line in self._in:
            self._lines.put(line)
        end_at_once()


def end_at_once() -> None:
    """The parent has no more use for this process, or is gone: whatever it is doing ends here.

    With all it started, which torch's compiler does: it leads a process group of its own.
    """
    if os.name == "posix" and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    channel = Channel()
    module, _, function = sys.argv[1].partition(":")
    task = getattr(importlib.import_module(module), function)
    channel.report("starting")
    requests = channel.requests()
    try:
        for result in task(requests, channel.report):
            channel.send(TaskResult(value=result))
    except NanodynoError as error:
        channel.send(Failure(reason="refused", words=error.message, hint=error.hint))
    except (MemoryError, RuntimeError, OSError) as error:
        traceback.print_exc()  # to stderr, which the parent keeps
        channel.send(_failure(error))
    next(requests)  # until the parent ends this process


def _failure(error: Exception) -> Failure:
    """Out of memory also where no context could be opened on a GPU that others have filled."""
    from nanodyno.probe.limits import memory_reached  # torch, which a task has imported by then
    from nanodyno.train.device import is_out_of_memory
    from nanodyno.train.engine import last_words

    words = last_words(error)
    if is_out_of_memory(error) or "out of memory" in str(error).lower():
        return Failure(reason="out-of-memory", words=words, memory=memory_reached())
    return Failure(reason="error", words=words)


if __name__ == "__main__":
    main()
