"""The cost model beside public measurements of other GPUs, and the fit of its numbers for classes of GPUs.

    python benchmarks/cost_public.py                    # every measurement beside the shipped numbers
    python benchmarks/cost_public.py --leave-one-out    # each GPU predicted by a fit without it
    python benchmarks/cost_public.py --fit              # numbers for calibration.json, from all GPUs

public_speeds.csv has one training a row, on one GPU each, with its source and a quote of it. The fit moves
each number from a prior as far as the rows outweigh it. The priors of attention and bandwidth, and that 12 nm
takes 2.2 times the energy of 8 nm, are assumptions: where a class has one GPU (T4, V100, MI300X), leaving it
out leaves the assumption.
"""

import argparse
import copy
import csv
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from nanodyno.config import build_config
from nanodyno.costs.calibration import (
    INTERVAL,
    REFERENCE,
    by_class,
    calibration_for,
    class_numbers,
    with_power,
)
from nanodyno.costs.setup import Dtype, Setup, settle
from nanodyno.costs.time import iteration_time
from nanodyno.hardware.gpus import Gpu, gpu_named

DATA = Path(__file__).with_name("public_speeds.csv")
NOT_A_SPEED = ("reversible-20m baseline",)
"""1.5 TFLOP/s on a T4, less than its fp32 units do: the program waits for something else. Not fitted."""
PRIORS: Mapping[str, tuple[float, float]] = {
    "Hopper HBM": (0.80, 1.25e-12),
    "Ampere HBM": (0.80, 1.7e-12),
    "CDNA HBM": (0.80, 1.25e-12),
    "Ada GDDR": (1.20, 2.3e-12),
    "Ampere GDDR": (0.85, 2.3e-12),
    "Turing GDDR": (0.85, 5.2e-12),
    "Volta HBM": (0.80, 5.2e-12),
}
"""Share of the bandwidth, and joules for a FLOP. The shares are what copies reach; Ada and Blackwell keep a
part of the traffic in a large L2 cache. Joules follow the process: 4, 7, 12 nm, the last 2.2 times 8 nm."""
PRIOR_MATMUL, PRIOR_EXPONENT, PRIOR_CYCLES = {"GeForce": 1.05, "other": 0.82}, 0.17, 0.5
"""Large matmuls of public_matmuls.csv: the median of GeForce, and of others that no power limit slows."""
LN_SPREAD = {
    "bandwidth_share": 0.15, "joules_per_flop": 0.25, "GeForce": 0.03, "other": 0.05, "cycles_per_score": 0.1,
    "watts_exponent": 0.3,
}  # fmt: skip
"""How far a number may be from its prior: a standard deviation, in logarithms."""
ROW_SPREAD, OF_ONE_GPU = 0.08, 1.5
"""Of a row about its GPU; rows of one GPU are no independent evidence of a class."""
SHRINK = 0.5
"""How much of a GPU's own deviation is taken for the GPU's, the rest for that machine's and program's."""

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Row:
    """One public training on one GPU."""

    gpu: Gpu
    program: str
    setup: Setup
    tokens_per_second: float
    source: str

    @property
    def place(self) -> str:
        """Return the key of the GPU's own factor in calibration.json."""
        return f"{self.gpu.label}, {self.setup.dtype}"

    @property
    def fitted(self) -> bool:
        return self.gpu.name != REFERENCE and self.program not in NOT_A_SPEED


@cache
def rows(path: Path = DATA) -> tuple[Row, ...]:
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(_row(values) for values in csv.DictReader(file))


def _row(values: Mapping[str, str]) -> Row:
    gpu, dtype = gpu_named(values["gpu"]), values["dtype"]
    settings: dict[str, object] = {
        key: int(values[key]) for key in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")
    }
    settings |= {
        "batch_size": int(values["micro_batch"]),
        "gradient_accumulation_steps": int(values["accumulation"]),
        "kernels": "autograd",
        "compile": values["compiled"] != "False",
        "dtype": dtype,
        "bias": False,
    }
    if values["program"] == "nanochat":
        settings |= _nanochat(int(values["n_layer"]))
    config = build_config(settings)
    vocab_size = int(values["vocab_size"])
    kind: Dtype = "float32" if dtype == "float32" else "float16" if dtype == "float16" else "bfloat16"
    setup = settle(config, config.model_shape(vocab_size), kind, gpu.memory_bytes)
    return Row(gpu, values["program"], setup, float(values["tokens_per_second"]), values["source"])


def _nanochat(n_layer: int) -> dict[str, object]:
    """Its parts as far as we have them: it has a value embedding in every second layer."""
    return {
        "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "logit_softcap": 15.0,
        "value_embeddings": n_layer // 2, "untied_head": True, "optimizer": "muon", "muon_lr": 0.02,
    }  # fmt: skip


def predicted(row: Row, classes: Mapping[str, Any]) -> float:
    """Return tokens/s by the GPU's class, also of the H200, whose own rates we have."""
    calibration = by_class(row.gpu, row.setup.dtype, classes)
    return iteration_time(row.setup, with_power(calibration, row.gpu, None, classes)).tokens_per_second


