"""The cost model beside trainings with the parts that came after GPT-2: what speedrun.py measured on a card.

    python benchmarks/cost_modern.py [TRIALS.jsonl]     # the repository's own data file unless given

Predictions are an H200's. Trials of one process are in its order: torch keeps a workspace of cuBLAS for the
stream of every graph that was captured, so that each later trial holds 32 MiB more than it would alone.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanodyno.config import build_config
from nanodyno.costs.calibration import measured
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import Setup, settle
from nanodyno.costs.time import IterationTime, iteration_time

GIB = 2**30
DATA = Path(__file__).with_name("cost_modern_h200.jsonl")


@dataclass(frozen=True)
class Compared:
    name: str
    setup: Setup
    predicted: IterationTime
    tokens_per_second: float
    """Measured: the median over iterations."""
    predicted_gib: float
    """Allocated."""
    peak_gib: float

    @property
    def speed_error(self) -> float:
        return self.predicted.tokens_per_second / self.tokens_per_second - 1

    @property
    def memory_error(self) -> float:
        return self.predicted_gib / self.peak_gib - 1


def compared(path: Path) -> list[Compared]:
    return [_compared(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _compared(trial: dict[str, Any]) -> Compared:
    config = build_config(trial["settings"])
    setup = settle(config, config.model_shape(trial["settings"]["vocab_size"]), "bfloat16", None)
    return Compared(
        trial["name"],
        setup,
        iteration_time(setup, measured()),
        trial["tokens_per_second"],
        memory_of(setup, measured()).allocated / GIB,
        trial["peak_gib"],
    )


def table(rows: list[Compared]) -> str:
    lines = [
        "| | measured, tokens/s | predicted | | micro-step + once, ms | allocated, GiB | predicted | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        time = row.predicted
        cells = [
            row.name,
            f"{row.tokens_per_second:,.0f}",
            f"{time.tokens_per_second:,.0f}",
            f"{row.speed_error:+.1%}",
            f"{1000 * time.micro_step_seconds:.1f} + {1000 * time.once_seconds:.1f}",
            f"{row.peak_gib:.2f}",
            f"{row.predicted_gib:.2f}",
            f"{row.memory_error:+.1%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trials", type=Path, nargs="?", default=DATA)
    print(table(compared(parser.parse_args().trials)))


if __name__ == "__main__":
    main()
