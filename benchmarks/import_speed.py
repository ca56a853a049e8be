"""How fast logs are scanned and imported, and in how much memory: `python benchmarks/import_speed.py`.

Three logs of a given size: one that no importer knows, which is scanned whole; a nanoGPT log in which
warnings stand between two iterations; and one of nothing but iterations, with an evaluation every 1,000. Each
is imported in a process of its own.
"""

import argparse
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nanodyno.errors import NanodynoError
from nanodyno.records.importers.joining import ImportRequest, import_run

MB = 10**6
WARNING = "[rank0]:W1115 21:00:00.123 torch/_inductor/utils.py:{}] Not enough SMs to use this mode\n"


def iteration(number: int, draw: random.Random) -> str:
    loss, milliseconds = 3 + draw.random(), 9330 + 20 * draw.random()
    return f"iter {number}: loss {loss:.4f}, time {milliseconds:.2f}ms, mfu 15.40%\n"


def foreign() -> Iterator[str]:
    for number in itertools.count():
        yield f"Epoch {number}: accuracy 0.{number % 1000:03d}, nothing that an importer looks for\n"


def warnings() -> Iterator[str]:
    draw = random.Random(1)
    for number in itertools.count():
        yield WARNING.format(number) * 50
        yield iteration(number, draw)


def iterations() -> Iterator[str]:
    draw = random.Random(1)
    yield "tokens per iteration will be: 524,288\n"
    for number in itertools.count():
        if number % 1000 == 0:
            yield f"step {number}: train loss 3.5000, val loss 3.5100\n"
        yield iteration(number, draw)


LOGS: dict[str, Callable[[], Iterator[str]]] = {
    "of another program": foreign,
    "mostly warnings": warnings,
    "iterations only": iterations,
}


def write(path: Path, lines: Iterator[str], size: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        written = 0
        while written < size:
            written += file.write("".join(itertools.islice(lines, 10_000)))


def measure(path: Path) -> None:
    """In the child: one import, told as a JSON document."""
    began, worked = time.perf_counter(), time.process_time()
    try:
        found = import_run(ImportRequest((path,), path.parent / "run")).record.origin.iterations
    except NanodynoError:
        found = 0
    wall, work = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"wall": wall, "work": work, "peak": peak, "found": found}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--child", type=Path)
    given = parser.parse_args()
    if given.child:
        return measure(given.child)
    print("| log | MB | iterations | MB/s | MB/s of CPU time | peak MB |\n|---|---|---|---|---|---|")
    for name, lines in LOGS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.log"
            write(path, lines(), given.megabytes * MB)
            size = path.stat().st_size / MB
            command = [sys.executable, __file__, "--child", str(path)]
            reported = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        rates = f"{size / reported['wall']:.1f} | {size / reported['work']:.1f}"
        print(
            f"| {name} | {size:,.0f} | {reported['found']:,} | {rates} | {reported['peak'] / MB:.0f} |",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
