"""Judgements with real trainings on a CPU: a config against itself, and against a change of known size.

    python benchmarks/judge_runs.py [--same 40] [--planted 20]

A tiny GPT, 120 iterations each. Every judgement has seeds of its own, and its base is trained anew.

  same      the candidate differs in its seed alone, by 1000: nothing that it does is better
  planted   the candidate has a learning rate that is known to be better: 1.2 and 1.5 times the base's. The
            size of the change is the mean over the first pair of each judgement, which is always trained.
"""

import argparse
import math
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from nanodyno.config import build_config, changed
from nanodyno.experiments.judge import JudgeBench, JudgeRequest, JudgeResult, WarmChild, judge
from nanodyno.experiments.short_training import ShortTraining, Trained
from nanodyno.probe.process import Failure
from scores import Share

ITERATIONS, TOKENS = 120, 512
BASE: dict[str, Any] = {
    "n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 64, "batch_size": 8, "tokens_per_iter": TOKENS,
    "max_iters": ITERATIONS, "lr_decay_iters": ITERATIONS, "warmup_iters": 10, "learning_rate": 1e-3,
    "min_lr": 1e-4, "eval_tokens": 8192, "device": "cpu", "threads": 1, "compile": False,
    "dataset": "python", "tokenizer": "bytes",
}  # fmt: skip
SEEDS_APART = 10
"""Of judgements, which is more than the pairs of one."""


class Bench:
    """Trainings of the product, with a stated speed so that each has the same number of iterations."""

    def __init__(self, warm: WarmChild, cache: Path) -> None:
        self.losses: dict[tuple[float, int], float] = {}
        self.trainings = 0
        self._warm = warm
        self.bench = JudgeBench(train=self.train, cache=cache)

    def train(self, request: ShortTraining, watch: Any) -> Trained | Failure:
        found = self._warm.train(request, watch)
        if isinstance(found, Failure):
            return found
        if request.config.max_iters == ITERATIONS:
            self.losses[request.config.learning_rate, request.config.seed] = found.val_loss
            self.trainings += 1
        return found.model_copy(update={"tokens_per_second": ITERATIONS * TOKENS / 60})


def judged(bench: Bench, seed: int, change: dict[str, Any]) -> JudgeResult:
    base = build_config(BASE | {"seed": seed})
    request = JudgeRequest(base, "base", {"candidate": changed(base, **change)}, equal="tokens", minutes=1.0)
    return judge(request, bench=bench.bench)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--same", type=int, default=40)
    parser.add_argument("--planted", type=int, default=20)
    options = parser.parse_args()
    began = time.monotonic()
    kinds = [("same", 1.0, options.same), ("x 1.2", 1.2, options.planted), ("x 1.5", 1.5, options.planted)]
    with WarmChild() as warm, tempfile.TemporaryDirectory() as cache:
        for number, (name, factor, judgements) in enumerate(kinds):
            bench = Bench(warm, Path(cache))
            calls: Counter[str] = Counter()
            improvements: list[float] = []
            floors: list[float] = []
            for judgement in range(judgements):
                seed = 10_000 * (number + 1) + SEEDS_APART * judgement
                rate = factor * BASE["learning_rate"]
                change = {"seed": seed + 1000} if factor == 1.0 else {"learning_rate": rate}
                found = judged(bench, seed, change)
                calls[found.judged[0].call] += 1
                base = bench.losses[BASE["learning_rate"], seed]
                other = bench.losses.get((rate, seed + 1000 * (factor == 1.0)))
                if other is not None:  # a clear loser was stopped before its end
                    improvements.append(base - other)
                assert found.floor is not None
                floors.append(found.floor.sd)
            if not improvements:
                continue
            size = statistics.fmean(improvements)
            error = statistics.stdev(improvements) / math.sqrt(len(improvements)) if judgements > 1 else 0.0
            floor = math.sqrt(statistics.fmean(each**2 for each in floors))
            kept = Share(calls["keep"], judgements)
            print(
                f"{name}: kept {calls['keep']} of {judgements} ({kept}), discarded {calls['discard']}, "
                f"undecided {calls['undecided']}; first pairs {size:+.4f} +- {error:.4f} nats, scatter of a "
                f"pair {error * math.sqrt(len(improvements)):.4f}, floor {floor:.4f}; "
                f"{bench.trainings / judgements:.1f} trainings a judgement; "
                f"{time.monotonic() - began:.0f} s so far",
                flush=True,
            )


if __name__ == "__main__":
    main()
