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
from nanodyno.report import quantities
from nanodyno.report.language import ENGLISH, Language, message

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
    None: message("`{command}` goes on from iteration {iteration}"),
    "diverged": message("`{command}` with a lower --learning_rate goes on from iteration {iteration}"),
    "no-space": message("`{command}`, once there is room, goes on from iteration {iteration}"),
    "no-memory": message("`{command}` with a smaller --batch_size goes on from iteration {iteration}"),
}
BEGIN_ANEW: Mapping[StopReason | None, str] = {
    None: message("`{command}` begins anew, as nothing was saved yet"),
    "diverged": message("`{command}` with a lower --learning_rate begins anew, as nothing was saved yet"),
    "no-space": message("`{command}`, once there is room, begins anew, as nothing was saved yet"),
    "no-memory": message("`{command}` with a smaller --batch_size begins anew, as nothing was saved yet"),
}
"""By why it stopped: without a remedy the same would happen again."""
STOPPED: Mapping[StopReason, str] = {
    "interrupted": message("stopped by Ctrl-C at iteration {iteration} of {planned}, {when}: {go_on}"),
    "terminated": message("stopped by SIGTERM at iteration {iteration} of {planned}, {when}: {go_on}"),
    "max-hours": message("stopped by --max-hours at iteration {iteration} of {planned}, {when}: {go_on}"),
    "stop-at": message("stopped by --stop-at at iteration {iteration} of {planned}, {when}: {go_on}"),
}
CELLS: Mapping[StateKind, str] = {
    "running": message("running"),
    "done": message("done"),
    "stopped": message("stopped"),
    "failed": message("failed"),
    "died": message("died"),
    "not begun": message("not begun"),
    "imported": message("imported"),
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
    """What is the matter, and the command that goes on."""
    state = summary.state
    if state.kind == "running":
        return _running(run, language)
    if state.kind == "imported":
        return _imported(run, language)
    when = moment(run.stop.wall_time, language) if run.stop else ""
    if state.kind == "done":
        return language.say("done, {when}", when=when) if when else language.say("done")
    values = {
        "iteration": language.number(state.iteration, ","),
        "planned": language.number(summary.iterations_planned or 0, ","),
        "when": when,
        "go_on": _go_on(run, state, language),
        "why": state.words or "",
    }
    return language.say(_ended(state, bool(summary.iterations_planned)), **values)


def _ended(state: RunState, planned: bool) -> str:
    if state.kind == "not begun":
        return message("not begun: {go_on}")
    if not planned:
        return _ended_without_training(state)
    if state.kind == "died":
        return message(
            "died at iteration {iteration} of {planned} (killed, or the machine went down): {go_on}"
        )
    if state.kind == "stopped" and state.reason is not None:
        return STOPPED[state.reason]
    if state.words:
        return message("failed at iteration {iteration} of {planned}, {when}: {why}; {go_on}")
    return message("failed at iteration {iteration} of {planned}, {when}; {go_on}")


def _ended_without_training(state: RunState) -> str:
    """Of a run that only evaluates."""
    if state.kind == "died":
        return message("died (killed, or the machine went down): {go_on}")
    if state.kind == "stopped":
        return message("stopped, {when}: {go_on}")
    return message("failed, {when}: {why}; {go_on}") if state.words else message("failed, {when}; {go_on}")


def _imported(run: Run, language: Language) -> str:
    assert isinstance(run.record, ImportedRecord)
    origin = run.record.origin
    said = (
        message("imported: a result of {program} ({files}), {when}")
        if origin.files[0].kind == "result"
        else message("imported: a log of {program} ({files}), {when}")
    )
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
        return language.say("running: it is just being started")
    words = (
        message(
            "running: process {process} (the first of {processes}) on {host} since {when}; "
            "`kill {process}` saves and stops it"
        )
        if start.processes > 1
        else message("running: process {process} on {host} since {when}; `kill {process}` saves and stops it")
    )
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
