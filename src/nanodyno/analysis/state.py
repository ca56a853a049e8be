"""How a run stands, as data: what it does or how it ended, and from where it would go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import HistoryRecord, SaveRecord, StartRecord, StopReason, StopRecord

StateKind = Literal["running", "done", "stopped", "failed", "died", "not begun", "imported"]
"""died: nothing writes it any more and nobody stopped it: a kill, a crash, a power cut."""

ASKED_TO_STOP: tuple[StopReason, ...] = ("interrupted", "terminated", "max-hours", "stop-at")


@dataclass(frozen=True)
class RunState:
    kind: StateKind
    iteration: int
    """Updates made."""
    saved_iteration: int | None
    """Where a resume would begin; None while nothing was saved."""
    reason: StopReason | None = None
    words: str | None = None
    """What was told when it failed."""


def run_state(run: Run) -> RunState:
    if isinstance(run.record, ImportedRecord):
        return RunState("imported", run.iterations_done, None)
    saved = saved_iteration(run.history)
    if run.running:
        return RunState("running", run.iterations_done, saved)
    if run.stop is None:
        begun = run.steps or run.last_start
        return RunState("died" if begun else "not begun", run.iterations_done, saved)
    return RunState(
        kind=_ended(run.stop.reason),
        iteration=_ended_at(run, run.stop),
        saved_iteration=saved,
        reason=run.stop.reason,
        words=run.stop.words,
    )


def saved_iteration(history: Sequence[HistoryRecord]) -> int | None:
    """Of the newest checkpoint: the last one saved, or an older one that a resume since had to go back to."""
    newest = None
    for entry in history:
        if isinstance(entry, SaveRecord):
            newest = entry.iteration
        elif isinstance(entry, StartRecord):
            newest = entry.iteration or None
    return newest


def _ended_at(run: Run, stop: StopRecord) -> int:
    """The iteration whose loss became NaN is recorded, and not counted where the run stopped."""
    return max(stop.iteration, run.iterations_done) if _ended(stop.reason) == "failed" else stop.iteration


def _ended(reason: StopReason) -> StateKind:
    if reason == "finished":
        return "done"
    return "stopped" if reason in ASKED_TO_STOP else "failed"
