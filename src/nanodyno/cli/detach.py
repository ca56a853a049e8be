"""Training in the background: a process of its own that outlives the terminal and writes into a log file."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nanodyno.records.files import LOG_FILE

if TYPE_CHECKING:
    from rich.console import Console

LOOK_SECONDS = 0.2
LONGEST_START_SECONDS = 120
"""Then it is left alone: preparing a corpus may take longer."""


def train_in_background(folder: Path, arguments: Sequence[str], console: "Console") -> None:
    """Starts the same command without --detach and waits until it trains or has failed."""
    command = [*(each for each in arguments if each != "--detach")]
    if not any(each.split("=")[0] in ("--resume", "--name", "--out_dir") for each in command):
        command.append(f"--name={folder.name}")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / LOG_FILE
    with log.open("ab") as file:
        start = file.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "nanodyno", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            # In a session of its own, which closing the terminal does not end.
            start_new_session=True,
            creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
        )
    if _failed(child, folder):
        typer.echo(log.read_bytes()[start:].decode(errors="replace").rstrip(), err=True)
        raise typer.Exit(child.returncode)
    console.print(
        f"{folder} trains in the background, process {child.pid}\n"
        f"  see it:  nanodyno runs --watch, or the log in {log}\n"
        f"  stop it: kill {child.pid} (it finishes its iteration and saves)\n"
        f"  go on:   nanodyno train --resume {folder.name} --detach",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _failed(child: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """Waits for the child's first record; True when it ended with an error before."""
    from nanodyno.records.store import read_history
    from nanodyno.records.types import StartRecord

    deadline = time.monotonic() + LONGEST_START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        starts = [entry for entry in read_history(folder) if isinstance(entry, StartRecord)]
        if starts and starts[-1].process == child.pid:
            return False
        time.sleep(LOOK_SECONDS)
    return bool(child.poll())
