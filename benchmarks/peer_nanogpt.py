"""Ours beside nanoGPT on one GPU: speed, memory and, with --losses N, the loss curves.

    python benchmarks/peer_nanogpt.py --nanogpt DIR [--widths 384 768] [--micro-batches 8 16] [--json FILE]
    python benchmarks/peer_nanogpt.py --nanogpt DIR --micro-batches 64 --set residual_dtype=bfloat16 --power
    python benchmarks/peer_nanogpt.py --nanogpt DIR --losses 200 --dataset DATA [--json FILE]

nanogpt_speed.py, nanogpt_memory.py, nanogpt_losses.py and power.py tell how each is measured. A config
compiles nanoGPT (about a minute the first time; then torch's cache has the kernels) and says on stderr where
its time went: choose fewer configs where a machine is lent for minutes.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch

from nanodyno.errors import NanodynoError
from nanodyno.train.device import choose_device, describe_machine
from nanogpt_losses import compare_losses
from nanogpt_memory import PROGRAMS, own_peak
from nanogpt_speed import compare_speeds, table, write_tokens


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanogpt", type=Path, required=True, help="a checkout of nanoGPT")
    parser.add_argument("--widths", type=int, nargs="+", default=[384, 768])
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--tokens-per-iter", type=int, default=524_288)
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--quads", type=int, default=6, help="repetitions of A B B A")
    parser.add_argument("--iterations", type=int, default=1, help="iterations per turn")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of ours that nanoGPT does not get"
    )
    parser.add_argument("--power", action="store_true", help="also what the card draws, and its clock")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--memory-of", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="also write all numbers to this file")
    losses = parser.add_argument_group("loss curves, at the first of --widths and of --micro-batches")
    losses.add_argument("--losses", type=int, help="iterations of each run")
    losses.add_argument("--runs", type=int, default=2, help="same-seed runs of each program, 2 or more")
    losses.add_argument("--split", action="store_true", help="the second yardstick even if reruns differ")
    losses.add_argument("--dataset", default="python", help="real text: a folder of shards, or python")
    losses.add_argument("--data-dir", type=Path, default=Path("data"))
    losses.add_argument("--tokenizer", default="gpt2", help="for the embedded corpus")
    losses.add_argument("--vocab-size", type=int, help="for a folder without a manifest")
    losses.add_argument("--learning-rate", type=float, default=6e-4)
    losses.add_argument("--warmup", type=int, default=20)
    return parser.parse_args()


def measured(options: argparse.Namespace, scratch: Path) -> list[dict[str, object]]:
    """What was asked for, printed, and as plain data."""
    if options.losses:
        return [asdict(compare_losses(options, scratch))]
    write_tokens(scratch / "tokens", options.block)
    if options.memory_of:
        peak = asdict(own_peak(options, scratch))
        print(json.dumps(peak))
        return [peak]
    results = compare_speeds(Path(__file__), options, scratch)
    print(table(results))
    return [asdict(result) for result in results]


def main() -> int:
    options = parse_options()
    torch.backends.cuda.matmul.allow_tf32 = True  # as nanoGPT; under bf16 no product of either is in float32
    torch.backends.cudnn.allow_tf32 = True
    try:
        with tempfile.TemporaryDirectory() as scratch:
            results = measured(options, Path(scratch))
        machine = describe_machine(choose_device(options.device)).model_dump()
    except NanodynoError as error:
        print(f"{error.message}\n{error.hint or ''}", file=sys.stderr)
        return error.exit_code
    if options.json:
        about = {
            "torch": torch.__version__,
            "machine": machine,
            "arguments": sys.argv[1:],
            "results": results,
        }
        options.json.write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
