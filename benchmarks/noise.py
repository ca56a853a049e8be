"""A config against itself, many times: how often the stopwatch calls it different, and how wide it is.

Each pair is a comparison as `nanodyno probe A A` makes it, with processes of its own. Stops in order before
the time is up, so that a machine lent by the minute serves in several calls; --json appends a line a pair,
and --read sums up such files.

    python benchmarks/noise.py --device cpu --pairs 40 --json FILE
    python benchmarks/noise.py --recipe gpt2-384 --pairs 20 --minutes 9 --json FILE --compile=False
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nanodyno.analysis.budget import Budget
from nanodyno.analysis.probes import reading_of, summarise_probe
from nanodyno.config import RunConfig, build_config
from nanodyno.probe.bench import Bench, ProbePlan
from nanodyno.probe.repetition import ProbeJob
from nanodyno.probe.rounds import measure_against
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.records.probe import Measured

MARGIN = 0.01


@dataclass(frozen=True)
class Pair:
    ratio: float
    low: float | None
    high: float | None
    call: str
    processes: int
    redone: int
    disturbances: list[str]
    tokens_per_second: float
    seconds: float


def measure_pair(config: RunConfig, plan: ProbePlan, budget: Budget) -> Pair | None:
    """None when one of the two was not measured; its result is printed."""
    began = time.monotonic()
    job = ProbeJob(config=config)
    with Bench({"A": job, "B": job}, plan) as bench:
        measure_against(bench, "A", budget, MARGIN)
        results = bench.results()
    measured = [result for result in results.values() if isinstance(result, Measured)]
    comparisons = reading_of(results, budget, "A", MARGIN).comparisons
    if len(measured) < 2 or not comparisons:
        print(f"not measured: {[result.kind for result in results.values()]}", flush=True)
        return None
    (found,) = comparisons
    return Pair(
        ratio=found.ratio.value,
        low=found.ratio.low,
        high=found.ratio.high,
        call=found.call,
        processes=found.ratio.n,
        redone=sum(len(result.redone) for result in measured),
        disturbances=sorted(
            {
                each.code
                for result in measured
                for repetition in result.repetitions
                for each in repetition.disturbances
            }
        ),
        tokens_per_second=summarise_probe(measured[0]).tokens_per_second.value,
        seconds=time.monotonic() - began,
    )


def pairs(options: argparse.Namespace, config: RunConfig) -> Iterator[Pair]:
    budget = Budget(looks=tuple(options.looks))
    plan = ProbePlan(
        precision=options.precision,
        repetition_seconds=options.repetition,
        redo=options.redo,
        most_processes=2 * budget.rounds,
        breakdown=False,
    )
    end = time.monotonic() + 60 * options.minutes
    longest = 0.0
    for _ in range(options.pairs):
        if time.monotonic() + longest > end:
            return
        pair = measure_pair(config, plan, budget)
        if pair is not None:
            longest = max(longest, pair.seconds)
            yield pair


def show(pair: Pair) -> None:
    interval = (
        "no interval" if pair.low is None or pair.high is None else f"[{pair.low:.4f}, {pair.high:.4f}]"
    )
    print(
        f"ratio {pair.ratio:.4f} {interval} {pair.call}; {pair.processes} processes each, "
        f"{pair.redone} visits made again, {pair.tokens_per_second:,.0f} tok/s, {pair.seconds:.0f} s "
        f"{' '.join(pair.disturbances)}",
        flush=True,
    )


def sum_up(found: Sequence[Pair]) -> None:
    if not found:
        print("no pair was measured")
        return
    calls = {
        call: sum(pair.call == call for pair in found)
        for call in ("different", "tied", "no difference shown")
    }
    widths = sorted(
        math.sqrt(pair.high / pair.low) - 1
        for pair in found
        if pair.low is not None and pair.high is not None
    )
    print(f"{len(found)} pairs: " + ", ".join(f"{number} {call}" for call, number in calls.items()))
    print(f"called different: {calls['different'] / len(found):.1%}")
    if widths:
        print(f"interval +-{statistics.median(widths):.2%} (median), {widths[0]:.2%} to {widths[-1]:.2%}")
    spread = statistics.pstdev(math.log(pair.ratio) for pair in found)
    print(
        f"log ratios: standard deviation {spread:.4f}; {sum(pair.redone for pair in found)} visits made again"
    )


def read(files: Sequence[Path]) -> list[Pair]:
    return [Pair(**json.loads(line)) for file in files for line in file.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="demo", help="and --key=value as for nanodyno train")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="no pair begins that would not end in time"
    )
    parser.add_argument(
        "--looks", type=int, nargs="+", default=[4], help="processes of each; the tool's: 4 8 16"
    )
    parser.add_argument("--precision", type=float, default=0.01)
    parser.add_argument("--visit", type=float, default=20.0, help="most seconds of a process's measuring")
    parser.add_argument("--redo", type=int, default=2)
    parser.add_argument("--json", type=Path, help="a file to append a line to for each pair")
    parser.add_argument("--read", type=Path, nargs="+", help="sum up such files and measure nothing")
    options, settings = parser.parse_known_args()
    if options.read:
        sum_up(read(options.read))
        return
    changes = {"device": options.device, **parse_overrides(settings)}
    config = build_config(override(load_settings(options.recipe), changes).values)
    found: list[Pair] = []
    try:
        for pair in pairs(options, config):
            found.append(pair)
            show(pair)
            if options.json is not None:
                with options.json.open("a") as file:
                    file.write(json.dumps(asdict(pair)) + "\n")
    finally:
        sum_up(found)


if __name__ == "__main__":
    main()
