"""What fits a smaller card than this one: torch's allocator is kept to --limit-gib in each trial's process.

    python benchmarks/card_limit.py --limit-gib 11.2 --micro-batches 8 32 [--repeats 3] [--set KEY=VALUE ...]
    python benchmarks/card_limit.py --limit-gib 11.2 --largest --nanogpt DIR --from 12 --to 40
        [--programs ours nanogpt] [--set recompute=full offload_moments=True]

The first trains one model by `run_training` with its own defaults at several micro-batches, in turns that
change direction, as the process is the unit of repetition. The second finds the largest GPT in GPT-2's
proportion (n_embd = 64 n_layer, heads of 64) that trains at micro-batch 1, by bisection over n_layer, in
iterations of two micro-steps; --set is for ours. card_trial.py is one trial; what the environment says
(PYTORCH_CUDA_ALLOC_CONF) holds for all of them.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from card_trial import Outcome, Trial, TrialFailed, attempt, in_gib
from measure import Estimate, exponential, t_interval
from nanodyno.config import build_config
from nanodyno.costs.parameters import parameters
from nanodyno.errors import NanodynoError
from nanodyno.train.device import choose_device, describe_machine
from nanogpt_memory import PROGRAMS
from nanogpt_program import FOREVER, NO_CHANGES, VOCAB_SIZE, configured, our_changes
from nanogpt_speed import write_tokens

WIDTH_PER_LAYER = 64
ACCUMULATION = 2
LARGEST_ITERATIONS = 3


@dataclass(frozen=True)
class AtMicroBatch:
    """One micro-batch in all its processes."""

    micro_batch: int
    outcomes: list[Outcome]

    @property
    def rates(self) -> list[float] | None:
        """Tokens per second of each process; None where one did not fit."""
        rates = [each.tokens_per_second for each in self.outcomes if each.tokens_per_second is not None]
        return rates if len(rates) == len(self.outcomes) else None


@dataclass(frozen=True)
class Largest:
    program: str
    n_layer: int
    parameters: int
    outcome: Outcome
    at_least: bool
    """The upper end of the search fitted, too."""


def compare_micro_batches(options: argparse.Namespace, data: Path) -> list[AtMicroBatch]:
    results = [AtMicroBatch(size, []) for size in options.micro_batches]
    for repeat in range(options.repeats):
        for result in results if repeat % 2 == 0 else reversed(results):
            print(f"  micro-batch {result.micro_batch}, process {repeat + 1}", file=sys.stderr, flush=True)
            settings = {
                **common_settings(options, data),
                "n_layer": options.layers,
                "n_embd": options.width,
                "batch_size": result.micro_batch,
                "tokens_per_iter": options.tokens_per_iter,
                "eval_tokens": options.block,
            }
            config = configured(settings, our_changes(options))
            trial = Trial(config.model_dump(), options.limit_gib, options.iterations)
            result.outcomes.append(attempt(trial, options.limit_seconds))
    return results


def find_largest(program: str, options: argparse.Namespace, data: Path) -> Largest | None:
    outcomes: dict[int, Outcome] = {}

    def fits(n_layer: int) -> bool:
        count = parameters_of(n_layer, options.block)
        print(f"  {program}, {n_layer} layers, {count:,} parameters", file=sys.stderr, flush=True)
        trial = largest_trial(program, n_layer, options, data)
        outcomes[n_layer] = attempt(trial, options.limit_seconds)
        return outcomes[n_layer].fits

    n_layer = largest_that_fits(fits, options.fewest, options.most)
    if n_layer is None:
        return None
    count = parameters_of(n_layer, options.block)
    return Largest(program, n_layer, count, outcomes[n_layer], n_layer == options.most)


def largest_that_fits(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """By bisection: what fits a number fits all below it. None where not even `low` fits."""
    yes, no = low - 1, high + 1
    while no - yes > 1:
        middle = (yes + no) // 2
        if fits(middle):
            yes = middle
        else:
            no = middle
    return yes if yes >= low else None


def largest_trial(program: str, n_layer: int, options: argparse.Namespace, data: Path) -> Trial:
    settings = {
        **common_settings(options, data),
        "n_layer": n_layer,
        "n_embd": n_layer * WIDTH_PER_LAYER,
        "batch_size": 1,
        "gradient_accumulation_steps": ACCUMULATION,
        "eval_tokens": options.block,
    }
    ours = program == "ours"
    config = configured(settings, our_changes(options) if ours else NO_CHANGES)
    checkout = None if ours else str(options.nanogpt)
    return Trial(config.model_dump(), options.limit_gib, LARGEST_ITERATIONS, checkout)


def parameters_of(n_layer: int, block: int) -> int:
    """Of either program: nanoGPT's model has the same ones."""
    config = build_config({"n_layer": n_layer, "n_embd": n_layer * WIDTH_PER_LAYER, "block_size": block})
    return parameters(config.model_shape(VOCAB_SIZE)).total


