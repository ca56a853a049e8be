"""Each kernel, attention and matrix product of a training step beside the least time it could take.

    python benchmarks/kernels.py [--widths 384 768] [--positions 8192 16384] [--only norm gelu] [--json FILE]

kernel_cases.py counts bytes and FLOPs, kernel_timing.py tells how floors and times are measured: inputs are
random and take turns, so that they come from memory and not from a cache. The error is that of all outputs
against the kernel's plain twin in float64 on the same inputs; where an output is bfloat16, about 2e-3 is its
rounding. What fails is told and left out, and the exit code is then 1, unless it is an attention that this
machine does not have. On a CPU the twins themselves run, in float32:

    python benchmarks/kernels.py --device cpu --widths 128 --positions 512 --block 256 --vocabulary 1000
"""

import argparse
import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import torch

from kernel_cases import Case, Size, error, kernel_cases
from kernel_modern import modern_cases
from kernel_products import attention_cases, product_cases
from kernel_timing import Ceilings, cache_bytes, floor, measure_ceilings, rounds, seconds_of, turns
from nanodyno.errors import NanodynoError
from nanodyno.model.kernels import plain
from nanodyno.train.device import choose_device, describe_machine
from nanodyno.train.kernels import why_no_triton


@dataclass(frozen=True)
class Measured:
    name: str
    width: int
    positions: int
    moved_bytes: int
    flops: int
    seconds: float
    floor_seconds: float
    bound: str
    error: float

    @property
    def share(self) -> float:
        """Of what the device could do: 1 is the floor."""
        return self.floor_seconds / self.seconds


def measure(case: Case, size: Size, ceilings: Ceilings) -> Measured:
    off = error(case)
    least = floor(case.moved, case.flops, ceilings)
    inputs = [case.make() for _ in range(turns(case.moved, cache_bytes(size.device)))]
    calls = [lambda given=given: case.run(*given) for given in inputs]
    seconds = seconds_of(calls, rounds(least.seconds, len(calls)), size.device)
    return Measured(
        case.name,
        size.width,
        size.positions,
        case.moved,
        case.flops,
        seconds,
        least.seconds,
        least.bound,
        off,
    )


def every_case(size: Size) -> Iterator[Case]:
    yield from kernel_cases(size)
    yield from modern_cases(size)
    yield from attention_cases(size)
    yield from product_cases(size)


def measure_all(
    options: argparse.Namespace, device: torch.device, ceilings: Ceilings
) -> tuple[list[Measured], int]:
    """And how many failed that every machine has."""
    results: list[Measured] = []
    failed = 0
    half, kernels = half_of(device), kernels_of(device)
    for width in options.widths:
        for positions in options.positions:
            size = Size(width, positions, options.block, options.vocabulary, half, device, kernels)
            for case in filter(lambda each: wanted(each, options.only), every_case(size)):
                try:
                    results.append(measure(case, size, ceilings))
                    print(row(results[-1]), file=sys.stderr, flush=True)
                except Exception as fault:  # Triton has its own, and device time is short
                    failed += not case.name.startswith("attention")
                    words = (str(fault).splitlines() or [type(fault).__name__])[0]
                    print(f"{case.name} does not run: {words}", file=sys.stderr, flush=True)
                forget(device)
    return results, failed


def wanted(case: Case, parts: list[str]) -> bool:
    return not parts or any(part in case.name for part in parts)


def forget(device: torch.device) -> None:
    """A graph has memory of its own, which only goes back when it is collected."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def half_of(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def kernels_of(device: torch.device) -> ModuleType:
    missing = why_no_triton(device)
    if missing is not None:
        print(f"{missing}: torch's own kernels are measured", file=sys.stderr)
        return plain
    from nanodyno.model.kernels import gpu

    return gpu


def table(results: list[Measured]) -> str:
    head = "| | n_embd | positions | MB | GFLOP | floor us | of | measured us | floor / measured | error |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|---|---|", *map(row, results)])


def row(result: Measured) -> str:
    return (
        f"| {result.name} | {result.width} | {result.positions} | {result.moved_bytes / 1e6:.1f} "
        f"| {result.flops / 1e9:.1f} | {result.floor_seconds * 1e6:.1f} | {result.bound} "
        f"| {result.seconds * 1e6:.1f} | {result.share:.2f} | {result.error:.1e} |"
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[768, 384], help="multiples of 64")
    parser.add_argument(
        "--positions", type=int, nargs="+", default=[8192, 16384], help="multiples of --block"
    )
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of what is measured")
    parser.add_argument("--json", type=Path, help="also write all numbers to this file")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    torch.manual_seed(0)
    try:
        device = choose_device(options.device)
        machine = describe_machine(device)
        with torch.no_grad():
            ceilings = measure_ceilings(half_of(device), device)
            forget(device)
            results, failed = measure_all(options, device, ceilings)
    except NanodynoError as fault:
        print(f"{fault.message}\n{fault.hint or ''}", file=sys.stderr)
        return fault.exit_code
    print(
        f"{machine.device_name}, torch {torch.__version__}: a copy moves "
        f"{ceilings.bytes_per_second / 1e9:,.0f} GB/s, a product does "
        f"{ceilings.achieved_flops_per_second / 1e12:,.1f} TFLOP/s"
    )
    print(table(results))
    if options.json:
        about = {
            "torch": torch.__version__,
            "machine": machine.model_dump(),
            "arguments": sys.argv[1:],
            "ceilings": asdict(ceilings),
            "results": [asdict(each) for each in results],
        }
        options.json.write_text(json.dumps(about, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
