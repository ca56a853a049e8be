"""Another program takes a card's memory in mid-run: does the run go on, and with which losses?

One run is left alone. In the other, after some iterations, a second process takes all of the card's memory
but a part of what the run had, and the run gives back what its allocator holds but does not use, as it would
after a resume. It halves its micro-batch; the losses of both are then held against each other.

    python benchmarks/out_of_memory.py gpt2-768 --iterations 24 --at 8 --leave 0.6 --dataset=DIR
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from nanodyno.config import build_config
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.records.events import RunEvent
from nanodyno.records.store import Run, read_run
from nanodyno.records.types import SplitRecord, StepRecord
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training

HOG = """
import sys, torch
taken = []
while True:
    free = torch.cuda.mem_get_info()[0] - int(sys.argv[1])
    if free < 2**28:
        break
    taken.append(torch.empty(min(free, 2**30), dtype=torch.uint8, device="cuda"))
print("taken", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--at", type=int, default=8)
    parser.add_argument("--leave", type=float, default=0.6, help="share of the run's peak that is left to it")
    given, settings = parser.parse_known_args()
    changes = {"max_iters": given.iterations, "eval_tokens": 16384}
    config = build_config(override(load_settings(given.recipe), changes | parse_overrides(settings)).values)
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        runs: list[Run] = []
        for name, leave in (("alone", None), ("beside another", given.leave)):
            place = Path(folder) / name
            with Neighbour(given.at, leave) as neighbour:
                run_training(TrainingJob(config, name, place), neighbour)
            torch.cuda.empty_cache()
            runs.append(read_run(place))
    for run in runs:
        splits = [entry for entry in run.history if isinstance(entry, SplitRecord)]
        reported = [
            f"{split.batch_size_before} to {split.batch_size} at {split.iteration}" for split in splits
        ]
        peak = max(step.peak_reserved_bytes or 0 for step in run.own_steps) / 2**30
        print(
            f"{run.name}: finished {run.finished}, peak reserved {peak:.2f} GiB, micro-batch "
            f"{reported or 'kept'}"
        )
    apart = [abs(a.loss - b.loss) for a, b in zip(runs[0].own_steps, runs[1].own_steps, strict=True)]
    print(
        f"losses apart before: {max(apart[: given.at]):.3g}, after: {max(apart[given.at :]):.3g} at the most"
    )


class Neighbour:
    """Watches the run and takes its memory after an iteration."""

    def __init__(self, at: int, leave: float | None) -> None:
        self._at = at
        self._leave = leave
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, event: RunEvent) -> None:
        if not isinstance(event, StepRecord) or event.iteration != self._at or self._leave is None:
            return
        torch.cuda.empty_cache()
        held = torch.cuda.memory_reserved()
        spare = int((event.peak_reserved_bytes or 0) * self._leave) - held
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOG, str(max(spare, 2**28))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        print(f"{self._process.stdout.readline().strip()}: {spare / 2**30:.2f} GiB are left", flush=True)

    def __enter__(self) -> "Neighbour":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()


if __name__ == "__main__":
    main()
