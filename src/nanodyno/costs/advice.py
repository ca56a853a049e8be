"""What would make a config fit: each switch alone, what it saves and what it costs in speed."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import get_args

from nanodyno.config import SETTINGS
from nanodyno.config.attributes import Arithmetic
from nanodyno.costs.calibration import Calibration
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import FEWEST_ROWS, RECOMPUTE, Setup
from nanodyno.costs.time import iteration_time

WORTH_TELLING = 0.01
"""Of the memory needed."""
LARGEST_TRIED = 4096
"""Sequences of a micro-batch."""


@dataclass(frozen=True)
class MemoryAdvice:
    """`settings` as they are typed; `slower` is the share of time that comes on top, below 0 if faster."""

    settings: tuple[tuple[str, str], ...]
    arithmetic: Arithmetic
    saved_bytes: int
    slower: float
    fits: bool
    host_bytes: int = 0
    """That it takes of the host's memory instead."""


def advise(
    setup: Setup, limit_bytes: int, calibration: Calibration, host_bytes: int | None = None
) -> tuple[MemoryAdvice, ...]:
    """Those that save anything worth telling: what fits first, each by what it costs in speed.

    Where no switch is enough alone, also the fastest of those together that leave the arithmetic as it is.
    Nothing goes to a host that has not the memory for it; None is a host that is not known.
    """
    before = memory_of(setup, calibration).total
    seconds = iteration_time(setup, calibration).seconds
    moments = offloaded_bytes(replace(setup, offload_moments=True), calibration)
    can_offload = host_bytes is None or moments <= host_bytes

    def judged(settings: dict[str, str], changed: Setup) -> MemoryAdvice:
        after = memory_of(changed, calibration).total
        slower = iteration_time(changed, calibration).seconds / seconds - 1
        moved = moments if "offload_moments" in settings else 0
        classes: list[Arithmetic] = ["exact", *(SETTINGS[key].arithmetic for key in settings)]
        most = max(classes, key=get_args(Arithmetic).index)
        return MemoryAdvice(
            tuple(settings.items()), most, before - after, slower, after <= limit_bytes, moved
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
    return memory_of(replace(setup, offload_moments=False), calibration).optimizer


MemoryChange = tuple[dict[str, str], Setup]


def _switches(setup: Setup, can_offload: bool) -> Iterator[MemoryChange]:
    rows = FEWEST_ROWS
    if setup.rows > rows:
        yield {"loss_chunk_size": str(rows)}, replace(setup, loss_chunk_size=rows)
    if setup.kernels == "autograd":
        if setup.dtype == "bfloat16" and not setup.shape.dropout and setup.known_by_hand:
            yield {"kernels": "fused"}, _as_fused(setup)
        return
    for level in RECOMPUTE[RECOMPUTE.index(setup.recompute) + 1 :]:
        yield {"recompute": level}, replace(setup, recompute=level)
    adamw = setup.optimizer == "adamw"  # the states of others are as they are
    if can_offload and adamw and not setup.offload_moments:
        yield {"offload_moments": "True"}, replace(setup, offload_moments=True)
    if adamw and setup.moments_dtype == "float32" and not setup.offload_moments:
        yield {"moments_dtype": "bfloat16"}, replace(setup, moments_dtype="bfloat16")
    if setup.residual_dtype == "float32":
        yield {"residual_dtype": "bfloat16"}, replace(setup, residual_dtype="bfloat16")


def _as_fused(setup: Setup) -> Setup:
    rows = setup.loss_chunk_size or FEWEST_ROWS
    return replace(
        setup,
        kernels="fused",
        compiled=False,
        attention="cudnn-packed",
        loss_chunk_size=rows,
        cuda_graph=True,
    )


def _smaller(setup: Setup, limit_bytes: int, calibration: Calibration) -> MemoryChange:
    """The largest micro-batch of the same effective batch that fits; 1 where none does."""
    found = _largest_that_fits(setup, setup.batch_size - 1, limit_bytes, calibration)
    return {"batch_size": str(found.batch_size)}, found


def _largest_that_fits(setup: Setup, largest: int, limit_bytes: int, calibration: Calibration) -> Setup:
    sequences = setup.batch_size * setup.micro_steps
    sizes = reversed(setup.micro_batches(min(largest, LARGEST_TRIED)))
    trials = (replace(setup, batch_size=size, micro_steps=sequences // size) for size in sizes)
    fitting = (trial for trial in trials if memory_of(trial, calibration).total <= limit_bytes)
    return next(fitting, replace(setup, batch_size=1, micro_steps=sequences))


def _together(setup: Setup, limit_bytes: int, calibration: Calibration, can_offload: bool) -> MemoryChange:
    """The fastest that fits of all that keep the arithmetic; where none does, the smallest."""
    fused = setup.kernels == "fused"
    levels = RECOMPUTE[RECOMPUTE.index(setup.recompute) :] if fused else (setup.recompute,)
    rows = (setup.loss_chunk_size, FEWEST_ROWS) if setup.rows > FEWEST_ROWS else (setup.loss_chunk_size,)
    may_move = fused and can_offload and setup.optimizer == "adamw" and not setup.offload_moments
    offloads = (False, True) if may_move else (setup.offload_moments,)
    trials = [
        _largest_that_fits(
            replace(setup, recompute=level, loss_chunk_size=few, offload_moments=away),
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
    return _changes(setup, found), found


def _changes(before: Setup, after: Setup) -> dict[str, str]:
    keys = [each.name for each in fields(Setup) if each.name in SETTINGS and SETTINGS[each.name].tuned]
    return {key: str(getattr(after, key)) for key in keys if getattr(after, key) != getattr(before, key)}
