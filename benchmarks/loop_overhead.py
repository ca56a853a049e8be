"""What the trainer costs beyond the arithmetic: `run_training` against a bare torch loop over the same model.

    python benchmarks/loop_overhead.py [--processes 10] [--quads 40] [--device cuda --compile]

Ours is everything a user's run does per iteration: loader thread, schedule, synchronised clock, record on
disk, display (its plain lines, formatted and thrown away). The bare loop has its batches on the device
already, no clock, no record, and one loss fetched per iteration. Weights and batches are the same on both
sides. The two take turns in one process, A B B A, and share the trainer's switched-off garbage collector.
The process is the unit of repetition: each gives the median of its quads, every other one builds the bare
loop first, and the interval is Student's t over processes. `--clock cpu` counts the process's own CPU
seconds, the loader's included, instead of the wall's.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from measure import Estimate, Interleaver, Plan, Segments, exponential, interleave, t_interval
from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.loader import Batch, Windows
from nanodyno.data.shards import Dataset
from nanodyno.data.tokenizers import BytesTokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.model.batched import make_optimizer
from nanodyno.model.gpt import GPT
from nanodyno.recipes import load_settings
from nanodyno.records.events import WatchRun
from nanodyno.report.progress import make_display
from nanodyno.train.device import DTYPES, Clock, choose
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training

MARGIN = 0.02
VOCAB_SIZE = padded_vocab_size(BytesTokenizer.vocab_size)
FOREVER = 10**6

# Overrides of the demo recipe: its own model, and one with four times the work in every layer.
MODELS: dict[str, dict[str, object]] = {
    "demo": {},
    "larger": {"n_embd": 256, "n_head": 4},
}


class BareLoop:
    """What anyone would write: forward, backward, clip, step. From the same weights over the same batches."""

    def __init__(self, config: RunConfig, windows: Windows, iterations: int) -> None:
        choice = choose(config)
        self.config = config
        self.device = choice.device
        torch.manual_seed(config.seed)
        self.model = GPT(config.model_shape(VOCAB_SIZE)).to(choice.device)
        self.loss = torch.compile(self.model, dynamic=False) if config.compile else self.model
        self.optimizer = make_optimizer(self.model, config)
        self.context = (
            nullcontext()
            if choice.dtype == "float32"
            else torch.autocast(choice.device.type, DTYPES[choice.dtype])
        )
        size = config.batch_size
        self.batches = iter(
            [
                self._on_device(windows.batch(np.arange(start, start + size)))
                for start in range(0, iterations * config.gradient_accumulation_steps * size, size)
            ]
        )

    def iteration(self) -> float:
        steps = self.config.gradient_accumulation_steps
        loss = torch.zeros(())
        for inputs, targets in itertools.islice(self.batches, steps):
            with self.context:
                loss = self.loss(inputs, targets) / steps
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def _on_device(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = (torch.from_numpy(part).to(self.device) for part in batch)
        return inputs, targets


def random_text(folder: Path, tokens: int) -> Dataset:
    """Seeded letters: the speed does not hang on what is learnt."""
    letters = np.random.default_rng(0).integers(97, 123, tokens, dtype=np.uint8).tobytes().decode()
    splits = {split: [CorpusDocument(split, letters)] for split in ("train", "val")}
    return write_dataset(folder, BytesTokenizer(), splits, source={"corpus": "random letters"})


@contextmanager
def plain_display() -> Iterator[WatchRun]:
    """The lines a run prints where there is no terminal, formatted in full and written nowhere."""
    with Path(os.devnull).open("w") as nowhere:
        display = make_display("plain", Console(file=nowhere, width=120))
        yield display
        display.close()


def measure_model(name: str, options: argparse.Namespace) -> Segments:
    with tempfile.TemporaryDirectory() as scratch, plain_display() as display:
        dataset = random_text(Path(scratch, "letters"), tokens=2**20)
        config = make_config(name, options, dataset.folder)
        windows = Windows(dataset.split("train"), config.block_size, VOCAB_SIZE, config.seed)
        plan = Plan(options.quads, options.iterations, warmup=3, settle_seconds=0.02)

        @functools.cache
        def bare() -> BareLoop:
            return BareLoop(config, windows, 1 + plan.warmup + 2 * plan.quads * plan.iterations)

        if options.bare_first:
            bare().iteration()
        clock = time.process_time if options.clock == "cpu" else Clock(choose(config).device).seconds
        watch = Interleaver(lambda: bare().iteration(), plan, clock, display)
        job = TrainingJob(config, "overhead", Path(scratch, "run"))
        return interleave(lambda watch: run_training(job, watch), watch)


def make_config(name: str, options: argparse.Namespace, dataset: Path) -> RunConfig:
    return build_config(
        {
            **load_settings("demo").values,
            "max_iters": FOREVER,
            "eval_interval": FOREVER,
            "decay_lr": False,
            "dataset": str(dataset),
            "device": options.device,
            "dtype": options.dtype,
            "compile": options.compile,
            **MODELS[name],
        }
    )


def in_a_process(name: str, options: argparse.Namespace, bare_first: bool) -> Segments:
    """This script again, for one model and one process; it prints its segments."""
    command = [
        *(sys.executable, __file__, "--models", name, "--quads", str(options.quads)),
        *("--iterations", str(options.iterations), "--threads", str(options.threads)),
        *("--clock", options.clock, "--device", options.device, "--dtype", options.dtype),
        *(["--compile"] if options.compile else []),
        *("--child", "--bare-first" if bare_first else "--no-bare-first"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Segments(**json.loads(done.stdout))


def report(name: str, options: argparse.Namespace) -> None:
    began = time.perf_counter()
    processes = [in_a_process(name, options, index % 2 == 0) for index in range(options.processes)]
    ours, bare = (
        statistics.median(seconds for process in processes for seconds in getattr(process, side))
        for side in ("ours", "rival")
    )
    medians = [statistics.median(process.log_ratios()) for process in processes]
    lines = (
        f"{name}: {MODELS[name] or 'as in the recipe'}",
        f"  {options.processes} processes of {options.quads} quads A B B A",
        f"  median turn: ours {ours * 1e3:.2f} ms, bare {bare * 1e3:.2f} ms",
        "  ratio in each process: " + " ".join(f"{math.exp(median):.4f}" for median in medians),
        f"  ratio: {verdict(exponential(t_interval(medians)))}",
        f"  took {time.perf_counter() - began:.0f} s",
    )
    print("\n".join(lines), flush=True)


def verdict(ratio: Estimate) -> str:
    excluded = "excludes" if ratio.high <= 1 + MARGIN else "does not exclude"
    return (
        f"{ratio.mean:.4f}; the 95% interval of the ratio [{ratio.low:.4f}, {ratio.high:.4f}] "
        f"{excluded} a loss of more than {MARGIN:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--quads", type=int, default=40, help="repetitions of A B B A in a process")
    parser.add_argument("--iterations", type=int, default=1, help="iterations per turn")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; more meet noisy neighbours")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bare-first", action=argparse.BooleanOptionalAction, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        torch.set_num_threads(options.threads)
        print(json.dumps(dataclasses.asdict(measure_model(options.models[0], options))))
        return
    compiled = "compiled" if options.compile else "eager"
    threads = f"{options.threads} thread(s), {options.clock} clock"
    print(f"torch {torch.__version__}, {options.device}, {options.dtype}, {compiled}, {threads}")
    for name in options.models:
        report(name, options)


if __name__ == "__main__":
    main()
