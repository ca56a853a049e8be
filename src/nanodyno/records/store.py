"""Records on disk: `runs/NAME/` with run.json, steps.jsonl, evals.jsonl, history.jsonl and telemetry.jsonl.

run.json is replaced whole. The .jsonl files are append-only, one record a line; a kill can only cut the last
line, and readers drop a last line that has no newline.
"""

import json
import math
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from nanodyno.errors import NanodynoError, did_you_mean, nearest_names
from nanodyno.records.imported import (
    AnyEval,
    AnyRecord,
    AnyStep,
    ImportedEval,
    ImportedRecord,
    ImportedStep,
    Setting,
    within_plan,
)
from nanodyno.records.lock import is_locked
from nanodyno.records.types import (
    FORMAT,
    FORMAT_VERSION,
    EvalRecord,
    HistoryRecord,
    RunRecord,
    StartRecord,
    StepRecord,
    StopRecord,
    TelemetryRecord,
)

RUN_FILE = "run.json"
STEPS_FILE = "steps.jsonl"
EVALS_FILE = "evals.jsonl"
HISTORY_FILE = "history.jsonl"
TELEMETRY_FILE = "telemetry.jsonl"
"""Runs of before it was recorded have none."""
CHECKPOINTS_FOLDER = "checkpoints"
MOST_OTHERS = 60
"""Of the other runs under a folder, so many of the newest are read beside the one that is asked about."""

Line = TypeVar("Line")
Step = TypeVar("Step", bound=BaseModel)


@dataclass(frozen=True)
class Run:
    """One run as read from disk."""

    folder: Path
    record: AnyRecord
    steps: tuple[AnyStep, ...]
    evals: tuple[AnyEval, ...]
    history: tuple[HistoryRecord, ...] = ()
    running: bool = False
    """Whether a process writes it at this moment."""
    telemetry: tuple[TelemetryRecord, ...] = ()

    @property
    def name(self) -> str:
        """Return the folder's name, by which a run is asked for: a copy or a moved run has its new one."""
        return self.folder.name or self.record.name

    @property
    def own(self) -> RunRecord:
        """The record of a run that nanodyno trained; what was imported cannot be trained on."""
        return _own(self.record, self.folder)

    @property
    def own_steps(self) -> tuple[StepRecord, ...]:
        return tuple(step for step in self.steps if isinstance(step, StepRecord))

    @property
    def own_evals(self) -> tuple[EvalRecord, ...]:
        return tuple(entry for entry in self.evals if isinstance(entry, EvalRecord))

    @property
    def settings(self) -> dict[str, Setting]:
        """All of our own run's, and of an imported one those that are known."""
        if isinstance(self.record, ImportedRecord):
            return self.record.settings
        return self.record.config.model_dump()

    @property
    def tokens_per_iter(self) -> int | None:
        if isinstance(self.record, ImportedRecord):
            return self.record.tokens_per_iter
        return self.record.config.tokens_per_iter

    @property
    def iterations_done(self) -> int:
        done = self.steps[-1].iteration + 1 if self.steps else 0
        if not isinstance(self.record, ImportedRecord):
            return done
        evaluated = self.evals[-1].iteration if self.evals else 0  # a log may hold nothing else
        return within_plan(max(done, evaluated), self.record.settings.get("max_iters"))

    @property
    def last_start(self) -> StartRecord | None:
        starts = [entry for entry in self.history if isinstance(entry, StartRecord)]
        return starts[-1] if starts else None

    @property
    def stop(self) -> StopRecord | None:
        """How the last process that trained it ended; None while one does, and after a kill."""
        turns = [entry for entry in self.history if isinstance(entry, StartRecord | StopRecord)]
        return turns[-1] if turns and isinstance(turns[-1], StopRecord) else None

    @property
    def finished(self) -> bool:
        """True when all iterations, the evaluation after them and their checkpoint are on disk."""
        return self.stop is not None and self.stop.reason == "finished"


def read_run_record(folder: Path) -> RunRecord:
    """Of a run that nanodyno trained; an imported one is refused."""
    return _own(read_any_record(folder), folder)


def read_any_record(folder: Path) -> AnyRecord:
    path = folder / RUN_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NanodynoError(
            f"{folder} is not a run: it has no {RUN_FILE}", "`nanodyno runs` lists the runs"
        ) from None
    except OSError as error:
        raise NanodynoError(f"cannot read {path}: {error.strerror}") from error
    try:
        raw = json.loads(content)
        if isinstance(raw, dict) and raw.get("format") != FORMAT:
            raise NanodynoError(f"{path} is not a run of nanodyno", "another program wrote it")
        version = raw.get("version") if isinstance(raw, dict) else None
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise NanodynoError(f"{path} was written by a newer nanodyno", "upgrade nanodyno to read it")
        kind = ImportedRecord if isinstance(raw, dict) and "origin" in raw else RunRecord
        return kind.model_validate(raw)
    except ValueError as error:  # not UTF-8, not JSON or not a run
        raise NanodynoError(f"{path} is damaged: {_first_line(error)}", "restore it from a copy") from error


