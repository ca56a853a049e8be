"""What would make a config fit: each switch alone, what it saves and what it costs in speed."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Literal

from nanodyno.config import SETTINGS
from nanodyno.costs.calibration import Calibration
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import FEWEST_ROWS, RECOMPUTE, Setup
from nanodyno.costs.time import iteration_time

WORTH_TELLING = 0.01
"""Of the memory needed."""
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
    host_bytes: int = 0
    """That it takes of the host's memory instead."""


def advise(
    setup: Setup, limit_bytes: int, calibration: Calibration, host_bytes: int | None = None
) -> tuple[Advice, ...]:
    """Those that save anything worth telling: what fits first, each by what it costs in speed.

    Where no switch is enough alone, also the fastest of those together that leave the arithmetic as it is.
    Nothing goes to a host that has not the memory for it; None is a host that is not known.
    """
    before = memory_of(setup, calibration).total
    seconds = iteration_time(setup, calibration).seconds
    moments = offloaded_bytes(replace(setup, offload_moments=True), calibration)
    can_offload = host_bytes is None or moments <= host_bytes

    def judged(settings: dict[str, str], arithmetic: ArithmeticClass, changed: Setup) -> Advice:
        after = memory_of(changed, calibration).total
        slower = iteration_time(changed, calibration).seconds / seconds - 1
        moved = moments if "offload_moments" in settings else 0
        return Advice(
            tuple(settings.items()), arithmetic, before - after, slower, after <= limit_bytes, moved
        )

    single = [
        *(judged(*each) for each in _switches(setup, can_offload)),
        judged(*_smaller(setup, limit_bytes, calibration)),
    ]
    useful = [each for each in single if each.saved_bytes > WORTH_TELLING * before]
    if not any(each.fits for each in useful):
        together = judged(*_together(setup, limit_bytes, calibration, can_offload))
        useful += [together] if len(together.settings) > 1 else []
    return tuple(sorted(useful, key=lambda each: (not each.fits, each.slower)))


def offloaded_bytes(setup: Setup, calibration: Calibration) -> int:
    """Of the host's memory, pinned: the moments that would else be on the card."""
    if not setup.offload_moments:
        return 0
    return memory_of(replace(setup, offload_moments=False), calibration).optimiser


Change = tuple[dict[str, str], ArithmeticClass, Setup]


def _switches(setup: Setup, can_offload: bool) -> Iterator[Change]:
    rows = FEWEST_ROWS
    if setup.rows > rows:
        yield {"loss_rows": str(rows)}, "rounding", replace(setup, loss_rows=rows)
    if setup.kernels == "autograd":
        if setup.dtype == "bfloat16" and not setup.shape.dropout and setup.known_by_hand:
            yield {"kernels": "fused"}, "rounding", _as_fused(setup)
        return
    for level in RECOMPUTE[RECOMPUTE.index(setup.recompute) + 1 :]:
        yield {"recompute": level}, "rounding", replace(setup, recompute=level)
    adamw = setup.optimizer == "adamw"  # the states of others are as they are
    if can_offload and adamw and not setup.offload_moments:
        yield {"offload_moments": "True"}, "exact", replace(setup, offload_moments=True)
    if adamw and setup.moments_dtype == "float32" and not setup.offload_moments:
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
    found = _largest_that_fits(setup, setup.batch_size - 1, limit_bytes, calibration)
    return {"batch_size": str(found.batch_size)}, "rounding", found


def _largest_that_fits(setup: Setup, largest: int, limit_bytes: int, calibration: Calibration) -> Setup:
    sequences = setup.batch_size * setup.micro_steps
    sizes = reversed(setup.micro_batches(min(largest, LARGEST_TRIED)))
    trials = (replace(setup, batch_size=size, micro_steps=sequences // size) for size in sizes)
    fitting = (trial for trial in trials if memory_of(trial, calibration).total <= limit_bytes)
    return next(fitting, replace(setup, batch_size=1, micro_steps=sequences))


def _together(setup: Setup, limit_bytes: int, calibration: Calibration, can_offload: bool) -> Change:
    """The fastest that fits of all that keep the arithmetic; where none does, the smallest."""
    fused = setup.kernels == "fused"
    levels = RECOMPUTE[RECOMPUTE.index(setup.recompute) :] if fused else (setup.recompute,)
    rows = (setup.loss_rows, FEWEST_ROWS) if setup.rows > FEWEST_ROWS else (setup.loss_rows,)
    may_move = fused and can_offload and setup.optimizer == "adamw" and not setup.offload_moments
    offloads = (False, True) if may_move else (setup.offload_moments,)
    trials = [
        _largest_that_fits(
            replace(setup, recompute=level, loss_rows=few, offload_moments=away),
            setup.batch_size,
            limit_bytes,
            calibration,
        )
        for level, few, away in product(levels, rows, offloads)
    ]
    fitting = [trial for trial in trials if memory_of(trial, calibration).total <= limit_bytes]
    if fitting:
        found = min(fitting, key=lambda trial: iteration_time(trial, calibration).seconds)
    else:
        found = min(trials, key=lambda trial: memory_of(trial, calibration).total)
    return _changes(setup, found), "rounding", found


def _changes(before: Setup, after: Setup) -> dict[str, str]:
    keys = [each.name for each in fields(Setup) if each.name in SETTINGS and SETTINGS[each.name].tuned]
    return {key: str(getattr(after, key)) for key in keys if getattr(after, key) != getattr(before, key)}
