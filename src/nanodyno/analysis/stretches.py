"""The stretches of a run between two starts, and those of its steps whose times can be put together."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TypeVar

from nanodyno.records.imported import AnyStep
from nanodyno.records.types import HistoryRecord, StartRecord, StepRecord

S = TypeVar("S", bound=AnyStep)


def stretches(steps: Sequence[S], resumed_at_iterations: Sequence[int]) -> list[list[S]]:
    """Steps that one process did with one size of micro-batch, in order."""
    resumed = sorted(resumed_at_iterations)
    if not resumed:  # the usual, in half the time
        grouped = itertools.groupby(steps, key=attrgetter("micro_steps"))
    else:
        grouped = itertools.groupby(
            steps, key=lambda step: (bisect_right(resumed, step.iteration), step.micro_steps)
        )
    return [list(stretch) for _, stretch in grouped]


def same_processes_since(history: Sequence[HistoryRecord]) -> int:
    """The iteration from which on as many processes trained as in the last stretch.

    Earlier steps say nothing about the speed of so many cards.
    """
    kept: list[StartRecord] = []
    for start in history:
        if isinstance(start, StartRecord):
            # What was done from here on before was done again, and its records are gone.
            kept = [*itertools.takewhile(lambda entry, at=start.iteration: entry.iteration < at, kept), start]
    since = 0
    for before, after in itertools.pairwise(kept):
        if before.processes != after.processes:
            since = after.iteration
    return since


def same_batch_since(steps: Sequence[StepRecord]) -> int:
    """The iteration from which on the effective batch is the last one: earlier times are of other work."""
    since = 0
    for before, after in itertools.pairwise(steps):
        if before.tokens != after.tokens:
            since = after.iteration
    return since
