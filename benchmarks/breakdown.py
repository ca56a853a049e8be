"""Where the time goes by width and micro-batch, whether it adds up, and how long a probe takes.

adds up: busy kernels and gaps of the profiled iterations over the wall time of as many unwatched ones. What
is above 1 is what watching costs, and falls on the gaps; busy time alone must not be above the wall time.

    python benchmarks/breakdown.py --json FILE
    python benchmarks/breakdown.py --device cpu --tiny --no-compile --widths 64   # to try the script
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from nanodyno.analysis.probes import ProbeSummary, summarise_probe
from nanodyno.config import RunConfig, build_config
from nanodyno.probe.bench import ProbePlan
from nanodyno.probe.repetition import ProbeJob
from nanodyno.probe.rounds import probe
from nanodyno.recipes import load_settings, override
from nanodyno.records.probe import Measured, ProbeResult
from nanodyno.report.disturbances import disturbance_words, result_words

TINY: dict[str, object] = {"n_layer": 2, "block_size": 64, "tokens_per_iter": 4096, "tokenizer": "bytes"}


def make_config(width: int, micro_batch: int, options: argparse.Namespace) -> RunConfig:
    changes: dict[str, object] = {
        "n_embd": width,
        "n_head": max(1, width // 64),
        "batch_size": micro_batch,
        "tokens_per_iter": 524_288,
        "device": options.device,
        "compile": options.compile,
        **(TINY if options.tiny else {}),
    }
    return build_config(override(load_settings("gpt2-768"), changes).values)


def show(title: str, result: ProbeResult, seconds: float) -> None:
    if not isinstance(result, Measured):
        print(f"{title}: {result_words(result)}", flush=True)
        return
    summary, breakdown = summarise_probe(result), result.breakdown
    precision = "?" if summary.own_precision is None else f"{summary.own_precision:.2%}"
    print(
        f"{title}: {summary.tokens_per_second.value:,.0f} tok/s, "
        f"{summary.micro_step_seconds.value * 1e3:.2f} ms/micro-batch, +-{precision} in "
        f"{len(result.repetitions[0].samples)} iterations; probe {seconds:.1f} s, of which "
        f"{result.setup.start_seconds:.1f} s to the first iteration"
    )
    if summary.time is None or breakdown is None:
        print(f"  no breakdown: {result.breakdown_fault}")
    else:
        shares = {**summary.time.parts, "data": summary.time.data, "idle": summary.time.idle}
        busy = sum(breakdown.part_seconds.values())
        print("  " + ", ".join(f"{part} {share:.1%}" for part, share in shares.items()))
        print(
            f"  adds up {summary.time.adds_up:.4f}; busy over wall {busy / breakdown.wall_seconds:.4f}; "
            f"a micro-step has {summary.time.kernels_per_micro_step:.0f} kernels and "
            f"{summary.time.launches_per_micro_step} launches"
        )
    for each in (
        each for repetition in (*result.redone, *result.repetitions) for each in repetition.disturbances
    ):
        print(f"  {disturbance_words(each)}")
    print(end="", flush=True)


def document(result: ProbeResult, seconds: float) -> dict[str, Any]:
    summary: ProbeSummary | None = summarise_probe(result) if isinstance(result, Measured) else None
    return {
        "result": result.model_dump(mode="json"),
        "summary": None if summary is None else dataclasses.asdict(summary),
        "probe_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[768, 384])
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[4, 8, 16, 64])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--precision", type=float, default=0.01)
    parser.add_argument("--visit", type=float, default=20.0, help="most seconds of measuring")
    parser.add_argument("--tiny", action="store_true", help="small enough for a CPU, to try the script")
    parser.add_argument("--json", type=Path, help="a file to append a line to for each config")
    options = parser.parse_args()
    plan = ProbePlan(precision=options.precision, repetition_seconds=options.repetition)
    for width in options.widths:
        for micro_batch in options.micro_batches:
            began = time.monotonic()
            result = probe(ProbeJob(config=make_config(width, micro_batch, options)), plan)
            seconds = time.monotonic() - began
            show(f"{width}/{micro_batch}", result, seconds)
            if options.json is not None:
                with options.json.open("a") as file:
                    file.write(json.dumps(document(result, seconds)) + "\n")


if __name__ == "__main__":
    main()
