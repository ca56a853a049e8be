"""Records on disk: `runs/NAME/` with run.json, steps.jsonl and evals.jsonl.

run.json is replaced whole (written aside, then renamed). The two .jsonl files are append-only, one record a
line; a kill can only cut the last line, and readers drop a last line that has no newline.
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from pydantic import ValidationError

from nanodyno.errors import NanodynoError
from nanodyno.records.types import FORMAT, FORMAT_VERSION, EvalRecord, Record, RunRecord, StepRecord

RUN_FILE = "run.json"
RUN_FILE_ASIDE = RUN_FILE + ".new"
"""All that a run killed in its first moment leaves behind."""
STEPS_FILE = "steps.jsonl"
EVALS_FILE = "evals.jsonl"
CHECKPOINTS_FOLDER = "checkpoints"

AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Run:
    """One run as read from disk."""

    folder: Path
    record: RunRecord
    steps: tuple[StepRecord, ...]
    evals: tuple[EvalRecord, ...]

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def iterations_done(self) -> int:
        return self.steps[-1].iteration + 1 if self.steps else 0

    @property
    def finished(self) -> bool:
        """True when the last iteration and the evaluation after it are both on disk."""
        wanted = 0 if self.record.config.eval_only else self.record.config.max_iters
        return bool(self.evals) and self.evals[-1].iteration >= wanted


class RunWriter:
    """Appends records to one run folder; every record is handed to the operating system at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for file in (STEPS_FILE, EVALS_FILE):
            _drop_cut_line(folder / file)
        self._steps = (folder / STEPS_FILE).open("a", encoding="utf-8")
        self._evals = (folder / EVALS_FILE).open("a", encoding="utf-8")

    @classmethod
    def create(cls, folder: Path, record: RunRecord) -> Self:
        """Claims a folder for a new run; refuses one that holds anything already."""
        refuse_foreign_folder(folder)
        try:
            # Of two processes that start under one new name at once, one makes the folder.
            folder.mkdir(parents=True, exist_ok=folder.exists())
            _write_run(folder, record)
        except FileExistsError:
            raise _belongs_to_another(folder) from None
        except OSError as error:
            raise NanodynoError(
                f"cannot write the run folder {folder}: {error.strerror}", "choose another with --out_dir"
            ) from error
        return cls(folder)

    @classmethod
    def resume(cls, folder: Path, record: RunRecord, iteration: int) -> Self:
        """Reopens a run at an iteration; records of later work, which will be done again, are dropped."""
        steps = [step for step in read_steps(folder) if step.iteration < iteration]
        evals = [entry for entry in read_evals(folder) if entry.iteration <= iteration]
        write_whole(folder / STEPS_FILE, "".join(step.model_dump_json() + "\n" for step in steps))
        write_whole(folder / EVALS_FILE, "".join(entry.model_dump_json() + "\n" for entry in evals))
        _write_run(folder, record)
        return cls(folder)

    def replace_run(self, record: RunRecord) -> None:
        _write_run(self.folder, record)

    def abandon(self) -> None:
        """Takes back a run that ended before its first record, so that its name is free again."""
        self.close()
        for name in (RUN_FILE, STEPS_FILE, EVALS_FILE):
            (self.folder / name).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def append(self, record: StepRecord | EvalRecord) -> None:
        file = self._steps if isinstance(record, StepRecord) else self._evals
        _append_line(file, record)

    def close(self) -> None:
        self._steps.close()
        self._evals.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refuse_foreign_folder(folder: Path) -> None:
    """A new run starts in an empty or absent folder, so that nobody's files are written over."""
    elsewhere = "choose another --name or --out_dir"
    try:
        if not folder.exists():
            return
        if (folder / RUN_FILE).exists():
            raise _belongs_to_another(folder)
        if not folder.is_dir():
            raise NanodynoError(f"{folder} is a file, and a run is a folder", elsewhere)
        if any(path.name != RUN_FILE_ASIDE for path in folder.iterdir()):
            raise NanodynoError(f"{folder} is not empty and holds no run of nanodyno", elsewhere)
    except OSError as error:
        raise NanodynoError(f"cannot use {folder}: {error.strerror}", elsewhere) from error


def _belongs_to_another(folder: Path) -> NanodynoError:
    return NanodynoError(
        f"{folder} belongs to another run",
        "go on with that run with --init_from=resume, or choose another --name or --out_dir",
    )


def _write_run(folder: Path, record: RunRecord) -> None:
    write_whole(folder / RUN_FILE, record.model_dump_json(indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes aside, flushes to disk and renames: a reader sees the old file or the new one, never half."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def read_run_record(folder: Path) -> RunRecord:
    path = folder / RUN_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NanodynoError(
            f"{folder} is no run: it has no {RUN_FILE}", "`nanodyno runs` lists them"
        ) from None
    except OSError as error:
        raise NanodynoError(f"cannot read {path}: {error.strerror}") from error
    try:
        raw = json.loads(content)
        if isinstance(raw, dict) and raw.get("format") != FORMAT:
            raise NanodynoError(f"{path} is no run of nanodyno", "some other program wrote it")
        version = raw.get("version") if isinstance(raw, dict) else None
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise NanodynoError(f"{path} was written by a newer nanodyno", "upgrade nanodyno to read it")
        return RunRecord.model_validate(raw)
    except ValueError as error:  # not UTF-8, not JSON or not a run
        raise NanodynoError(f"{path} is damaged: {_first_line(error)}", "restore it from a copy") from error


def read_steps(folder: Path) -> list[StepRecord]:
    return list(_read_lines(folder / STEPS_FILE, StepRecord))


def read_evals(folder: Path) -> list[EvalRecord]:
    return list(_read_lines(folder / EVALS_FILE, EvalRecord))


def read_run(folder: Path) -> Run:
    return Run(folder, read_run_record(folder), tuple(read_steps(folder)), tuple(read_evals(folder)))


def find_run(name: str, root: Path) -> Path:
    """A name under the runs folder, or a path."""
    for folder in (root / name, Path(name)):
        if os.path.exists(folder / RUN_FILE):  # noqa: PTH110 - unlike Path's, false for an impossible name
            return folder
    known = [folder.name for folder in run_folders(root)]
    hint = (
        f"there are: {', '.join(known[-12:])}"
        if known
        else "start one with `nanodyno train` or `nanodyno demo`"
    )
    raise NanodynoError(f"there is no run {name!r} under {root} and no run folder at that path", hint)


def run_folders(root: Path) -> list[Path]:
    """Every run under a folder by its start, oldest first; one with a damaged run.json comes last."""
    if not root.is_dir():
        return []
    return sorted((path.parent for path in root.glob(f"*/{RUN_FILE}")), key=_start)


def _start(folder: Path) -> tuple[float, int, str]:
    """Starts are recorded to the second; the folder's last change tells runs of the same second apart."""
    try:
        started = read_run_record(folder).started_at.timestamp()
    except NanodynoError:
        started = math.inf
    return started, folder.stat().st_ctime_ns, folder.name


def _append_line(file: IO[str], record: Record) -> None:
    file.write(record.model_dump_json() + "\n")
    file.flush()


def _read_lines(path: Path, kind: type[AnyRecord]) -> Iterator[AnyRecord]:
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            yield kind.model_validate_json(line)
        except ValidationError as error:
            raise NanodynoError(
                f"{path}, line {number}, is damaged: {_first_line(error)}", "restore it from a copy"
            ) from error


def _drop_cut_line(path: Path) -> None:
    if not path.exists():
        return
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        with path.open("r+b") as file:
            file.truncate(end)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
