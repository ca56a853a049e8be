"""How a run stands, in a word for a table and in a sentence with what to do."""

import math
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime

from nanodyno.analysis.state import RunState, StateKind
from nanodyno.analysis.summary import Summary
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import StopReason
from nanodyno.report.words import STOPPED

STYLES: Mapping[StateKind, str] = {
    "running": "cyan",
    "done": "green",
    "stopped": "yellow",
    "failed": "red",
    "died": "red",
    "not begun": "",
    "imported": "",
}
REMEDIES: Mapping[StopReason, str] = {
    "diverged": " with a lower --learning_rate",
    "no-space": ", once there is room,",
    "no-memory": " with a smaller --batch_size",
}
"""Without them the same would happen again."""


def state_cell(summary: Summary) -> str:
    """`running 40%`: a share is of the iterations, and less than 100% before the last one is done."""
    state, planned = summary.state, summary.iterations_planned
    if state.kind in ("done", "not begun", "imported") or not planned:
        return state.kind
    return f"{state.kind} {math.floor(100 * min(1.0, state.iteration / planned))}%"


def state_words(run: Run, summary: Summary) -> str:
    """What is the matter, and the command that goes on."""
    state = summary.state
    match state.kind:
        case "running":
            return _running(run)
        case "done":
            return f"done{_when(run)}"
        case "imported":
            return _imported(run)
        case "not begun":
            return f"not begun: {_go_on(run, state)}"
        case "died":
            return f"died{_where(summary)} (killed, or the machine went down): {_go_on(run, state)}"
        case "stopped":
            how = STOPPED[state.reason] if state.reason else ""
            return f"stopped {how}{_where(summary)}{_when(run)}: {_go_on(run, state)}"
        case "failed":
            why = f": {state.words}" if state.words else ""
            return f"failed{_where(summary)}{_when(run)}{why}; {_go_on(run, state)}"


def _imported(run: Run) -> str:
    assert isinstance(run.record, ImportedRecord)
    origin = run.record.origin
    files = ", ".join(source.name for source in origin.files)
    what = "a result" if origin.files[0].kind == "result" else "a log"
    return f"imported: {what} of {origin.program} ({files}), {run.record.started_at:%Y-%m-%d %H:%M} UTC"


def moment(wall_time: float) -> str:
    return f"{datetime.fromtimestamp(wall_time, UTC):%Y-%m-%d %H:%M} UTC"


def _running(run: Run) -> str:
    start = run.last_start
    if start is None:
        return "running: it is just being started"
    others = f" (the first of {start.processes})" if start.processes > 1 else ""
    return (
        f"running: process {start.process}{others} on {start.host} since {moment(start.wall_time)}; "
        f"`kill {start.process}` saves and stops it"
    )


def _where(summary: Summary) -> str:
    planned = summary.iterations_planned
    return f" at iteration {summary.state.iteration:,} of {planned:,}" if planned else ""


def _when(run: Run) -> str:
    return f", {moment(run.stop.wall_time)}" if run.stop else ""


def _go_on(run: Run, state: RunState) -> str:
    remedy = REMEDIES.get(state.reason, "") if state.reason else ""
    command = f"`nanodyno train --resume {shlex.quote(str(run.folder))}`{remedy}"
    if state.saved_iteration is None:
        return f"{command} begins anew, as nothing was saved yet"
    return f"{command} goes on from iteration {state.saved_iteration:,}"
