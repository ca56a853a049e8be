"""Training in the background: a process of its own that outlives the terminal and writes into a log file."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal

import typer

from nanodyno.errors import NanodynoError
from nanodyno.records.files import LOG_FILE

LOOK_SECONDS = 0.2
LONGEST_START_SECONDS = 120
"""Then it is left alone: preparing a corpus may take longer."""


def train_in_background(folder: Path, arguments: Sequence[str], json: bool) -> None:
    """Starts the same command without --detach and waits until it trains or has failed."""
    from nanodyno.records.lock import remove_if_unused
    from nanodyno.records.store import RUN_FILE
    from nanodyno.train.processes import launched

    if launched():
        raise NanodynoError(
            "--detach starts a process of its own, and torchrun has started this one",
            "detach torchrun itself: in tmux, or by systemd",
        )
    command = [each for each in arguments if each not in ("--detach", "--json")]
    if not any(each.split("=")[0] in ("--resume", "--out_dir") for each in command):
        command.append(f"--out_dir={folder}")
    log = folder / LOG_FILE
    with _opened(folder, log) as file:
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
    found = _start_of(child, folder)
    if found == "trains" or (found == "done" and json):
        _tell(folder, log, child.pid, json)
        return
    typer.echo(log.read_bytes()[start:].decode(errors="replace").rstrip(), err=found == "failed")
    if found == "done":
        return
    if not (folder / RUN_FILE).exists():
        log.unlink()
        remove_if_unused(folder)
    raise typer.Exit(child.returncode)


def _opened(folder: Path, log: Path) -> BinaryIO:
    """The log, unless another process is writing it, or nobody may."""
    from nanodyno.records.store import RUN_FILE
    from nanodyno.records.writer import locked

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / RUN_FILE).exists():
            locked(folder).release()
        return log.open("ab")
    except OSError as error:
        raise NanodynoError(f"cannot write {log}: {error.strerror}", "see who may write there") from error


def _tell(folder: Path, log: Path, process: int, json: bool) -> None:
    if json:
        from nanodyno.report.document import to_json

        typer.echo(to_json({"folder": str(folder), "log": str(log), "process": process}))
        return
    typer.echo(
        f"{folder} is training in the background, process {process}\n"
        f"  watch:  nanodyno runs --watch, or the log in {log}\n"
        f"  stop:   kill {process} (it finishes its iteration and saves)\n"
        f"  resume: nanodyno train --resume {folder} --detach"
    )


def _start_of(child: "subprocess.Popen[bytes]", folder: Path) -> Literal["trains", "done", "failed"]:
    """Waits for the child's first record; done when there was nothing for it to do."""
    from nanodyno.records.store import read_history
    from nanodyno.records.types import StartRecord

    deadline = time.monotonic() + LONGEST_START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        history = read_history(folder, up_to_damage=True)
        starts = [entry for entry in history if isinstance(entry, StartRecord)]
        if starts and starts[-1].process == child.pid:
            return "trains"
        time.sleep(LOOK_SECONDS)
    if child.poll() is None:
        return "trains"
    return "failed" if child.returncode else "done"
