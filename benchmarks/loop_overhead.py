"""What the trainer costs beyond the arithmetic: `run_training` against a bare torch loop over the same model.

    python benchmarks/loop_overhead.py [--threads 1] [--quads 60] [--device cuda --dtype bfloat16 --compile]

Ours is everything a user's run does per iteration: loader thread, schedule, synchronised clock, record on
disk, display (its plain lines, formatted and thrown away). The bare loop has its batches on the device
already, a fixed learning rate, no clock, no record, and one loss fetched per iteration. Both share the
process, hence the trainer's switched-off garbage collector, which favours the bare loop if anything. The
loader has up to eight batches ready before a segment of ours begins, so the time to prepare them, measured
apart, is added to it. `--clock cpu` counts the process's own CPU seconds, the loader's included, instead of
the wall's: steadier beside noisy neighbours, blind to waiting.
"""

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from measure import Estimate, Interleaver, Plan, Segments, interleave
from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.data.corpus import Document
from nanodyno.data.loader import Batch, Windows
from nanodyno.data.shards import Dataset
from nanodyno.data.tokenizers import BytesTokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.model.gpt import GPT
from nanodyno.model.optimizer import make_optimizer
from nanodyno.recipes import load_settings
from nanodyno.records.events import Watch
from nanodyno.report.progress import make_display
from nanodyno.train.device import DTYPES, Clock, choose
from nanodyno.train.runner import Job, run_training

MARGIN = 0.02
PREFETCHED = 8
VOCAB_SIZE = padded_vocab_size(BytesTokenizer.vocab_size)
FOREVER = 10**6

# Overrides of the demo recipe: its own model, and one with four times the work in every layer.
MODELS: dict[str, dict[str, object]] = {
    "demo": {},
    "larger": {"n_embd": 256, "n_head": 4},
}


class BareLoop:
    """What anyone would write: forward, backward, clip, step."""

    def __init__(self, config: RunConfig, windows: Windows) -> None:
        choice = choose(config)
        self.config = config
        self.device = choice.device
        self.model = GPT(config.model_shape(VOCAB_SIZE)).to(choice.device)
        self.loss = torch.compile(self.model, dynamic=False) if config.compile else self.model
        self.optimizer = make_optimizer(self.model, config)
        self.context = (
            nullcontext()
            if choice.dtype == "float32"
            else torch.autocast(choice.device.type, DTYPES[choice.dtype])
        )
        first = (
            np.arange(config.batch_size) + start
            for start in range(0, 16 * config.batch_size, config.batch_size)
        )
        self.batches = itertools.cycle([self._on_device(windows.batch(positions)) for positions in first])

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
    splits = {split: [Document(split, letters)] for split in ("train", "val")}
    return write_dataset(folder, BytesTokenizer(), splits, source={"corpus": "random letters"})


@contextmanager
def plain_display() -> Iterator[Watch]:
    """The lines a run prints where there is no terminal, formatted in full and written nowhere."""
    with Path(os.devnull).open("w") as nowhere:
        display = make_display("plain", Console(file=nowhere, width=120))
        yield display
        display.close()


def measure_model(
    overrides: Mapping[str, object], options: argparse.Namespace
) -> tuple[RunConfig, Segments, float]:
    """The config, its segments, and the seconds added to each of ours for batches made before it."""
    with tempfile.TemporaryDirectory() as scratch, plain_display() as display:
        dataset = random_text(Path(scratch, "letters"), tokens=2**20)
        config = build_config(
            {
                **load_settings("demo").values,
                "max_iters": FOREVER,
                "eval_interval": FOREVER,
                "dataset": str(dataset.folder),
                "device": options.device,
                "dtype": options.dtype,
                "compile": options.compile,
                **overrides,
            }
        )
        windows = Windows(dataset.split("train"), config.block_size, VOCAB_SIZE, config.seed)
        bare = BareLoop(config, windows)
        bare.iteration()  # compiles, where asked, before the run's own clock starts
        plan = Plan(options.quads, options.iterations, warmup=3, settle_seconds=0.02)
        clock = time.process_time if options.clock == "cpu" else Clock(choose(config).device).seconds
        watch = Interleaver(bare.iteration, plan, clock, display)
        job = Job(config, "overhead", Path(scratch, "run"))
        segments = interleave(lambda watch: run_training(job, watch), watch)
        ready = min(PREFETCHED, options.iterations * config.gradient_accumulation_steps)
        charge = ready * batch_seconds(windows, config) if options.clock == "wall" else 0.0
        segments.ours[:] = [seconds + charge for seconds in segments.ours]
        return config, segments, charge


def batch_seconds(windows: Windows, config: RunConfig, repeats: int = 64) -> float:
    began = time.perf_counter()
    for start in range(repeats):
        windows.batch(np.arange(config.batch_size) + start * config.batch_size)
    return (time.perf_counter() - began) / repeats


def report(name: str, config: RunConfig, segments: Segments, charge: float) -> None:
    ours, bare = (statistics.median(side) / segments.iterations for side in (segments.ours, segments.rival))
    lines = (
        f"{name}: {config.n_layer} layers of {config.n_embd}, context {config.block_size}, "
        f"micro-batch {config.batch_size} x {config.gradient_accumulation_steps}",
        f"  {len(segments.ours) // 2} quads A B B A of segments of {segments.iterations} iteration(s)",
        f"  median iteration: ours {ours * 1e3:.2f} ms, bare {bare * 1e3:.2f} ms; "
        f"ours holds {charge / segments.iterations * 1e3:.2f} ms for batches that were ready before it",
        f"  mean ratio (t over quads): {verdict(segments.ratio())}",
        f"  median ratio (order statistics of quads): {verdict(segments.median_ratio())}",
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
    parser.add_argument("--quads", type=int, default=60, help="repetitions of A B B A")
    parser.add_argument("--iterations", type=int, default=1, help="iterations per segment")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; more meet noisy neighbours")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    compiled = "compiled" if options.compile else "eager"
    threads = f"{options.threads} thread(s), {options.clock} clock"
    print(f"torch {torch.__version__}, {options.device}, {options.dtype}, {compiled}, {threads}")
    for name in options.models:
        began = time.perf_counter()
        report(name, *measure_model(MODELS[name], options))
        print(f"  took {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
