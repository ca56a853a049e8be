"""Tasks of test_process.py: each does one thing that a real task may do, in a child of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from nanodyno.errors import NanodynoError
from nanodyno.probe.child import Report


def echo(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """Reports three pieces of each request, and yields it."""
    for line in requests:
        report("reading")
        for number in range(3):
            report("working", number)
        yield json.loads(line)["text"]


def refuse(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    report("looking")
    raise NanodynoError(f"no such thing: {json.loads(next(requests))['text']}", "try another")
    yield


def run_out(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    report("filling")
    next(requests)
    raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nand more lines")
    yield


def fail(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    next(requests)
    report("failing")
    raise RuntimeError("a wrapper") from OSError("what went wrong\nand more lines")
    yield


def sleep(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    next(requests)
    report("sleeping")
    time.sleep(600)
    yield


def chatter(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """Never silent, and never done."""
    next(requests)
    while True:
        report("talking")
        time.sleep(0.02)
    yield


def close_pipes(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """As a process does that hangs in its exit."""
    next(requests)
    report("leaving")
    os.closerange(3, 64)
    time.sleep(600)
    yield


def slow(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """Pieces of 0.3 s, the number of which is asked for, and then 3 s without one."""
    for line in requests:
        report("working")
        for number in range(int(json.loads(line)["text"])):
            time.sleep(0.3)
            report("working", number)
        time.sleep(3.0)
        yield "done"


def abort(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    next(requests)
    report("aborting")
    os.abort()
    yield


def killed(requests: Iterator[bytes], _: Report) -> Iterator[object]:
    next(requests)
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def crash(requests: Iterator[bytes], _: Report) -> Iterator[object]:
    """By an exception that is a bug of ours."""
    raise KeyError(json.loads(next(requests))["text"])
    yield


def print_much(requests: Iterator[bytes], _: Report) -> Iterator[object]:
    """On stdout by Python, by C and by a program; the last line tells who reads it."""
    text = json.loads(next(requests))["text"]
    sys.stdout.write("from Python\n")
    sys.stdout.flush()
    os.write(1, b"from C\n")
    subprocess.run([sys.executable, "-c", "print('from a program')"], check=True)
    yield text
    next(requests)
    os._exit(7)


def forks_and_dies(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """Leaves a grandchild behind that holds its end of the pipe open."""
    next(requests)
    grandchild = os.fork()
    if grandchild == 0:
        time.sleep(600)
    report("forked", grandchild)
    os.abort()
    yield


def family(requests: Iterator[bytes], report: Report) -> Iterator[object]:
    """Reports its own pid and that of a program that it has started, and waits."""
    next(requests)
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    report("waiting", [os.getpid(), program.pid])
    time.sleep(600)
    yield
