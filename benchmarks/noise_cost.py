"""What measuring the gradient noise costs: iterations with and without the norm taken half-way, in turns.

    python benchmarks/noise_cost.py                            # on a card: five cases, some 5 minutes
    python benchmarks/noise_cost.py --case gpt2-768,batch_size=8,tokens_per_iter=65536 --seconds 60
    python benchmarks/noise_cost.py --device cpu --clock cpu   # beside other work: the process's own seconds

Off, on, on, off in one process on the same weights, and between two such quads four times off, whose ratio
says how well the clock can tell. Ratios of quads, their mean with Student's 95% interval. The trainer
measures every iteration on a CPU, and on a card once in MEASURED_TOKENS tokens: the last column is what that
makes, by division. Text of bytes and GPT-2's vocabulary, so that nothing is needed but the embedded corpus.
"""

import argparse
import gc
import math
import time
from collections.abc import Callable, Sequence

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import exponential, t_interval
from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.data.resolve import resolve_dataset
from nanodyno.errors import NanodynoError
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.train.device import choose, free_cached_memory
from nanodyno.train.effective import EffectiveBatch
from nanodyno.train.job import DATA_FOLDER
from nanodyno.train.trainer import Trainer

OF_A_GPU = (
    "gpt2-768,batch_size=16,tokens_per_iter=32768",
    "gpt2-768,batch_size=16,tokens_per_iter=32768,cuda_graph=False",
    "gpt2-768,batch_size=16,tokens_per_iter=32768,kernels=autograd",
    "gpt2-384,batch_size=16,tokens_per_iter=32768",
    "gpt2-768,batch_size=32,tokens_per_iter=524288",
)
"""The smallest iteration that is measured every time, three ways; a smaller model; the case's own batch."""
OF_A_CPU = ("demo",)
QUAD = (False, True, True, False)
CONTROL = (False, False, False, False)
FEWEST = 8
COLUMNS = (
    "config", "way", "tokens x steps", "ms/iteration", "off against off", "with the norm", "every",
    "as trained",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", action="append", metavar="RECIPE[,KEY=VALUE...]")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each case")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    asked = parser.parse_args()
    on_gpu = choose(build_config({"device": asked.device})).device.type != "cpu"
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for case in asked.case or (OF_A_GPU if on_gpu else OF_A_CPU):
        try:
            row = measured(case, asked.device, asked.seconds, asked.clock)
        except (NanodynoError, RuntimeError, MemoryError) as error:
            row = [case, f"failed: {str(error).splitlines()[0]}"]
        print(f"| {' | '.join(row)} |", flush=True)
        gc.collect()
        if on_gpu:
            free_cached_memory(choose(build_config({"device": asked.device})).device)


def config_of(case: str, device: str) -> RunConfig:
    recipe, *changes = case.split(",")
    plain = {"device": device, "dataset": "python", "tokenizer": "bytes"}
    if recipe != "demo":
        plain["vocab_size"] = "50304"
    words = [f"--{key}={value}" for key, value in plain.items()]
    given = parse_overrides([*words, *(f"--{each}" for each in changes)])
    return build_config(override(load_settings(recipe), given).values)


def measured(case: str, device: str, seconds: float, clock: str) -> list[str]:
    config = config_of(case, device)
    dataset = resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size)
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(config, dataset, vocab_size, choose(config))
    way = type(trainer.engine).__name__.removesuffix("Engine").lower()
    if trainer.engine.needs_preparation:
        prepared = trainer.warm_up()
        way += ", one CUDA graph" if prepared.cuda_graph else ", compiled" if prepared.compiled else ""
    trainer.engine.get_ready()
    if trainer.batches.steps < 2:
        raise NanodynoError("one micro-step per iteration measures nothing", "a smaller batch_size")
    with trainer.batches.loading(0):
        quads = in_turns(trainer, seconds, trainer.clock.seconds if clock == "wall" else time.process_time)
    cost, control = (ratio([pair[place] for pair in quads]) for place in (0, 1))
    every = between(trainer, config)
    base = sum(quad[0] + quad[3] for quad, _ in quads) / 2 / len(quads)
    assert cost.low is not None
    assert cost.high is not None
    shares = [(each - 1) / every for each in (cost.value, cost.low, cost.high)]
    return [
        case, way, f"{config.tokens_per_iter:,} x {trainer.batches.steps}", f"{base * 1000:.1f}",
        shown([control.value - 1, (control.low or 1) - 1, (control.high or 1) - 1]),
        shown([cost.value - 1, cost.low - 1, cost.high - 1]), str(every), shown(shares),
    ]  # fmt: skip


def in_turns(
    trainer: Trainer, seconds: float, clock: Callable[[], float]
) -> list[tuple[list[float], list[float]]]:
    """Quads and their controls, for so long and no fewer than a few."""

    def iteration(with_norm: bool) -> float:
        began = clock()
        trainer.engine.gradients(trainer.batches.loader, trainer.batches.steps, with_norm)
        trainer.engine.update(1e-9)
        return clock() - began

    for with_norm in (*QUAD, *QUAD):  # kernels of both kinds are loaded
        iteration(with_norm)
    found: list[tuple[list[float], list[float]]] = []
    until = time.monotonic() + seconds
    while len(found) < FEWEST or time.monotonic() < until:
        found.append(([iteration(each) for each in QUAD], [iteration(each) for each in CONTROL]))
    return found


def between(trainer: Trainer, config: RunConfig) -> int:
    """Iterations from one measurement to the next, as the trainer has it."""
    effective = EffectiveBatch(config, trainer.device.type)
    steps, tokens = trainer.batches.steps, trainer.batches.size * config.block_size
    return next(each for each in range(1, 10**6) if effective.is_measured(each, steps, tokens))


def ratio(quads: Sequence[Sequence[float]]) -> Interval:
    """Of the inner two to the outer two."""
    found = t_interval([math.log((b + c) / (a + d)) for a, b, c, d in quads])
    assert found is not None
    return exponential(found)


def shown(shares: Sequence[float]) -> str:
    middle, low, high = (f"{each:+.2%}" for each in shares)
    return f"{middle} [{low}, {high}]"


if __name__ == "__main__":
    main()
