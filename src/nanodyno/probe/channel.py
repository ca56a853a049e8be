"""The child's end of the pipes to its parent."""

import os
import queue
import signal
import sys
import threading

from nanodyno.records.types import Record


class Channel:
    """Lines to and from the parent. What libraries print to stdout goes to stderr, which the parent keeps."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def tell(self, message: Record) -> None:
        self._out.write(message.model_dump_json().encode() + b"\n")
        self._out.flush()

    def line(self) -> bytes:
        """The next of the parent's."""
        return self._lines.get()

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            self._lines.put(line)
        end_at_once()


def end_at_once() -> None:
    """The parent has no more use for this process, or is gone: whatever it is doing ends here.

    With all it started, which torch's compiler does: it leads a process group of its own.
    """
    if os.name == "posix" and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
