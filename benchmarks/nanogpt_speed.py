"""Speed of ours and of nanoGPT in one process, in turns: A B B A, each between two synchronised readings.

Ours is `run_training` with its loader and records; nanoGPT's loop is in nanogpt_program.py. The trainer
switches the garbage collector off for the process, so nanoGPT has that too.
"""

import argparse
import gc
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from measure import Estimate, Interleaver, Plan, interleave, inverse, t_interval
from nanodyno.config import RunConfig
from nanodyno.costs.flops import flops_per_token, nanogpt_flops_per_token
from nanodyno.hardware.gpus import GIB, find_gpu
from nanodyno.records.events import RunEvent, Started
from nanodyno.train.device import Clock, DeviceChoice, choose, describe_machine
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training
from nanogpt_memory import PROGRAMS, Peak, memory_alone
from nanogpt_program import (
    VOCAB_SIZE,
    NanoGpt,
    load_checkout,
    make_config,
    our_changes,
    random_batches,
)
from power import Draw, PowerMeter, draw_of

TOKENIZER_SIZE = 50257
LETTERS = {"ours": "A", "nanogpt": "B"}


@dataclass(frozen=True)
class Speed:
    """One program in one config."""

    tokens_per_second: Estimate
    iteration_seconds: float
    nanogpt_tflops: float
    mfu: float | None


@dataclass(frozen=True)
class Result:
    width: int
    micro_batch: int
    accumulation: int
    ratio: Estimate
    """Speed of ours over nanoGPT's: above 1 is faster."""
    ours: Speed
    nanogpt: Speed
    memory: dict[str, Peak]
    power: dict[str, Draw | None]
    """Of each program's turns; empty where it was not asked for."""
    phase_seconds: dict[str, float]


def write_tokens(folder: Path, block: int) -> None:
    """Random ids in nanoGPT's own format, which both programs read."""
    folder.mkdir()
    ids = np.random.default_rng(0).integers(0, TOKENIZER_SIZE, 2**24, dtype=np.uint16)
    ids.tofile(folder / "train.bin")
    ids[: 64 * (block + 1)].tofile(folder / "val.bin")


def measure_speed(
    options: argparse.Namespace, config: RunConfig, our_config: RunConfig, scratch: Path
) -> Result:
    """`our_config` is `config` with what --set changes."""
    phases = Phases()
    choice = choose(config)
    batches = random_batches(Path(config.dataset, "train.bin"), config, choice.device)
    rival = NanoGpt(load_checkout(options.nanogpt), config, VOCAB_SIZE, choice, batches)
    rival.iteration()
    phases.end("nanoGPT's start", choice.device)

    def shown(event: RunEvent) -> None:
        if isinstance(event, Started):
            phases.end("our start", choice.device)

    plan = Plan(options.quads, options.iterations)
    watch = Interleaver(rival.iteration, plan, Clock(choice.device).seconds, shown)
    job = TrainingJob(our_config, "peer", scratch / f"run-{config.n_embd}-{config.batch_size}")
    with PowerMeter(choice.device) if options.power else nullcontext() as meter:
        segments = interleave(lambda watch: run_training(job, watch), watch)
    phases.end("measuring", choice.device)
    return Result(
        config.n_embd,
        config.batch_size,
        config.gradient_accumulation_steps,
        inverse(segments.ratio()),
        speed_of(segments.ours, segments.iterations, our_config, choice),
        speed_of(segments.rival, segments.iterations, config, choice),
        {},
        {who: draw_of(letter, meter.samples, segments.spans) for who, letter in LETTERS.items()}
        if meter
        else {},
        phases.seconds,
    )


class Phases:
    """Where the time of the benchmark itself goes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def end(self, name: str, device: torch.device) -> None:
        now = Clock(device).seconds()
        self.seconds[name] = now - self._began
        self._began = now
        print(f"  {name}: {self.seconds[name]:.0f} s", file=sys.stderr, flush=True)


def speed_of(segments: list[float], iterations: int, config: RunConfig, choice: DeviceChoice) -> Speed:
    rates = t_interval([config.tokens_per_iter * iterations / seconds for seconds in segments])
    shape = config.model_shape(VOCAB_SIZE)
    machine = describe_machine(choice.device)
    gpu = find_gpu(machine.device_name, machine.device_memory_bytes)
    peak = gpu.peak_flops_per_second(choice.dtype) if gpu else None
    return Speed(
        rates,
        config.tokens_per_iter / rates.mean,
        rates.mean * nanogpt_flops_per_token(shape) / 1e12,
        rates.mean * flops_per_token(shape, TOKENIZER_SIZE) / peak if peak else None,
    )


def table(results: list[Result]) -> str:
    """One row per program and config; intervals are 95%."""
    lines = [
        "| n_embd | micro-batch x accum | program | ms/iter | tokens/s | TFLOP/s (nanoGPT's formula) "
        "| share of card's peak (exact) | peak GiB allocated / reserved | mean W | SM MHz "
        "| speed ours / nanoGPT |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for program in PROGRAMS:
            speed: Speed = getattr(result, program)
            rate = speed.tokens_per_second
            share = "-" if speed.mfu is None else f"{speed.mfu:.1%}"
            ratio = f"{result.ratio.mean:.4f} [{result.ratio.low:.4f}, {result.ratio.high:.4f}]"
            draw = result.power.get(program)
            spread = f"[{rate.low:,.0f}, {rate.high:,.0f}]"
            lines.append(
                f"| {result.width} | {result.micro_batch} x {result.accumulation} | {program} "
                f"| {speed.iteration_seconds * 1e3:.1f} | {rate.mean:,.0f} {spread} "
                f"| {speed.nanogpt_tflops:.1f} | {share} | {gib_words(result.memory.get(program))} "
                f"| {f'{draw.watts:.0f} | {draw.megahertz:.0f}' if draw else '- | -'} "
                f"| {ratio if program == 'ours' else ''} |"
            )
    return "\n".join(lines)


def gib_words(peak: Peak | None) -> str:
    if peak is None or peak.allocated is None or peak.reserved is None:
        return "-"
    return f"{peak.allocated / GIB:.2f} / {peak.reserved / GIB:.2f}"


def compare_speeds(script: Path, options: argparse.Namespace, scratch: Path) -> list[Result]:
    results: list[Result] = []
    for width in options.widths:
        for micro_batch in options.micro_batches:
            given = (options, width, micro_batch, options.tokens_per_iter, scratch / "tokens")
            config, our_config = make_config(*given), make_config(*given, our_changes(options))
            print(f"width {width}, micro-batch {micro_batch}", file=sys.stderr, flush=True)
            torch.compiler.reset()  # the last config's models would count towards the recompile limit
            result = measure_speed(options, config, our_config, scratch)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            memory = memory_alone(script, options, config) if options.memory else {}
            results.append(replace(result, memory=memory))
            print(table(results[-1:]), flush=True)
    return results
