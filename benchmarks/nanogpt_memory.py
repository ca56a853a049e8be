"""Peak memory of ours and of nanoGPT, each alone in a process of its own.

In a shared process the allocator's reserve could not be told apart. The peak does not depend on the
accumulation, so a few micro-steps do. Peaks are of training: compiling and evaluating come before the count.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from measure import Enough
from nanodyno.config import RunConfig
from nanodyno.records.events import RunEvent
from nanodyno.records.store import Run, read_run
from nanodyno.records.types import StepRecord
from nanodyno.train.device import choose, reset_peak_memory
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training
from nanogpt_program import (
    VOCAB_SIZE,
    NanoGpt,
    load_checkout,
    make_config,
    our_changes,
    random_batches,
)

MICRO_STEPS, ITERATIONS = 4, 4
PROGRAMS = ("ours", "nanogpt")


@dataclass(frozen=True)
class Peak:
    """Bytes that one program alone held at most while training; None where the device does not say."""

    allocated: int | None
    reserved: int | None


def memory_alone(script: Path, options: argparse.Namespace, config: RunConfig) -> dict[str, Peak]:
    """Each program in a fresh process: the script again with --memory-of, which prints `own_peak`."""
    command = [
        *(sys.executable, str(script), "--nanogpt", str(options.nanogpt), "--device", options.device),
        *("--dtype", options.dtype, "--compile" if options.compile else "--no-compile"),
        *("--layers", str(options.layers), "--block", str(options.block)),
        *("--widths", str(config.n_embd), "--micro-batches", str(config.batch_size)),
        *(["--set", *options.set] if options.set else []),
        "--memory-of",
    ]
    peaks: dict[str, Peak] = {}
    for program in PROGRAMS:
        began = time.perf_counter()
        done = subprocess.run([*command, program], stdout=subprocess.PIPE, text=True, check=True)
        peaks[program] = Peak(**json.loads(done.stdout.splitlines()[-1]))
        print(f"  memory of {program}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return peaks


def own_peak(options: argparse.Namespace, scratch: Path) -> Peak:
    """The peak of this process with one program in it."""
    (width,), (micro_batch,) = options.widths, options.micro_batches
    tokens, data = MICRO_STEPS * micro_batch * options.block, scratch / "tokens"
    if options.memory_of == "ours":
        config = make_config(options, width, micro_batch, tokens, data, our_changes(options))
        return our_peak(train_a_little(TrainingJob(config, "memory", scratch / "run"), ITERATIONS))
    config = make_config(options, width, micro_batch, tokens, data)
    choice = choose(config)
    batches = random_batches(data / "train.bin", config, choice.device)
    program = NanoGpt(load_checkout(options.nanogpt), config, VOCAB_SIZE, choice, batches)
    program.iteration()
    reset_peak_memory(choice.device)
    for _ in range(ITERATIONS):
        program.iteration()
    return torch_peak(choice.device)


def torch_peak(device: torch.device) -> Peak:
    """Since it was last reset, as torch counts it: right for a program without CUDA graphs."""
    if device.type != "cuda":
        return Peak(None, None)
    return Peak(torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device))


def our_peak(run: Run) -> Peak:
    """As recorded: torch's own count does not see what a CUDA graph uses when it runs."""
    allocated = [step.peak_allocated_bytes for step in run.own_steps if step.peak_allocated_bytes is not None]
    reserved = [step.peak_reserved_bytes for step in run.own_steps if step.peak_reserved_bytes is not None]
    return Peak(max(allocated, default=None), max(reserved, default=None))


def train_a_little(job: TrainingJob, iterations: int) -> Run:
    """The first evaluation, after which the trainer itself resets the peak, and a few iterations."""

    def watch(event: RunEvent) -> None:
        if isinstance(event, StepRecord) and event.iteration + 1 == iterations:
            raise Enough

    try:
        run_training(job, watch)
    except Enough:
        return read_run(job.folder)
    raise AssertionError("the run ended by itself: raise its max_iters")