def read_steps(folder: Path, up_to_damage: bool = False) -> list[StepRecord]:
    """up_to_damage ends at the first line that cannot be read: a power cut may leave some."""
    return list(_thrifty(_read_lines(folder / STEPS_FILE, TypeAdapter(StepRecord), up_to_damage)))


def read_evals(folder: Path, up_to_damage: bool = False) -> list[EvalRecord]:
    return list(_read_lines(folder / EVALS_FILE, TypeAdapter(EvalRecord), up_to_damage))


def read_history(folder: Path, up_to_damage: bool = False) -> list[HistoryRecord]:
    return list(_read_lines(folder / HISTORY_FILE, TypeAdapter[HistoryRecord](HistoryRecord), up_to_damage))


def read_telemetry(folder: Path) -> list[TelemetryRecord]:
    """Up to the first line that cannot be read: no run is refused for a sample of its machine."""
    return list(_read_lines(folder / TELEMETRY_FILE, TypeAdapter(TelemetryRecord), up_to_damage=True))


def read_run(folder: Path, up_to_damage: bool = False) -> Run:
    """Of ours, or imported."""
    running = is_locked(folder)  # asked first: what ends meanwhile is then running, not dead
    record = read_any_record(folder)
    if isinstance(record, ImportedRecord):
        steps = _thrifty(_read_lines(folder / STEPS_FILE, TypeAdapter(ImportedStep), up_to_damage))
        evals = _read_lines(folder / EVALS_FILE, TypeAdapter(ImportedEval), up_to_damage)
        return Run(folder, record, tuple(steps), tuple(evals))
    return Run(
        folder,
        record,
        tuple(read_steps(folder, up_to_damage)),
        tuple(read_evals(folder, up_to_damage)),
        tuple(read_history(folder, up_to_damage)),
        running,
        tuple(read_telemetry(folder)),
    )


def find_run(name: str, root: Path) -> Path:
    """A name under the runs folder, or a path."""
    folder = known_run(name, root)
    if folder is not None:
        return folder
    known = [folder.name for folder in run_folders(root)]
    question = did_you_mean(nearest_names(name, known))
    hint = (
        f"runs: {', '.join(known[-12:])}" if known else "start one with `nanodyno train` or `nanodyno demo`"
    )
    raise NanodynoError(f"no run {name!r} under {root}/, and no run folder at that path{question}", hint)


def known_run(name: str, root: Path) -> Path | None:
    for folder in (root / name, Path(name)):
        if os.path.exists(folder / RUN_FILE):  # noqa: PTH110 - unlike Path's, false for an impossible name
            return folder
    return None


def run_folders(root: Path) -> list[Path]:
    """Every run under a folder by its start, oldest first; one with a damaged run.json comes last."""
    if not root.is_dir():
        return []
    return sorted((path.parent for path in root.glob(f"*/{RUN_FILE}")), key=_start)


def other_runs(root: Path, than: Collection[Path]) -> Iterator[Run]:
    """The newest of the other runs under a folder, oldest first; one that cannot be read is left out."""
    known = {folder.resolve() for folder in than}
    others = [folder for folder in run_folders(root) if folder.resolve() not in known]
    for folder in others[-MOST_OTHERS:]:
        with suppress(NanodynoError):
            yield read_run(folder)


def _start(folder: Path) -> tuple[float, int, str]:
    """Starts are recorded to the second; the folder's last change tells runs of the same second apart."""
    try:
        started = read_any_record(folder).started_at.timestamp()
    except NanodynoError:
        started = math.inf
    return started, folder.stat().st_ctime_ns, folder.name


def _read_lines(path: Path, kind: TypeAdapter[Line], up_to_damage: bool) -> Iterator[Line]:
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield kind.validate_json(line)
            except ValidationError as error:
                if up_to_damage:
                    return
                raise NanodynoError(
                    f"{path}, line {number}, is damaged: {_first_line(error)}", "restore it from a copy"
                ) from error


def _thrifty(records: Iterator[Step]) -> Iterator[Step]:
    """A run may have a million: which fields a line had takes more room than they do, and is mostly alike."""
    shared: set[str] = set()
    for record in records:
        if record.model_fields_set == shared:
            object.__setattr__(record, "__pydantic_fields_set__", shared)
        else:
            shared = record.model_fields_set
        yield record


def _own(record: AnyRecord, folder: Path) -> RunRecord:
    if isinstance(record, ImportedRecord):
        raise NanodynoError(
            f"{folder} was imported from a log and cannot be resumed",
            "`nanodyno train` starts a new run",
        )
    return record


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
