"""How often does `nanodyno compare` call a difference that is none, and find one that is there?

    python benchmarks/decisions.py simulate [--pairs 2000] [--seed 1]
    python benchmarks/decisions.py runs FOLDER     every pair of the runs under a folder

Simulated runs differ by a setting that does nothing, or that brings 10% of speed or 0.03 nats. Runs of one
config scatter by a normal between-process noise, of speeds in the logarithm, and each iteration by 3%.
"""

import argparse
import itertools
import math
import random
from pathlib import Path

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.compare import compare
from nanodyno.config import ModelShape
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.store import read_run, run_folders

SPEED, LOSS = "tokens_per_second", "val_loss_at_equal_tokens"
SHAPE = ModelShape(
    n_layer=12, n_head=12, n_embd=768, block_size=1024, vocab_size=50304, bias=False, dropout=0.0,
    gelu="exact",
)  # fmt: skip
DEVICES = {
    "GPU": {"gpu": gpu_named("RTX 4070")},
    "CPU": {"device_type": "cpu", "device_name": "CPU"},
    "unknown": {},
}


def simulated(rng: random.Random, name: str, config: str, speed: float, loss: float, device: str) -> Account:
    """One run: a log speed and a final loss, with the noise of iterations and evaluations about them."""
    seconds = 10 * math.exp(-speed)  # 77% of the GPU's peak
    steps = [AccountStep(at, 4.0, seconds * math.exp(rng.gauss(0, 0.03))) for at in range(60)]
    evals = [AccountEval(at, loss + 60 / at - 0.06 + rng.gauss(0, 0.001)) for at in range(100, 1001, 100)]
    settings = {
        "tokens_per_iter": 524_288,
        "batch_size": 8,
        "block_size": 1024,
        "dataset": "d",
        "variant": config,
    }
    return Account(
        name, settings, tuple(steps), tuple(evals), SHAPE, data_vocab_size=50257, **DEVICES[device]
    )  # pyright: ignore[reportArgumentType]


def group(
    rng: random.Random,
    config: str,
    runs: int,
    gain: tuple[float, float],
    noise: tuple[float, float],
    device: str,
) -> list[Account]:
    found: list[Account] = []
    for at in range(runs):
        speed, loss = gain[0] + rng.gauss(0, noise[0]), 3.3 - gain[1] + rng.gauss(0, noise[1])
        found.append(simulated(rng, f"{config}{at}", config, speed, loss, device))
    return found


def share_of_winners(
    rng: random.Random,
    pairs: int,
    runs: int,
    gain: tuple[float, float],
    noise: tuple[float, float],
    device: str,
) -> dict[str, float]:
    """Of speed and of loss: how often one of the two is called better, and how often the right one."""
    found = {SPEED: [0, 0], LOSS: [0, 0]}
    for _ in range(pairs):
        ones = group(rng, "a", runs, (0.0, 0.0), noise, device)
        others = group(rng, "b", runs, gain, noise, device)
        winners = compare([*ones, *others], groups=[tuple(ones), tuple(others)]).winners
        for metric, count in found.items():
            count[0] += metric in winners
            count[1] += winners.get(metric, "").startswith("b")
    return {metric: count[1 if any(gain) else 0] / pairs for metric, count in found.items()}


def simulate(pairs: int, seed: int) -> None:
    rng = random.Random(seed)
    print("device   runs  noise of speed, of loss  true gain         speed   loss")
    nothing, true = (0.0, 0.0), (math.log(1.1), 0.03)
    cases = [
        ("GPU", 1, (0.01, 0.002), nothing), ("GPU", 1, (0.02, 0.0037), nothing),
        ("CPU", 1, (0.05, 0.0037), nothing), ("CPU", 1, (0.10, 0.0037), nothing),
        ("unknown", 1, (0.05, 0.0037), nothing), ("GPU", 3, (0.03, 0.009), nothing),
        ("CPU", 3, (0.10, 0.02), nothing), ("GPU", 3, (0.01, 0.003), true), ("GPU", 3, (0.02, 0.006), true),
        ("CPU", 3, (0.03, 0.009), true),
    ]  # fmt: skip
    for device, runs, noise, gain in cases:
        shares = share_of_winners(rng, pairs, runs, gain, noise, device)
        words = "10%, 0.03 nats" if any(gain) else "none"
        print(f"{device:8} {runs:4}  {noise[0]:6.1%} {noise[1]:13.4f}     {words:16}"
              f" {shares[SPEED]:6.1%} {shares[LOSS]:6.1%}")  # fmt: skip


def of_runs(folder: Path) -> None:
    accounts = [account_of(read_run(each)) for each in run_folders(folder)]
    counts = {"speed": 0, "loss": 0}
    pairs = list(itertools.combinations(accounts, 2))
    calls: dict[tuple[str, str], int] = {}
    for one, other in pairs:
        others = [each.without_steps() for each in accounts if each is not one and each is not other]
        comparison = compare([one, other], others)
        counts["speed"] += SPEED in comparison.winners
        counts["loss"] += LOSS in comparison.winners
        for each in comparison.decisions:
            if each.metric in (SPEED, LOSS):
                key = (each.metric, each.reason or each.call)
                calls[key] = calls.get(key, 0) + 1
    better = f"{counts['speed']} with a better speed, {counts['loss']} with a better loss"
    print(f"{len(pairs)} pairs of {len(accounts)} runs: {better}")
    for (metric, call), count in sorted(calls.items()):
        print(f"  {metric}: {call}: {count}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    simulation = commands.add_parser("simulate")
    simulation.add_argument("--pairs", type=int, default=2000)
    simulation.add_argument("--seed", type=int, default=1)
    commands.add_parser("runs").add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "simulate":
        simulate(options.pairs, options.seed)
    else:
        of_runs(options.folder)


if __name__ == "__main__":
    main()
