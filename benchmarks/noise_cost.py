"""What measuring the gradient noise costs: iterations with and without the first micro-step's norm, in turns.

    python benchmarks/noise_cost.py [gpt2-768] [--set KEY=VALUE ...] [--quads 40] [--clock cpu]

A B B A in one process on the same weights; the ratio of each quad, their mean with Student's interval.
`--clock cpu` counts the process's own CPU seconds, for a machine with other work on it. The trainer measures
every iteration on a CPU, and on a card every MEASURED_TOKENS tokens; the last line says what that makes.
"""

import argparse
import math
import time

from nanodyno.analysis.student import exponential, t_interval
from nanodyno.config import build_config, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.train.device import choose
from nanodyno.train.effective import MEASURED_TOKENS
from nanodyno.train.job import DATA_FOLDER
from nanodyno.train.trainer import Trainer

QUAD = (False, True, True, False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe", nargs="?", default="demo")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--quads", type=int, default=40)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    asked = parser.parse_args()
    settings = override(load_settings(asked.recipe), parse_overrides([f"--{each}" for each in asked.set]))
    config = build_config(settings.values)
    dataset = resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size)
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(config, dataset, vocab_size, choose(config))
    if trainer.engine.needs_preparation:
        trainer.warm_up()
    trainer.engine.get_ready()
    clock = trainer.clock.seconds if asked.clock == "wall" else time.process_time
    with trainer.batches.loading(0) as loader:

        def iteration(measured: bool) -> float:
            began = clock()
            trainer.engine.gradients(loader, trainer.batches.steps, measured)
            trainer.engine.update(1e-9)
            return clock() - began

        for measured in QUAD:
            iteration(measured)
        quads = [[iteration(measured) for measured in QUAD] for _ in range(asked.quads)]
    ratio = t_interval([math.log((b + c) / (a + d)) for a, b, c, d in quads])
    assert ratio is not None
    found = exponential(ratio)
    assert found.low is not None
    assert found.high is not None
    base = sum(a + d for a, _, _, d in quads) / 2 / len(quads)
    every = 1 if trainer.device.type == "cpu" else math.ceil(MEASURED_TOKENS / config.tokens_per_iter)
    print(f"{asked.recipe}: {config.tokens_per_iter:,} tokens in {trainer.batches.steps} steps, {base:.4f} s")
    print(f"measured: {found.estimate - 1:+.2%} [{found.low - 1:+.2%}, {found.high - 1:+.2%}]")
    print(f"as trained, every {every}: {(found.estimate - 1) / every:+.2%}")


if __name__ == "__main__":
    main()