def common_settings(options: argparse.Namespace, data: Path) -> dict[str, object]:
    return {
        "block_size": options.block,
        "max_iters": FOREVER,
        "eval_interval": FOREVER,
        "vocab_size": VOCAB_SIZE,
        "dataset": str(data),
        "device": options.device,
        "dtype": options.dtype,
        "compile": options.compile,
    }


def micro_batch_table(results: Sequence[AtMicroBatch]) -> str:
    lines = [
        "| micro-batch | tokens/s | peak GiB allocated / reserved | recompute | attention "
        f"| speed / that of {results[0].micro_batch} |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        first = result.outcomes[0]
        if result.rates is None:
            refused = next((each.refused for each in result.outcomes if each.refused), "no steady iteration")
            lines.append(f"| {result.micro_batch} | {refused} | - | - | - | - |")
            continue
        split = "" if first.micro_batch == result.micro_batch else f" (halved to {first.micro_batch})"
        lines.append(
            f"| {result.micro_batch}{split} | {words(t_interval(result.rates), ',.0f')} "
            f"| {in_gib(first.peak)} | {first.recompute} | {first.attention} "
            f"| {words(speed_ratio(result, results[0]), '.4f')} |"
        )
    return "\n".join(lines)


def speed_ratio(result: AtMicroBatch, base: AtMicroBatch) -> Estimate | None:
    """The geometric mean over processes that were neighbours in time."""
    if result is base or result.rates is None or base.rates is None:
        return None
    logs = [math.log(a / b) for a, b in zip(result.rates, base.rates, strict=True)]
    return exponential(t_interval(logs))


def words(estimate: Estimate | None, form: str) -> str:
    """The interval is 95%; of one process there is none."""
    if estimate is None:
        return "-"
    interval = f" [{estimate.low:{form}}, {estimate.high:{form}}]" if estimate.n > 1 else ""
    return f"{estimate.mean:{form}}{interval}"


def largest_table(results: dict[str, Largest | None], low: int) -> str:
    lines = [
        "| program | n_layer | n_embd | parameters | peak GiB allocated / reserved | recompute |",
        "|---|---|---|---|---|---|",
    ]
    for program, result in results.items():
        if result is None:
            lines.append(f"| {program} | not even {low} | - | - | - | - |")
            continue
        layers = f"{'at least ' if result.at_least else ''}{result.n_layer}"
        lines.append(
            f"| {program} | {layers} | {result.n_layer * WIDTH_PER_LAYER} | {result.parameters:,} "
            f"| {in_gib(result.outcome.peak)} | {result.outcome.recompute or '-'} |"
        )
    ours, theirs = results.get("ours"), results.get("nanogpt")
    if ours and theirs:
        lines.append(f"parameters, ours / nanoGPT's: {ours.parameters / theirs.parameters:.3f}")
    return "\n".join(lines)


def measured(options: argparse.Namespace, data: Path) -> object:
    """What was asked for, printed, and as plain data."""
    if options.largest:
        found: dict[str, Largest | None] = {}
        for program in options.programs:
            try:
                found[program] = find_largest(program, options, data)
            except TrialFailed as error:  # the other's result need not be lost
                print(f"{program} is given up: its trial {error}", file=sys.stderr)
        print(largest_table(found, options.fewest))
        return {program: each and asdict(each) for program, each in found.items()}
    results = compare_micro_batches(options, data)
    print(micro_batch_table(results))
    return [asdict(result) for result in results]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit-gib", type=float, required=True)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of ours")
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--limit-seconds", type=float, default=300, help="of each trial")
    parser.add_argument("--json", type=Path, help="also write all numbers to this file")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--micro-batches", type=int, nargs="+")
    what.add_argument("--largest", action="store_true")
    speed = parser.add_argument_group("with --micro-batches")
    speed.add_argument("--repeats", type=int, default=3, help="processes of each")
    speed.add_argument(
        "--iterations", type=int, default=8, help="of each process; the first two do not count"
    )
    speed.add_argument("--tokens-per-iter", type=int, default=524_288)
    speed.add_argument("--layers", type=int, default=12)
    speed.add_argument("--width", type=int, default=768)
    largest = parser.add_argument_group("with --largest")
    largest.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    largest.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT")
    largest.add_argument("--from", dest="fewest", type=int, default=12, help="layers")
    largest.add_argument("--to", dest="most", type=int, default=40, help="layers")
    options = parser.parse_args()
    if options.largest and "nanogpt" in options.programs and options.nanogpt is None:
        parser.error("--nanogpt is missing, or --programs ours")
    return options


def main() -> int:
    options = parse_options()
    try:
        machine = describe_machine(choose_device(options.device))
        with tempfile.TemporaryDirectory() as scratch:
            write_tokens(Path(scratch, "tokens"), options.block)
            results = measured(options, Path(scratch, "tokens"))
    except NanodynoError as error:
        print(f"{error.message}\n{error.hint or ''}", file=sys.stderr)
        return error.exit_code
    except TrialFailed as error:
        print(f"the trial {error}", file=sys.stderr)
        return 1
    if options.json:
        about = {"torch": torch.__version__, "machine": machine.model_dump(), "arguments": sys.argv[1:]}
        options.json.write_text(json.dumps(about | {"results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
