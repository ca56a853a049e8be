"""Loss curves of ours and of nanoGPT from the same weights over the same batches.

Both start from our seeded weights, copied by name, and read our stream of windows in the same order. The
yardstick is what nanoGPT does to itself: between two runs of one seed only the order of atomic additions on
a GPU differs. Where its reruns are equal to the bit (on a CPU, say), that yardstick is zero, and nanoGPT with
half the micro-batch and twice the accumulation is a second one: the same sums in another order.
"""

import argparse
import gc
import itertools
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from measure import Enough
from nanodyno.config import RunConfig, padded_vocab_size
from nanodyno.data.loader import Loader, Windows
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import Dataset
from nanodyno.model.gpt import GPT
from nanodyno.records.events import RunEvent
from nanodyno.records.types import StepRecord
from nanodyno.train.device import choose
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training
from nanogpt_program import NO_CHANGES, NanoGpt, configured, load_checkout, our_changes

QUARTERS = 4
Curve = list[float]
Pairs = list[tuple[Curve, Curve]]


@dataclass(frozen=True)
class Gap:
    """How far pairs of curves are apart, over all their iterations."""

    mean: float
    largest: float


@dataclass(frozen=True)
class Comparison:
    """All curves, and per stretch of the run the gap between programs and within each."""

    config: dict[str, object]
    """Of nanoGPT; ours has what --set changes on top."""
    curves: dict[str, list[Curve]]
    gaps: dict[str, dict[str, Gap]]
    """By kind of pair, then by stretch: `whole`, then the quarters."""
    reruns_bitwise_equal: dict[str, bool]
    chance_of_labels: float
    """Small when the curves tell which program they are of."""


