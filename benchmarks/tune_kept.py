"""Does a training keep what tune promised? The tuned config trained on real data, as limited as tune was.

    nanodyno tune gpt2-768 --json --write tuned.toml > tuned.json
    python benchmarks/tune_kept.py tuned.toml tuned.json --dataset=DIR [--iterations 50] [--KEY=VALUE ...]

Evaluates at its beginning, middle and end and saves there, as a run does. The limit of memory is the one in
tuned.json, less the context that was measured. Says the speed of the steady iterations over the promise, and
that of the last ten over it, in case the card slows down as it warms; and what the allocator held at most.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import torch

from nanodyno.analysis.summary import summarise
from nanodyno.config import build_config
from nanodyno.probe.limits import limit_memory
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.records.store import read_run
from nanodyno.records.types import SplitRecord
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training

GIB = 2**30
LAST = 10


def gib(count: int | None) -> str:
    return "-" if count is None else f"{count / GIB:.2f} GiB"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="what `tune --write` wrote")
    parser.add_argument("tuned", type=Path, help="what `tune --json` said")
    parser.add_argument("--iterations", type=int, default=50)
    given, settings = parser.parse_known_args()
    tuned = json.loads(given.tuned.read_text(encoding="utf-8"))
    promise = next(row for row in tuned["candidates"] if row["name"] == tuned["chosen"])
    promised = promise["speed"]["tokens_per_second"]["value"]
    changes = {"max_iters": given.iterations, "eval_interval": given.iterations // 2, "warmup_iters": 5}
    config = build_config(override(load_settings(given.config), changes | parse_overrides(settings)).values)
    limit = tuned["memory_limit_bytes"]
    if limit is not None and tuned["machine"]["device_type"] == "cuda":
        limit_memory(torch.device("cuda", torch.cuda.current_device()), limit - tuned["context_bytes"])
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        place = Path(folder) / "run"
        run_training(TrainingJob(config, "kept", place), lambda _: None)
        run = read_run(place)
    summary = summarise(run)
    assert summary.speed.tokens_per_second is not None
    rate = summary.speed.tokens_per_second
    last = statistics.median(step.step_seconds for step in run.own_steps[-LAST:])
    assert last is not None
    splits = [entry for entry in run.history if isinstance(entry, SplitRecord)]
    print(
        f"{tuned['chosen']}: promised {promised:,.0f} tok/s, trained {rate.value:,.0f} "
        f"[{rate.low:,.0f}, {rate.high:,.0f}] in {summary.iterations_done} iterations: "
        f"{rate.value / promised - 1:+.2%}; the last {LAST}: "
        f"{config.tokens_per_iter / last / promised - 1:+.2%}"
    )
    print(
        f"held by the allocator {gib(summary.peak_reserved_bytes)} (probed {gib(promise['peak_bytes'])}), "
        f"finished {summary.finished}, micro-batch halved {len(splits)} times, val loss {summary.last_val}"
    )
    return 0 if summary.finished and not splits else 1


if __name__ == "__main__":
    sys.exit(main())
