"""Is the rate that `learning_rate=auto` chooses from short trainings a good one for the whole run?

    python benchmarks/rate_range.py [demo] [--set KEY=VALUE ...] [--rates 5e-4 1e-3 ...] [--seeds 2]

Trains the whole run at every rate of a grid and at the chosen one, with seeds that the range test did not
see, and prints the val losses at the end: the price of the choice is how far its loss is above the best.
"""

import argparse
import statistics

from branched_batch import SMALL
from nanodyno.config import build_config
from nanodyno.data.resolve import resolve_dataset
from nanodyno.experiments.rates import range_test, train_shortly
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.train.job import DATA_FOLDER

ONE_RUN = {"tokens_per_iter": 1024, "max_iters": 1000, "eval_tokens": 65_536}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe", nargs="?", default="demo")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4 * 2**k for k in range(6)])
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    settings = load_settings(asked.recipe)
    if asked.recipe == "demo":
        settings = override(settings, SMALL | ONE_RUN)
    values = override(settings, parse_overrides([f"--{each}" for each in asked.set])).values
    found = range_test(values, lambda text: print(text, flush=True))
    print(f"chosen: {found.chosen}")
    losses: dict[float, list[float]] = {}
    for rate in sorted({*asked.rates, found.chosen.learning_rate}):
        for seed in range(asked.seeds):
            config = build_config(
                {**values, "learning_rate": rate, "min_lr": None, "seed": 500 + seed, "eval_interval": 10**9}
            )
            dataset = resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size)
            loss = train_shortly(config, dataset)
            losses.setdefault(rate, []).append(float("inf") if loss is None else loss)
        mark = " <- chosen" if rate == found.chosen.learning_rate else ""
        shown = " ".join(f"{each:.4f}" for each in losses[rate])
        print(f"whole run at {rate:.3g}: {statistics.fmean(losses[rate]):.4f} ({shown}){mark}", flush=True)
    best = min(losses, key=lambda rate: statistics.fmean(losses[rate]))
    price = statistics.fmean(losses[found.chosen.learning_rate]) - statistics.fmean(losses[best])
    print(f"best {best:.3g}; the choice costs {price:.4f}")


if __name__ == "__main__":
    main()