def compare_losses(options: argparse.Namespace, scratch: Path) -> Comparison:
    config = losses_config(options, options.micro_batches[0])
    dataset = resolve_dataset(config.dataset, options.data_dir, config.tokenizer, config.vocab_size)
    curves: dict[str, list[Curve]] = {"ours": [], "nanogpt": []}
    for index in range(max(2, options.runs)):
        # Ours first, then last: what comes early or late on a machine falls on both.
        for program in ("ours", "nanogpt") if index % 2 == 0 else ("nanogpt", "ours"):
            runs = curves[program]
            name = f"{program}-{index + 1}"
            folder = scratch / name
            runs.append(
                our_curve(options, config.batch_size, folder, name)
                if program == "ours"
                else nanogpt_curve(config, options, dataset, name)
            )
    equal = {program: all(run == runs[0] for run in runs[1:]) for program, runs in curves.items()}
    if equal["nanogpt"] or options.split:
        split = losses_config(options, max(1, config.batch_size // 2))
        curves["nanogpt, half"] = [nanogpt_curve(split, options, dataset, "nanogpt-half")]
        curves["ours, half"] = [our_curve(options, split.batch_size, scratch / "ours-half", "ours-half")]
    chance = chance_of_labels(curves["ours"], curves["nanogpt"])
    result = Comparison(config.model_dump(), curves, gaps_between(curves), equal, chance)
    print_comparison(result)
    return result


def losses_config(
    options: argparse.Namespace, micro_batch: int, changes: Mapping[str, object] = NO_CHANGES
) -> RunConfig:
    return configured(
        {
            "n_layer": options.layers,
            "n_embd": options.widths[0],
            "block_size": options.block,
            "batch_size": micro_batch,
            "tokens_per_iter": options.tokens_per_iter,
            "learning_rate": options.learning_rate,
            "warmup_iters": options.warmup,
            "max_iters": options.losses,
            "eval_interval": options.losses,
            "eval_tokens": micro_batch * options.block,
            "dataset": options.dataset,
            "tokenizer": options.tokenizer,
            "vocab_size": options.vocab_size,
            "device": options.device,
            "dtype": options.dtype,
            "compile": options.compile,
        },
        changes,
    )


def our_curve(options: argparse.Namespace, micro_batch: int, folder: Path, name: str) -> Curve:
    """Mean loss of each iteration, as `run_training` records it; ended before the last checkpoint."""
    config = losses_config(options, micro_batch, our_changes(options))
    began = time.perf_counter()
    curve: Curve = []

    def watch(event: RunEvent) -> None:
        if isinstance(event, StepRecord):
            curve.append(event.loss)
            if len(curve) == config.max_iters:
                raise Enough

    try:
        run_training(TrainingJob(config, name, folder, data_folder=options.data_dir), watch)
    except Enough:
        tidy(name, curve, began)
    return curve


def nanogpt_curve(config: RunConfig, options: argparse.Namespace, dataset: Dataset, name: str) -> Curve:
    """The same of nanoGPT's model in its own loop, fed from our stream."""
    began = time.perf_counter()
    choice = choose(config)
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    windows = Windows(dataset.split("train"), config.block_size, vocab_size, config.seed)
    torch.manual_seed(config.seed)
    weights = GPT(config.model_shape(vocab_size))
    curve: Curve = []
    with Loader(windows, config.batch_size, choice.device) as loader:
        program = NanoGpt(load_checkout(options.nanogpt), config, vocab_size, choice, lambda: next(loader))
        program.take_weights(weights)
        for _ in range(config.max_iters):
            shares: list[Tensor] = []
            program.iteration(shares)
            curve.append(sum(torch.stack(shares).tolist()))
    tidy(name, curve, began)
    return curve


def tidy(name: str, curve: Curve, began: float) -> None:
    """Says how it went and forgets what was compiled: each run compiles anew, from torch's cache."""
    took = time.perf_counter() - began
    print(f"  {name}: {curve[0]:.4f} to {curve[-1]:.4f} in {took:.0f} s", file=sys.stderr, flush=True)
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def gaps_between(curves: dict[str, list[Curve]]) -> dict[str, dict[str, Gap]]:
    ours, theirs = curves["ours"], curves["nanogpt"]
    kinds: dict[str, Pairs] = {
        "ours and nanoGPT": list(itertools.product(ours, theirs)),
        "nanoGPT's reruns": list(itertools.combinations(theirs, 2)),
        "our reruns": list(itertools.combinations(ours, 2)),
    }
    if "nanogpt, half" in curves:
        their_half, our_half = curves["nanogpt, half"], curves["ours, half"]
        kinds["nanoGPT and itself with half the micro-batch"] = list(itertools.product(theirs, their_half))
        kinds["ours and itself with half the micro-batch"] = list(itertools.product(ours, our_half))
    return {kind: stretches(pairs) for kind, pairs in kinds.items() if pairs}


def chance_of_labels(ours: list[Curve], theirs: list[Curve]) -> float:
    """Exact permutation test: how often curves dealt to two heaps at random are as far apart as these.

    Far apart: the mean distance between the heaps less the mean distance within them.
    """
    everything = [*ours, *theirs]
    distance = {
        frozenset((a, b)): statistics.fmean(
            abs(x - y) for x, y in zip(everything[a], everything[b], strict=True)
        )
        for a, b in itertools.combinations(range(len(everything)), 2)
    }

    def separation(heap: frozenset[int]) -> float:
        within = [d for pair, d in distance.items() if len(pair & heap) != 1]
        between = [d for pair, d in distance.items() if len(pair & heap) == 1]
        return statistics.fmean(between) - statistics.fmean(within) if within else 0.0

    seen = separation(frozenset(range(len(ours))))
    deals = [
        separation(frozenset(heap)) for heap in itertools.combinations(range(len(everything)), len(ours))
    ]
    return sum(deal >= seen - 1e-12 for deal in deals) / len(deals)


def stretches(pairs: Pairs) -> dict[str, Gap]:
    length = len(pairs[0][0])
    edges = [round(length * quarter / QUARTERS) for quarter in range(QUARTERS + 1)]
    found = {"whole": gap(pairs, 0, length)}
    for number, (first, last) in enumerate(itertools.pairwise(edges), start=1):
        if last > first:
            found[f"quarter {number}"] = gap(pairs, first, last)
    return found


def gap(pairs: Pairs, first: int, last: int) -> Gap:
    """The mean over iterations and pairs; the largest is the mean over pairs, lest many pairs weigh more."""
    apart = [[abs(x - y) for x, y in zip(a[first:last], b[first:last], strict=True)] for a, b in pairs]
    means, largest = [statistics.fmean(each) for each in apart], [max(each) for each in apart]
    return Gap(statistics.fmean(means), statistics.fmean(largest))


def print_comparison(result: Comparison) -> None:
    kinds = list(result.gaps)
    print("absolute difference of loss, mean / largest")
    print("| stretch | " + " | ".join(kinds) + " |")
    print("|---|" + "---|" * len(kinds))
    for stretch in result.gaps[kinds[0]]:
        cells = (f"{each[stretch].mean:.3g} / {each[stretch].largest:.3g}" for each in result.gaps.values())
        print(f"| {stretch} | " + " | ".join(cells) + " |")
    for program, equal in result.reruns_bitwise_equal.items():
        print(f"{program}: the losses of its reruns are {'' if equal else 'not '}equal to the bit")
    print_verdict("nanoGPT's reruns", result.gaps[kinds[0]], result.gaps["nanoGPT's reruns"])
    reported = "the two are told apart" if result.chance_of_labels <= 0.05 else "no difference shown"
    share = f"{result.chance_of_labels:.0%}"
    print(f"dealt to two programs at random, the curves are as far apart in {share} of the deals: {reported}")


def print_verdict(kind: str, between: dict[str, Gap], yardstick: dict[str, Gap]) -> None:
    print(f"ours and nanoGPT part no more than {kind} do:")
    for stretch, found in between.items():
        limit = yardstick[stretch]
        yes = "yes" if found.mean <= limit.mean and found.largest <= limit.largest else "no"
        twice = "yes" if found.mean <= 2 * limit.mean and found.largest <= 2 * limit.largest else "no"
        times = f"{found.mean / limit.mean:.2f} / {found.largest / limit.largest:.2f}" if limit.mean else "-"
        print(f"  {stretch}: {yes} (times the yardstick, mean / largest: {times}; within twice: {twice})")
