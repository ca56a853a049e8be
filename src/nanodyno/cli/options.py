"""Options and helpers that several commands share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

RUNS_FOLDER = Path("runs")

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A name under runs/, or the path of a run folder.")
]


def console_for(json: bool) -> "Console":
    """Where people read: stdout, or stderr when stdout carries a document.

    When its reader goes away (`| head`, a `tee` that died), it falls silent and the work goes on.
    """
    from rich.console import Console

    class LastingConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())

    return LastingConsole(stderr=json)
