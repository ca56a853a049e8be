"""One line about what is being done now, gone when it is over; plain lines where there is no terminal."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console

from nanodyno.report.progress import say
from nanodyno.report.quantities import clock


@contextmanager
def show_doing(console: Console) -> Generator[Callable[[str], None]]:
    if not console.is_terminal:
        yield lambda words: say(console, words)
        return
    began = time.monotonic()
    with console.status("") as status:
        yield lambda words: status.update(f"{words} ({clock(time.monotonic() - began)} so far)")
