"""One line about what is being done now, gone when it is over; plain lines where there is no terminal."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nanodyno.report.progress import say


@contextmanager
def show_doing(console: Console) -> Generator[Callable[[str], None]]:
    if not console.is_terminal:
        yield lambda words: say(console, words)
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting")
        yield lambda words: progress.update(task, description=words)