def shipped(row: Row) -> float:
    """Return tokens/s as `nanodyno plan` predicts it: with the GPU's own public rows."""
    return iteration_time(row.setup, calibration_for(row.gpu, row.setup.dtype)).tokens_per_second


def ln_errors(some: Sequence[Row], classes: Mapping[str, Any]) -> list[float]:
    return [math.log(predicted(row, classes) / row.tokens_per_second) for row in some]


def priors() -> dict[str, Any]:
    """Return the shipped numbers with those that are fitted at their priors."""
    classes = copy.deepcopy(dict(class_numbers()))
    for entry in classes["rates"]:
        entry["bandwidth_share"], entry["joules_per_flop"] = PRIORS[entry["of"][0]]
    classes["matmul_share"] |= PRIOR_MATMUL
    classes["attention"]["cycles_per_score"] = PRIOR_CYCLES
    classes["power"]["watts_exponent"] = PRIOR_EXPONENT
    return classes


def fitted(some: Sequence[Row]) -> dict[str, Any]:
    """Return the numbers of the classes by penalized least squares on ln errors, robust to outliers."""
    start = priors()
    paths = list(_paths(start))
    counts = {row.gpu.name: sum(each.gpu.name == row.gpu.name for each in some) for row in some}
    weights = [OF_ONE_GPU / counts[row.gpu.name] ** 0.5 for row in some]

    def residuals(moves: Sequence[float]) -> list[float]:
        errors = ln_errors(some, _moved(start, paths, moves))
        from_rows = [
            weight * _robust(error / ROW_SPREAD) for weight, error in zip(weights, errors, strict=True)
        ]
        return from_rows + [move / LN_SPREAD[str(path[-1])] for path, move in zip(paths, moves, strict=True)]

    found = least_squares(residuals, np.zeros(len(paths)), diff_step=1e-3)
    return _moved(start, paths, found.x)


def _robust(error: float) -> float:
    """Grow with the root of a large error, so that one throttled machine moves no class."""
    return math.copysign(math.sqrt(2 * (math.sqrt(1 + error * error) - 1)), error)


def _paths(classes: Mapping[str, Any]) -> Iterator[Path_]:
    for number in range(len(classes["rates"])):
        yield "rates", number, "bandwidth_share"
        yield "rates", number, "joules_per_flop"
    yield "matmul_share", "GeForce"
    yield "matmul_share", "other"
    yield "attention", "cycles_per_score"
    yield "power", "watts_exponent"


def _moved(start: Mapping[str, Any], paths: Sequence[Path_], moves: Sequence[float]) -> dict[str, Any]:
    classes = copy.deepcopy(dict(start))
    for path, move in zip(paths, moves, strict=True):
        place: Any = classes
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] *= math.exp(move)
    return classes


def left_out(some: Sequence[Row]) -> list[tuple[Row, float]]:
    """Return each row with its ln error by a fit that saw no row of its GPU."""
    found: list[tuple[Row, float]] = []
    for name in sorted({row.gpu.name for row in some}):
        own = [row for row in some if row.gpu.name == name]
        classes = fitted([row for row in some if row.gpu.name != name and row.fitted])
        found += zip(own, ln_errors(own, classes), strict=True)
    return found


def own_factors(some: Sequence[Row], classes: Mapping[str, Any]) -> dict[str, float]:
    """Return how much faster each GPU was measured in a dtype than its class predicts, half of it kept."""
    factors: dict[str, float] = {}
    for place in sorted({row.place for row in some if row.fitted}):
        errors = ln_errors([row for row in some if row.place == place and row.fitted], classes)
        factors[place] = round(math.exp(-SHRINK * statistics.median(errors)), 3)
    return factors


def summary(found: Sequence[tuple[Row, float]]) -> str:
    """Return the median error, the share within 25%, and how many GPUs an 80% interval covers."""
    sizes = sorted(abs(math.expm1(error)) for _, error in found)
    by_gpu = {
        name: statistics.mean(error for row, error in found if row.gpu.name == name)
        for name in {row.gpu.name for row, _ in found}
    }
    bound = statistics.NormalDist().inv_cdf(0.5 + INTERVAL / 2) * class_numbers()["ln_error"]["class"]
    covered = sum(abs(error) <= bound for error in by_gpu.values())
    within = sum(size <= 0.25 for size in sizes)
    return (
        f"median error {statistics.median(sizes):.1%}, {within} of {len(sizes)} rows within 25%, "
        f"the 80% interval covers {covered} of {len(by_gpu)} GPUs"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    every = rows()
    if options.fit:
        classes = fitted([row for row in every if row.fitted])
        print(json.dumps(classes | {"public": own_factors(every, classes)}, indent=2))
        return
    if options.leave_one_out:
        found = left_out(every)
    else:
        found = [(row, math.log(shipped(row) / row.tokens_per_second)) for row in every]
    for row, error in found:
        expected, size = row.tokens_per_second * math.exp(error), row.setup.batch_size
        print(
            f"{row.gpu.label:44.44} {row.program:20.20} {row.setup.shape.n_embd:5} x {size:<4}"
            f"{row.tokens_per_second:9,.0f} {expected:9,.0f} {math.expm1(error):+7.1%}"
        )
    print(summary(found))


if __name__ == "__main__":
    main()
