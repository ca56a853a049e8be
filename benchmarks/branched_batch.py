"""Does the noise scale name the right batch? From one checkpoint, several effective batches at equal tokens.

    python benchmarks/branched_batch.py                                    # a small model on a CPU, minutes
    python benchmarks/branched_batch.py gpt2-768 --set dataset=FOLDER --set tokens_per_iter=65536 \\
        --set learning_rate=6e-4 --set warmup_iters=100 --trunk 500 --branch 33554432 --seeds 1 \\
        --batches 8192 16384 32768 65536 131072 262144 --first-seed 0    # an H200, 7 minutes by prediction

Each seed trains a trunk. From its checkpoint every branch goes on through the same tokens in the same order,
with a learning rate of the trunk's times the root of (its batch / the trunk's), which falls to a tenth in a
straight line, so that the last losses are not those of a high rate. `--rates 0.5 1 2` tries multiples of
that rule's rate and keeps the best of each batch. Printed: val losses after the same tokens, how far each is
above the best batch of its seed with Student's interval over seeds, and what the noise measured in the last
iterations of the trunk would have said before any of it. --out is written after each branch; one that fails
is told and left out.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nanodyno.analysis.noise_scale import latest, served
from nanodyno.analysis.student import t_interval
from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import Dataset
from nanodyno.errors import NanodynoError
from nanodyno.noise import NoiseScale
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train.checkpoint import Checkpoint, newest
from nanodyno.train.device import choose
from nanodyno.train.trainer import SavePoint, Trainer

SMALL = {
    "n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 64, "batch_size": 4, "tokens_per_iter": 4096,
    "learning_rate": 4e-3, "warmup_iters": 50, "device": "cpu", "eval_tokens": 131_072,
}  # fmt: skip
"""Over the demo recipe."""


@dataclass(frozen=True)
class Branch:
    tokens_per_iter: int
    rate: float
    """Times what the rule says."""
    val_loss: float
    seconds: float


Found = dict[int, tuple[NoiseScale | None, list[Branch]]]
"""By seed: what the trunk's noise said, and the branches."""


def main() -> None:
    asked = arguments()
    settings = load_settings(asked.recipe)
    if asked.recipe == "demo":
        settings = override(settings, SMALL)
    settings = override(settings, parse_overrides([f"--{each}" for each in asked.set]))
    found: Found = {}
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        trunk = build_config({
            **settings.values, "seed": 1000 + seed, "max_iters": asked.trunk, "eval_interval": asked.trunk,
            "schedule": "constant",
        })  # fmt: skip
        dataset = resolve_dataset(trunk.dataset, Path("data"), trunk.tokenizer, trunk.vocab_size)
        with tempfile.TemporaryDirectory() as folder:
            scale, saved = grow_trunk(trunk, dataset, Path(folder))
            found[seed] = scale, []
            for size in asked.batches:
                for rate in asked.rates:
                    try:
                        branch = grow_branch(trunk, dataset, saved, size, rate, asked.branch)
                    except (NanodynoError, RuntimeError, MemoryError) as error:
                        print(
                            f"seed {seed}: {size:>7,} tokens/iter, rate x {rate:g}: failed: {error}",
                            flush=True,
                        )
                        continue
                    found[seed][1].append(branch)
                    print(f"seed {seed}: {line(branch)}", flush=True)
                    keep(found, asked.out)
    show(found, build_config(settings.values), asked.branch)


def keep(found: Found, out: Path | None) -> None:
    document = {
        seed: {"noise": None if scale is None else vars(scale), "branches": [vars(b) for b in branches]}
        for seed, (scale, branches) in found.items()
    }
    if out:
        out.write_text(json.dumps(document, indent=1), encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe", nargs="?", default="demo")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--trunk", type=int, default=400, help="iterations before the branches")
    parser.add_argument("--branch", type=int, default=2**19, help="tokens of each")
    parser.add_argument("--batches", type=int, nargs="+", default=[2**n for n in range(9, 17)])
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def grow_trunk(config: RunConfig, dataset: Dataset, folder: Path) -> tuple[NoiseScale | None, Checkpoint]:
    trainer = made(config, dataset)
    steps: list[StepRecord] = []
    for event in trainer.events():
        if isinstance(event, StepRecord):
            steps.append(event)
        elif isinstance(event, SavePoint):
            trainer.save(folder, event.reason)
    saved = newest(folder)
    assert saved is not None
    scale = latest(steps)
    print(f"trunk of {config.max_iters} iterations, loss {steps[-1].loss:.4f}: {words(scale)}", flush=True)
    return scale, saved.checkpoint


