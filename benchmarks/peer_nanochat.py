"""What nanochat's model and optimiser reach in so many seconds of training: several depths and batches.

    python benchmarks/speedrun.py unpack PACKED --out data/reference
    python benchmarks/speedrun.py unpack PACKED --out data/clean --held-out openstax
    python benchmarks/peer_nanochat.py --nanochat DIR --data data --runs d6:16384 d8:32768 [--json FILE]

A run is a depth and the tokens of a step. --train says which folder of --data is trained on: `clean` (the
default) has two val sets, that of `reference` and a source that no text of train is of; `reference` has its
own alone, since the other val set is in its train set.
One process for each depth and micro-batch compiles, all at the same time. Then one run follows another: on
throw-away weights it is measured how long a step takes, of that follows the number of steps, and with new
weights it trains so many. What would end after --limit seconds is left out. nanochat_program.py tells what is
measured. DIR is a checkout, or what `git archive` makes of one beside a file COMMIT.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from nanochat_program import LENGTH, ROWS

VAL_SETS = {"clean": ("reference", "clean"), "reference": ("reference",)}
WARM_UP = 5
SLOWER = 1.05
"""That training may be than it was measured."""
BESIDES = 8.0
"""Seconds of a run that are neither training nor measuring its speed, before one has told."""


class Run(NamedTuple):
    depth: int
    tokens_per_step: int

    @property
    def rows(self) -> int:
        return min(ROWS, self.tokens_per_step // LENGTH)

    @property
    def program(self) -> tuple[int, int]:
        """What is compiled for it."""
        return self.depth, self.rows


def read_run(text: str) -> Run:
    depth, _, tokens = text.removeprefix("d").partition(":")
    run = Run(int(depth), int(tokens))
    if run.rows < 1 or run.tokens_per_step % (run.rows * LENGTH):
        raise argparse.ArgumentTypeError(f"{text}: micro-batches of {run.rows} x {LENGTH} do not divide it")
    return run


def steps_for(seconds: float, step_seconds: float) -> int:
    return max(1, round(seconds / step_seconds))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanochat", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train", choices=VAL_SETS, default="clean")
    parser.add_argument("--runs", type=read_run, nargs="+", required=True, metavar="dDEPTH:TOKENS")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="instead of --seconds")
    parser.add_argument("--measure", type=float, default=3.0, help="seconds that the speed is measured for")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--looks", type=int, default=2, help="evaluations on the way")
    parser.add_argument("--val-tokens", type=int, help="fewer of them, to try this out")
    parser.add_argument("--limit", type=float, default=570.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def commit_of(checkout: Path) -> str:
    written = checkout / "COMMIT"
    if written.exists():
        return written.read_text().strip()
    if not (checkout / ".git").exists():
        return "unknown"
    return subprocess.check_output(["git", "-C", str(checkout), "rev-parse", "HEAD"], text=True).strip()


def work(options: argparse.Namespace, depth: int, rows: int, parent: Connection) -> None:
    """A process of one compiled model: says that it is ready, then takes one run after another."""
    try:
        import numpy as np
        import torch

        from nanochat_program import Nanochat

        began = time.perf_counter()
        train = options.data / options.train / "train.bin"
        device = torch.device(options.device)
        program = Nanochat(options.nanochat, (depth, rows), train, device, options.compile)
        vals = {
            name: np.fromfile(options.data / name / "val.bin", np.uint16)[: options.val_tokens]
            for name in VAL_SETS[options.train]
        }

        def evaluate() -> dict[str, float]:
            return {name: program.val_loss(tokens) for name, tokens in vals.items()}

        program.begin(rows * LENGTH, WARM_UP, options.seed)
        for step in range(WARM_UP):
            program.step(step)
        prepared = program.now() - began
        if options.device == "cuda":
            torch.cuda.empty_cache()  # the others' share of the card
        parent.send(None)
        while (run := parent.recv()) is not None:
            gpu = torch.cuda.get_device_name() if options.device == "cuda" else "none"
            common = {"torch": torch.__version__, "gpu": gpu, "prepared_seconds": round(prepared, 1)}
            parent.send(trained(options, program, run, evaluate) | common)
            if options.device == "cuda":
                torch.cuda.empty_cache()
    except Exception as error:  # the other processes' runs may work, and device time is short
        traceback.print_exc()
        parent.send(f"{type(error).__name__}: {str(error)[:500]}")


def trained(options: argparse.Namespace, program: Any, run: Run, evaluate: Any) -> dict[str, Any]:
    began = time.perf_counter()
    program.begin(run.tokens_per_step, 10**6, options.seed)
    for step in range(WARM_UP):
        program.step(step)
    step_seconds = program.step_seconds(options.measure)
    steps = options.steps or steps_for(options.seconds, step_seconds)
    program.begin(run.tokens_per_step, steps, options.seed)
    rules = program.rules
    result = program.train(steps, options.looks, evaluate)
    tokens = steps * run.tokens_per_step
    counted = program.parameters
    *losses, (_, _, last) = [
        (done * run.tokens_per_step, round(seconds, 3), loss) for done, seconds, loss in result.losses
    ]
    return {
        "program": "nanochat",
        "commit": commit_of(options.nanochat),
        "depth": run.depth,
        "matrix_parameters": counted["transformer_matrices"],
        "value_embedding_parameters": counted["value_embeds"],
        "parameters": counted["total"],
        "tokens_per_step": run.tokens_per_step,
        "micro_batch": run.rows,
        "seed": options.seed,
        "steps": steps,
        "tokens": tokens,
        "epochs": round(tokens / (program.batches.windows * LENGTH), 3),
        "train_seconds": round(result.seconds, 3),
        "tokens_per_second": round(tokens / result.seconds),
        "expected_tokens_per_second": round(run.tokens_per_step / step_seconds),
        "train": options.train,
        "val_loss": last,
        "losses": losses,
        "peak_gib": None if result.peak_bytes is None else round(result.peak_bytes / 2**30, 2),
        "attention": program.attention,
        "dtype": program.dtype,
        "compiled": options.compile,
        "rate_scale": rules.rate_scale,
        "weight_decay": rules.weight_decay,
        "wall_seconds": round(time.perf_counter() - began, 1),
    }


class Worker:
    def __init__(self, options: argparse.Namespace, program: tuple[int, int]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=work, args=(options, *program, theirs))
        self.process.start()
        theirs.close()

    def answer(self, seconds: float) -> Any:
        """What it sends next; words where it failed."""
        try:
            return self.pipe.recv() if self.pipe.poll(max(0.0, seconds)) else "no answer in time"
        except EOFError:
            return "the process ended"


class Workers:
    """One for each model that is compiled; all compile at the same time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.began, self.besides = options, time.perf_counter(), BESIDES
        self.each = {
            program: Worker(options, program) for program in {run.program: 0 for run in options.runs}
        }
        self.refused = {program: worker.answer(self.left) for program, worker in self.each.items()}
        print(f"compiled {len(self.each)} models in {options.limit - self.left:.0f} s", flush=True)

    @property
    def left(self) -> float:
        return self.options.limit - (time.perf_counter() - self.began)

    def result(self, run: Run) -> dict[str, Any] | str:
        """Words where there is none."""
        if (reason := self.refused[run.program]) is not None:
            return reason
        needed = self.options.seconds * SLOWER + self.options.measure + self.besides
        if needed > self.left:
            return f"left out, {self.left:.0f} s are left and it would take {needed:.0f}"
        self.each[run.program].pipe.send(run)
        answer = self.each[run.program].answer(self.left)
        if isinstance(answer, str):
            self.refused[run.program] = answer
        else:
            self.besides = max(2.0, answer["wall_seconds"] - answer["train_seconds"] - self.options.measure)
        return answer

    def end(self) -> None:
        for worker in self.each.values():
            with suppress(OSError):
                worker.pipe.send(None)
        for worker in self.each.values():
            worker.process.join(5)
            worker.process.kill()


def main() -> int:
    options = parse_options()
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")  # as base_train.py
    if not options.compile:
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its optimiser is compiled where it is imported
    workers, missing = Workers(options), 0
    for run in options.runs:
        answer = workers.result(run)
        if isinstance(answer, str):
            missing += 1
            print(f"d{run.depth}:{run.tokens_per_step}: {answer}", flush=True)
            continue
        line = json.dumps(answer)
        print(line, flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(line + "\n")
    workers.end()
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
