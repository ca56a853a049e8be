"""What would make a config fit: each switch alone, what it saves and what it costs in speed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.costs.calibration import Calibration
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import FEWEST_ROWS, RECOMPUTE, Setup
from nanodyno.costs.time import iteration_time

LARGEST_TRIED = 4096
"""Sequences of a micro-batch."""
ArithmeticClass = Literal["exact", "rounding", "different"]


@dataclass(frozen=True)
class Advice:
    """`settings` as they are typed; `slower` is the share of time that comes on top, below 0 if faster."""

    settings: tuple[tuple[str, str], ...]
    arithmetic: ArithmeticClass
    saved_bytes: int
    slower: float
    fits: bool


def advise(setup: Setup, limit_bytes: int, calibration: Calibration) -> tuple[Advice, ...]:
    """Those that save anything: what fits first, each by what it costs in speed.

    Where no switch is enough alone, the last one is all that leave the arithmetic as it is, together.
    """
    before = memory_of(setup, calibration).total
    seconds = iteration_time(setup, calibration).seconds

    def judged(settings: dict[str, str], arithmetic: ArithmeticClass, changed: Setup) -> Advice:
        after = memory_of(changed, calibration).total
        slower = iteration_time(changed, calibration).seconds / seconds - 1
        return Advice(tuple(settings.items()), arithmetic, before - after, slower, after <= limit_bytes)

    single = [
        *(judged(*each) for each in _switches(setup)),
        judged(*_smaller(setup, limit_bytes, calibration)),
    ]
    useful = [each for each in single if each.saved_bytes > 0]
    if not any(each.fits for each in useful):
        useful.append(judged(*_all_together(setup)))
    return tuple(sorted(useful, key=lambda each: (not each.fits, each.slower)))


Change = tuple[dict[str, str], ArithmeticClass, Setup]


def _switches(setup: Setup) -> Iterator[Change]:
    rows = FEWEST_ROWS
    if setup.rows > rows:
        yield {"loss_rows": str(rows)}, "rounding", replace(setup, loss_rows=rows)
    if setup.kernels == "autograd":
        if setup.dtype == "bfloat16" and not setup.shape.dropout:
            yield {"kernels": "fused"}, "rounding", _as_fused(setup)
        return
    for level in RECOMPUTE[RECOMPUTE.index(setup.recompute) + 1 :]:
        yield {"recompute": level}, "rounding", replace(setup, recompute=level)
    if not setup.offload_moments:
        yield {"offload_moments": "True"}, "exact", replace(setup, offload_moments=True)
    if setup.moments_dtype == "float32" and not setup.offload_moments:
        yield {"moments_dtype": "bfloat16"}, "different", replace(setup, moments_dtype="bfloat16")
    if setup.residual_dtype == "float32":
        yield {"residual_dtype": "bfloat16"}, "different", replace(setup, residual_dtype="bfloat16")


def _as_fused(setup: Setup) -> Setup:
    rows = setup.loss_rows or FEWEST_ROWS
    return replace(
        setup, kernels="fused", compiled=False, attention="cudnn-packed", loss_rows=rows, cuda_graph=True
    )


def _smaller(setup: Setup, limit_bytes: int, calibration: Calibration) -> Change:
    """The largest micro-batch of the same effective batch that fits; 1 where none does."""
    sequences = setup.batch_size * setup.micro_steps
    largest = min(setup.batch_size - 1, LARGEST_TRIED)
    sizes = (size for size in range(largest, 0, -1) if sequences % size == 0)
    trials = (replace(setup, batch_size=size, micro_steps=sequences // size) for size in sizes)
    fitting = (trial for trial in trials if memory_of(trial, calibration).total <= limit_bytes)
    found = next(fitting, replace(setup, batch_size=1, micro_steps=sequences))
    return {"batch_size": str(found.batch_size)}, "rounding", found


def _all_together(setup: Setup) -> Change:
    sequences = setup.batch_size * setup.micro_steps
    settings = {"batch_size": "1", "loss_rows": str(FEWEST_ROWS)}
    least = replace(setup, batch_size=1, micro_steps=sequences, loss_rows=FEWEST_ROWS)
    if setup.kernels == "fused":
        settings |= {"recompute": "full", "offload_moments": "True"}
        least = replace(least, recompute="full", offload_moments=True)
    return settings, "rounding", least