def grow_branch(
    trunk: RunConfig, dataset: Dataset, saved: Checkpoint, size: int, rate: float, tokens: int
) -> Branch:
    """Its schedule begins where the trunk ends: warm-up is over by then."""
    began, count = saved.progress.iteration, tokens // size
    peak = trunk.learning_rate * rate * math.sqrt(size / trunk.tokens_per_iter)
    values = {key: value for key, value in trunk.model_dump().items() if key != "gradient_accumulation_steps"}
    config = build_config(values | {
        "tokens_per_iter": size, "batch_size": min(trunk.batch_size, size // trunk.block_size),
        "learning_rate": peak, "min_lr": peak / 10, "schedule": "linear", "warmup_iters": began,
        "lr_decay_iters": began + count, "max_iters": began + count, "eval_interval": 10**9,
    })  # fmt: skip
    trainer = made(config, dataset, saved)
    clock = time.perf_counter()
    evals = [event for event in trainer.events() if isinstance(event, EvalRecord)]
    return Branch(size, rate, evals[-1].val_loss, time.perf_counter() - clock)


def made(config: RunConfig, dataset: Dataset, saved: Checkpoint | None = None) -> Trainer:
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(config, dataset, vocab_size, choose(config))
    if saved is not None:
        trainer.restore(saved)
    if trainer.engine.needs_preparation:
        trainer.warm_up()
    return trainer


def show(found: Found, trunk: RunConfig, tokens: int) -> None:
    """Of batches that every seed has."""
    print(f"\nval loss after {tokens:,} tokens from each trunk's checkpoint, {len(found)} seeds")
    print("tokens/iter | iterations | learning rate | val loss | against the best batch of each seed")
    best = [lowest(branches) for _, branches in found.values()]
    sizes = [size for size in best[0] if all(size in each for each in best)]
    of_each = [min(branch.val_loss for branch in each.values()) for each in best if sizes]
    for size in sizes:
        branches = [each[size] for each in best]
        gaps = [branch.val_loss - least for branch, least in zip(branches, of_each, strict=True)]
        gap = t_interval(gaps)
        assert gap is not None
        half = "" if gap.high is None else f" +- {gap.high - gap.value:.4f}"
        rates = "/".join(f"{trunk.learning_rate * b.rate * math.sqrt(size / trunk.tokens_per_iter):.2e}"
                         for b in branches[:1])  # fmt: skip
        mean = statistics.fmean(branch.val_loss for branch in branches)
        print(f"{size:>11,} | {tokens // size:>10,} | {rates:>13} | {mean:.4f} | +{gap.value:.4f}{half}")
    for seed, (scale, _) in found.items():
        print(f"seed {seed}: {words(scale)}")


def lowest(branches: list[Branch]) -> dict[int, Branch]:
    """Of each batch the best of its rates."""
    found: dict[int, Branch] = {}
    for branch in branches:
        held = found.get(branch.tokens_per_iter, branch)
        found[branch.tokens_per_iter] = min(held, branch, key=lambda each: each.val_loss)
    return found


def line(branch: Branch) -> str:
    return (
        f"{branch.tokens_per_iter:>7,} tokens/iter, rate x {branch.rate:g}: val loss {branch.val_loss:.4f} "
        f"({branch.seconds:.0f} s)"
    )


def words(scale: NoiseScale | None) -> str:
    if scale is None or not scale.settled:
        return f"noise scale not settled ({scale})"
    assert scale.tokens and scale.low and scale.high  # noqa: PT018
    low, high = served(scale)
    return (
        f"noise scale {scale.tokens:,.0f} tokens [{scale.low:,.0f}, {scale.high:,.0f}]: "
        f"advice {low:,.0f} to {high:,.0f}"
    )


if __name__ == "__main__":
    main()
