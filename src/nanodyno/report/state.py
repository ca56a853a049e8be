"""How a run stands, in a word for a table and in a sentence with what to do."""

import math
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime

from nanodyno.analysis.state import RunState, StateKind
from nanodyno.analysis.summary import Summary
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import StopReason

STYLES: Mapping[StateKind, str] = {
    "running": "cyan",
    "done": "green",
    "stopped": "yellow",
    "failed": "red",
    "died": "red",
    "not begun": "",
    "imported": "",
}
GO_ON: Mapping[StopReason | None, str] = {
    None: "state.resume.same-command",
    "diverged": "state.resume.after-divergence",
    "no-space": "state.resume.after-full-disk",
    "no-memory": "state.resume.after-out-of-memory",
}
BEGIN_ANEW: Mapping[StopReason | None, str] = {
    None: "state.restart.same-command",
    "diverged": "state.restart.after-divergence",
    "no-space": "state.restart.after-full-disk",
    "no-memory": "state.restart.after-out-of-memory",
}
"""By why it stopped: without a remedy the same would happen again."""
STOPPED: Mapping[StopReason, str] = {
    "interrupted": "state.stopped.by-ctrl-c",
    "terminated": "state.stopped.by-sigterm",
    "max-hours": "state.stopped.by-max-hours",
    "stop-at": "state.stopped.by-stop-at",
}
CELLS: Mapping[StateKind, str] = {
    "running": "state.cell.running",
    "done": "state.cell.done",
    "stopped": "state.cell.stopped",
    "failed": "common.failed",
    "died": "state.cell.died",
    "not begun": "state.cell.not-begun",
    "imported": "state.cell.imported",
}


def state_cell(summary: Summary, language: Language = ENGLISH) -> str:
    """`running 40%`: a share is of the iterations, and less than 100% before the last one is done."""
    state, planned = summary.state, summary.iterations_planned
    words = language.say(CELLS[state.kind])
    if state.kind in ("done", "not begun", "imported") or not planned:
        return words
    share = math.floor(100 * min(1.0, state.iteration / planned)) / 100
    return f"{words} {quantities.share(share, '.0f', language)}"


def state_words(run: Run, summary: Summary, language: Language = ENGLISH) -> str:
    """How it stands, in whole sentences, and the command that resumes."""
    state = summary.state
    if state.kind == "running":
        return _running(run, language)
    if state.kind == "imported":
        return _imported(run, language)
    when = moment(run.stop.wall_time, language) if run.stop else ""
    if state.kind == "done":
        return language.say("state.done.at", when=when)
    values = {
        "iteration": language.number(state.iteration, ","),
        "planned": language.number(summary.iterations_planned or 0, ","),
        "when": when,
        "go_on": _go_on(run, state, language),
        "why": (state.words or "").rstrip("."),
    }
    return language.say(_ended(state, bool(summary.iterations_planned)), **values)


def _ended(state: RunState, planned: bool) -> str:
    if state.kind == "not begun":
        return "state.not-begun"
    if not planned:
        return _ended_without_training(state)
    if state.kind == "died":
        return "state.died.at-iteration"
    if state.kind == "stopped" and state.reason is not None:
        return STOPPED[state.reason]
    if state.words:
        return "state.failed.at-iteration-why"
    return "state.failed.at-iteration"


def _ended_without_training(state: RunState) -> str:
    """Of a run that only evaluates."""
    if state.kind == "died":
        return "state.died.evaluation-only"
    if state.kind == "stopped":
        return "state.stopped.evaluation-only"
    return "state.failed.evaluation-only-why" if state.words else "state.failed.evaluation-only"


def _imported(run: Run, language: Language) -> str:
    assert isinstance(run.record, ImportedRecord)
    origin = run.record.origin
    said = "state.imported.result-file" if origin.files[0].kind == "result" else "state.imported.log-file"
    return language.say(
        said,
        program=origin.program,
        files=", ".join(source.name for source in origin.files),
        when=language.moment(run.record.started_at),
    )


def moment(wall_time: float, language: Language = ENGLISH) -> str:
    return language.moment(datetime.fromtimestamp(wall_time, UTC))


def _running(run: Run, language: Language) -> str:
    start = run.last_start
    if start is None:
        return language.say("state.running.starting")
    words = "state.running.several-processes" if start.processes > 1 else "state.running.one-process"
    return language.say(
        words,
        process=str(start.process),
        processes=str(start.processes),
        host=start.host,
        when=moment(start.wall_time, language),
    )


def _go_on(run: Run, state: RunState, language: Language) -> str:
    command = f"nanodyno train --resume {shlex.quote(str(run.folder))}"
    if state.saved_iteration is None:
        return language.say(BEGIN_ANEW.get(state.reason, BEGIN_ANEW[None]), command=command)
    iteration = language.number(state.saved_iteration, ",")
    return language.say(GO_ON.get(state.reason, GO_ON[None]), command=command, iteration=iteration)
