"""The cost model against the card: measures the grid of cost_grid.py in parts, and prints the errors.

    python benchmarks/cost_model.py --measure [--minutes 8] [--ways fused eager] [--out FILE.jsonl]
    python benchmarks/cost_model.py [--out FILE.jsonl]                   # the table of errors
    python benchmarks/cost_model.py --fit [--out FILE.jsonl]             # a calibration without the held-out
    python benchmarks/cost_model.py --measure --device cpu --tiny --out /tmp/grid.jsonl   # to try the script

Each config is a process of its own; what is measured is appended at once, and what is in the file is not
measured again (--again does), so that a lease may end at any moment. `--out` is the repository's own data
file unless given: tests/benchmarks/test_cost_grid.py reads it.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cost_fit import error_table, fitted
from cost_grid import DATA, Found, Point, append, grid, launches, read

if TYPE_CHECKING:
    from nanodyno.probe.workload import Workload

ITERATIONS = 5
"""At least, and as many as WARM_SECONDS hold; before them as long for the clocks to settle under power."""
WARM_SECONDS = 1.0
LONGEST_SECONDS = 180


def main() -> None:
    options = _options()
    if options.child:
        import nanodyno.probe.workload  # noqa: F401 - all that it imports

        print(json.dumps(asdict(measure(Point(**json.load(sys.stdin))))))
        return
    points = grid(options.tiny)
    beside = launches(options.tiny)
    if options.measure:
        measure_all(points + beside, options)
    if options.fit:
        print(json.dumps(fitted(points, beside, read(options.out)), indent=2))
    else:
        if options.tiny:
            print("tiny models on a CPU: the predictions are an H200's, so that these errors mean nothing")
        print(error_table(points, read(options.out)))


def measure_all(points: list[Point], options: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * options.minutes
    there = {} if options.again else read(options.out)
    chosen = [point for point in points if point.name.split(",")[0] in options.ways or not options.ways]
    left = [point for point in chosen if point.name not in there][: options.most]
    spare = Child()
    for number, point in enumerate(left):
        if time.monotonic() > end:
            print(f"time is up: {len(left) - number} configs are left for the next time", file=sys.stderr)
            break
        child, spare = spare, Child()
        found = child.measure(point)
        append(options.out, found)
        reported = (
            found.fault
            or f"{_gib(found.allocated_bytes)} GiB allocated, {_gib(found.reserved_bytes)} reserved"
        )
        print(
            f"{number + 1}/{len(left)} {point.name}: {reported}, {found.wall_seconds:.1f} s", file=sys.stderr
        )
    spare.end()


class Child:
    """A process for one config. It imports what it needs at once, beside the one before it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def measure(self, point: Point) -> Found:
        """A crash or a hang is a result too."""
        began = time.monotonic()
        fault, line = None, ""
        try:
            reported, errors = self._process.communicate(json.dumps(asdict(point)), LONGEST_SECONDS)
            line = reported.strip().rpartition("\n")[2]
            if self._process.returncode:
                fault = (errors.strip().splitlines() or [f"ended with {self._process.returncode}"])[-1][:300]
        except subprocess.TimeoutExpired:
            self.end()
            fault = f"took more than {LONGEST_SECONDS} s"
        wall = time.monotonic() - began
        if fault is not None:
            return Found(point.name, "", "", wall_seconds=wall, fault=fault)
        values = json.loads(line)
        seconds = tuple(values["iteration_seconds"])
        return Found(**{**values, "iteration_seconds": seconds, "wall_seconds": wall})

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def measure(point: Point) -> Found:
    """In this process, by the workload of a probe: the trainer's engine and loader on synthetic tokens."""
    import torch

    from nanodyno.probe.repetition import ProbeJob
    from nanodyno.probe.workload import Workload
    from nanodyno.train.device import peak_memory, reset_peak_memory

    config = point.config
    workload = Workload(ProbeJob(config=config), time.time(), lambda _: None)
    workload.micro_steps = config.gradient_accumulation_steps
    _iterations(workload, 1)
    reset_peak_memory(workload.device)
    seconds = _iterations(workload, ITERATIONS)
    peak = peak_memory(workload.device, workload.engine.graph_bytes)
    context = None
    if workload.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(workload.device)
        context = total - free - torch.cuda.memory_reserved(workload.device)
    setup = workload.setup
    return Found(
        name=point.name,
        device=setup.machine.device_name,
        torch=torch.__version__,
        device_memory_bytes=setup.machine.device_memory_bytes,
        allocated_bytes=peak.allocated,
        reserved_bytes=peak.reserved,
        context_bytes=context,
        iteration_seconds=seconds,
        attention=setup.arithmetic.attention,
        recompute=setup.arithmetic.recompute,
    )


def _iterations(workload: "Workload", least: int) -> tuple[float, ...]:
    seconds: list[float] = []
    while len(seconds) < least or sum(seconds) < WARM_SECONDS:
        seconds.append(workload.iteration().seconds)
    return tuple(seconds)


def _gib(value: int | None) -> str:
    return "-" if value is None else f"{value / 2**30:.2f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="measure what is not in the file yet")
    parser.add_argument("--fit", action="store_true", help="print a calibration of all but the held-out")
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--minutes", type=float, default=8, help="begin no config after this")
    parser.add_argument("--most", type=int, default=None, help="configs to measure in this part")
    parser.add_argument("--ways", nargs="*", default=[], help="only these, such as fused 'fused light'")
    parser.add_argument("--again", action="store_true", help="measure what is in the file too")
    parser.add_argument("--tiny", action="store_true", help="models small enough for a CPU")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "cpu" and not (options.tiny or options.child):
        parser.error("--device cpu needs --tiny")
    return options


if __name__ == "__main__":
    main()
