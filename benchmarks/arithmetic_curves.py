"""Loss curves of other arithmetic beside the default's: is what is faster also as good?

    python benchmarks/arithmetic_curves.py gpt2-384 --iterations 1000 --runs 2 \\
        --variants residual_dtype=bfloat16 moments_dtype=bfloat16 fp8=True --dataset=DIR [--at-once 5]

Every run is a `nanodyno train` of its own with the same seed and the same data in the same order. The default
runs several times, since on CUDA two runs of one program part too: a variant is as good as far as it lies
within what those reruns do. Several settings of one variant are joined by commas.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from nanodyno.records.store import read_run

DEFAULT = "default"
LAST = 10
"""Means are over the last tenth: a single iteration's loss is mostly its batch's."""


@dataclass(frozen=True)
class Curve:
    variant: str
    losses: list[float]
    val_loss: float

    @property
    def last(self) -> float:
        return statistics.fmean(self.losses[-max(1, len(self.losses) // LAST) :])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=2, help="of the default")
    parser.add_argument("--variants", nargs="+", default=[])
    parser.add_argument("--at-once", type=int, default=1, help="runs that share the card: nothing is timed")
    parser.add_argument("--json", type=Path)
    given, settings = parser.parse_known_args()
    variants = [DEFAULT] * given.runs + given.variants
    with (
        tempfile.TemporaryDirectory(dir=Path()) as folder,
        ThreadPoolExecutor(given.at_once) as pool,
    ):
        folders = [Path(folder) / f"run-{number}" for number in range(len(variants))]
        curves = list(pool.map(partial(trained, given, settings), variants, folders))
    if given.json:
        given.json.write_text(json.dumps([asdict(curve) for curve in curves]))
    print(table(curves))


def trained(given: argparse.Namespace, settings: list[str], variant: str, folder: Path) -> Curve:
    changes = [] if variant == DEFAULT else [f"--{change}" for change in variant.split(",")]
    command = [sys.executable, "-m", "nanodyno", "train", given.recipe, f"--out_dir={folder}", "--log=plain"]
    command += [f"--max_iters={given.iterations}", f"--lr_decay_iters={given.iterations}"]
    command += [f"--eval_interval={given.iterations}", *settings, *changes]
    # Measured beside each other, the fastest kernels are not for later runs to remember.
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    run = read_run(folder)
    curve = Curve(
        variant,
        [step.loss for step in run.own_steps],
        run.evals[-1].val_loss,
    )
    print(f"{variant}: last losses {curve.last:.4f}, val {curve.val_loss:.4f}", file=sys.stderr, flush=True)
    return curve


def table(curves: list[Curve]) -> str:
    """Everything against the first run of the default; its reruns show what chance does."""
    first = curves[0]
    lines = [
        "| | loss, last tenth | val loss | losses apart from the first run's, mean / largest |",
        "|---|---|---|---|",
    ]
    for curve in curves:
        apart = [abs(a - b) for a, b in zip(curve.losses, first.losses, strict=True)]
        lines.append(
            f"| {curve.variant} | {curve.last:.4f} | {curve.val_loss:.4f} | {statistics.fmean(apart):.2g} / "
            f"{max(apart):.2g} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
