"""Trains runs over and over, each time in a fork that is killed at a chosen moment; the last one ends a run.

`python kill_child.py DATA SETTINGS KILLS`, where KILLS is JSON: for each folder, a list of kills. A kill is
`seconds:0.1` after the first step of the stretch, or `write:17`, `fsync:3`, `rename:2`, `unlink:4`: at the
n-th such call, a write after half of its bytes. `group` before it kills the whole process group. One process
loads torch; each stretch is a fork of it. Prints the number of kills that struck, by folder, as JSON.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nanodyno.config import RunConfig
from nanodyno.records.events import RunEvent
from nanodyno.records.types import StepRecord
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training


def main() -> None:
    data, settings, kills = sys.argv[1:]
    config = RunConfig.model_validate_json(settings)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    struck = {
        folder: train(TrainingJob(config, "run", Path(folder), data_folder=Path(data)), of_it)
        for folder, of_it in json.loads(kills).items()
    }
    sys.stdout.write(json.dumps(struck))


def train(job: TrainingJob, kills: list[str]) -> int:
    for struck, kill in enumerate((*kills, None)):
        pid = os.fork()
        if pid == 0:
            stretch(job, kill)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            return struck
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"{kill}: ended with {status}")
    sys.exit("the last stretch was killed")


def stretch(job: TrainingJob, kill: str | None) -> None:
    watch: Callable[[RunEvent], None] = lambda _: None  # noqa: E731
    if kill is not None:
        group = kill.startswith("group ")
        if group:
            os.setsid()
        die = (
            (lambda: os.killpg(0, signal.SIGKILL))
            if group
            else (lambda: os.kill(os.getpid(), signal.SIGKILL))
        )
        kind, number = kill.removeprefix("group ").split(":")
        if kind == "seconds":
            watch = die_later(float(number), die)
        else:
            die_at_call(kind, int(number), die)
    run_training(job, watch)


def die_later(seconds: float, die: Callable[[], None]) -> Callable[[RunEvent], None]:
    def watch(event: RunEvent) -> None:
        set_already = any(isinstance(each, threading.Timer) for each in threading.enumerate())
        if isinstance(event, StepRecord) and not set_already:
            threading.Timer(seconds, die).start()

    return watch


def die_at_call(kind: str, number: int, die: Callable[[], None]) -> None:
    """Puts a trap around a system call of this process."""
    called = 0

    def trapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def at_last(*arguments: Any, **options: Any) -> Any:
            nonlocal called
            called += 1
            if called == number:
                if kind == "write":
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                die()
                time.sleep(60)
            return call(*arguments, **options)

        return at_last

    for name in {"rename": ("rename", "replace")}.get(kind, (kind,)):
        setattr(os, name, trapped(getattr(os, name)))


if __name__ == "__main__":
    main()
