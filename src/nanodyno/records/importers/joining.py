"""Files of another program to one run: in which order they belong, and what came of them."""

import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nanodyno.errors import NanodynoError
from nanodyno.hardware.gpus import gpu_named
from nanodyno.recipes import at_any_rate, load_settings
from nanodyno.records.files import write_new
from nanodyno.records.imported import ImportedRecord, OriginRecord, Setting, SourceRecord
from nanodyno.records.importers.building import FEWEST_TURNS, TURNS_OF_LINES, Builder
from nanodyno.records.importers.events import LogEvent, LoggedEval, LoggedStep, Note, Reported, Start
from nanodyno.records.importers.formats import LogFormat, not_known, recognise
from nanodyno.records.importers.reported import command_line, flat_yaml, reported
from nanodyno.records.importers.results import read_result, record_of, write_records
from nanodyno.records.importers.source import LogSource, WatchBytes, clean
from nanodyno.records.result import is_result
from nanodyno.records.store import RUN_FILE, read_any_record
from nanodyno.records.types import utc_now

CONFIG = "config"
YAML_SUFFIXES = (".yaml", ".yml")
CONFIG_SUFFIXES = (".py", ".toml", *YAML_SUFFIXES)
LARGEST_COMMAND = 1 << 20
"""Bytes of a file that may hold a command line and no log."""
ASIDE = ".importing-"
NEVER_BEGAN = "a process that was started behind the last iteration made none: its settings are left out"


@dataclass(frozen=True)
class ImportRequest:
    files: tuple[Path, ...]
    folder: Path
    command: tuple[str, ...] = ()
    config: str | None = None
    """A recipe or a file, as for train: what it leaves out stays unknown."""
    gpu: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """Which the user knows better than the log."""
    replace: bool = False
    """Whether an imported run of that name may go; one that was trained here never does."""


@dataclass(frozen=True)
class Imported:
    record: ImportedRecord
    folder: Path
    dropped_iterations: int
    """Logged before a restart went back, and again after it."""
    example: str | None
    """The first line that nothing was made of."""


def import_run(request: ImportRequest, watch: WatchBytes = lambda _: None) -> Imported:
    """Reads the files into a run folder, which appears when it is whole."""
    _refuse_existing(request)
    if any(map(is_result, request.files)):
        return _import_result(request)
    gpu = gpu_named(request.gpu) if request.gpu else None
    settings, sources, logs = _settings(request, watch)
    paths, kind = _in_order(logs, request.files)
    with _written_aside(request.folder) as aside:
        builder = Builder(aside, request.settings, kind.clock_holds_evaluations, kind.batch_is_of_all)
        sources += _read(builder, settings, paths, kind, watch)
        _refuse_nothing(builder, paths, kind)
        if gpu is not None:
            builder.device_name = gpu.name
        record = _record(request, builder, kind, sources, gpu.memory_bytes if gpu else None)
        write_new(aside / RUN_FILE, record.model_dump_json(indent=2) + "\n")
    examples = (source.example for source in sources if source.example is not None)
    return Imported(record, request.folder, builder.dropped, next(examples, None))


def _import_result(request: ImportRequest) -> Imported:
    path, *others = request.files
    if others:
        raise NanodynoError(
            "a result of nanodyno is a whole run and cannot be joined with other files", "import it alone"
        )
    gpu = gpu_named(request.gpu) if request.gpu else None
    result, source = read_result(path)
    config = {each.key: each.value for each in _config(request.config)} if request.config else {}
    settings = {**config, **result.settings, **request.settings}
    record = record_of(result, source, request.folder.name, request.command, settings)
    if gpu is not None:
        known = {"device_name": gpu.name, "device_memory_bytes": gpu.memory_bytes, "machine": None}
        record = record.model_copy(update=known)
    with _written_aside(request.folder) as aside:
        write_records(result, aside)
        write_new(aside / RUN_FILE, record.model_dump_json(indent=2) + "\n")
    return Imported(record, request.folder, dropped_iterations=0, example=None)


@contextmanager
def _written_aside(folder: Path) -> Generator[Path]:
    """A folder that takes its place when it is whole."""
    aside = folder.with_name(f"{ASIDE}{folder.name}")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # left by a kill
        aside.mkdir(parents=True)
        yield aside
        _put_in_place(aside, folder)
    except OSError as error:
        raise NanodynoError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _settings(
    request: ImportRequest, watch: WatchBytes
) -> tuple[list[LogEvent], list[LogSource], list[tuple[Path, LogFormat]]]:
    """What configs and command lines set, the files they stand in, and the other files, which are logs."""
    settings: list[LogEvent] = list(_config(request.config)) if request.config else []
    sources: list[LogSource] = []
    logs: list[tuple[Path, LogFormat]] = []
    for path in request.files:
        kind = None if path.suffix in CONFIG_SUFFIXES else recognise(path)
        if kind is not None:
            logs.append((path, kind))
        else:
            sources.append(LogSource(path, watch))
            settings += _settings_alone(sources[-1])
    return settings, sources, logs


def _read(
    builder: Builder, settings: list[LogEvent], paths: list[Path], kind: LogFormat, watch: WatchBytes
) -> list[LogSource]:
    sources = [LogSource(path, watch, is_log=True) for path in paths]
    try:
        for event in settings:
            builder.take(event)
        builder.begin_logs()
        for source in sources:
            events = kind.read(source)
            for event in _with_iterations(events) if kind.settings_come_first else events:
                builder.take(event)
        builder.finish()
    finally:
        builder.close()
    return sources


def _with_iterations(events: Iterator[LogEvent]) -> Iterator[LogEvent]:
    """Without the settings behind the last iteration: a process that never came to one printed them."""
    held: list[LogEvent] = []
    """From the first setting on."""
    begun = False
    for event in events:
        if isinstance(event, LoggedStep):
            begun = True
            yield from held
            held.clear()
            yield event
        elif isinstance(event, Note) or (isinstance(event, LoggedEval) and not held):
            yield event
        else:
            held.append(event)
    if begun and any(isinstance(each, Start) for each in held):
        yield Note(NEVER_BEGAN)
    yield from (each for each in held if isinstance(each, LoggedEval) or not begun)


def _refuse_existing(request: ImportRequest) -> None:
    folder = request.folder
    if not folder.exists():
        return
    try:
        imported = isinstance(read_any_record(folder), ImportedRecord)
    except NanodynoError:
        imported = False
    if not imported:
        raise NanodynoError(f"{folder} exists already and was not imported", "choose another --name")
    if not request.replace:
        raise NanodynoError(
            f"{folder} is already imported", "add --replace to import it again, or choose another --name"
        )


def _config(source: str) -> Iterator[Reported]:
    """What it sets itself, without the defaults that train would put beneath; auto is no learning rate."""
    if source.endswith(YAML_SUFFIXES):
        yield from flat_yaml(Path(source))
        return
    settings = at_any_rate(load_settings(source, lenient=True))
    if settings.hours is not None:
        raise NanodynoError(f"{source} is not a complete config: it depends on the GPU")
    for key, value in settings.values.items():
        if key not in settings.assumed and isinstance(value, bool | int | float | str | None):
            setting = reported(key, value)
            if setting is not None:
                yield setting


def _settings_alone(source: LogSource) -> list[LogEvent]:
    """A config, or text with the command that started the training."""
    if source.path.suffix in CONFIG_SUFFIXES:
        for _ in source.chunks():
            pass  # for its sum
        return list(_config(str(source.path)))
    if source.path.stat().st_size > LARGEST_COMMAND:
        raise not_known(source.path)
    events = [event for line in source.lines() for event in command_line(line)]
    if not events:
        raise not_known(source.path)
    return events


def _in_order(logs: list[tuple[Path, LogFormat]], files: tuple[Path, ...]) -> tuple[list[Path], LogFormat]:
    """Parts of one log by where they begin, whatever the order they were given in."""
    kinds = {kind.kind: kind for _, kind in logs}
    if not kinds:
        names = ", ".join(clean(path.name) for path in files)
        raise NanodynoError(f"no log among {names}, only settings", "also give the log of the training")
    if len(kinds) > 1:
        listed = ", ".join(f"{clean(path.name)} ({kind.program})" for path, kind in logs)
        raise NanodynoError(
            f"these are logs of different programs: {listed}", "give one log, or the parts of one log"
        )
    (kind,) = kinds.values()
    paths = [path for path, _ in logs]
    return paths if len(paths) == 1 else sorted(paths, key=lambda path: _first_iteration(path, kind)), kind


def _first_iteration(path: Path, kind: LogFormat) -> int:
    events = (event for event in kind.read(LogSource(path)) if isinstance(event, LoggedStep | LoggedEval))
    first = next(events, None)
    return -1 if first is None else first.iteration


def _refuse_nothing(builder: Builder, paths: list[Path], kind: LogFormat) -> None:
    if not builder.steps.count and not builder.evals.count:
        names = ", ".join(clean(path.name) for path in paths)
        raise NanodynoError(
            f"{names} looks like {kind.program}'s, but has no complete line of an iteration or evaluation",
            f"looked for {kind.looked_for}",
        )
    if builder.turns > max(FEWEST_TURNS, TURNS_OF_LINES * builder.lines):
        raise NanodynoError(
            f"the log mixes the output of several processes or runs: its iteration numbers go back "
            f"{builder.turns:,} times in {builder.lines:,} lines",
            "import the lines of one of them, such as those of `grep '\\[rank0\\]' LOG`",
        )


def _record(
    request: ImportRequest,
    builder: Builder,
    kind: LogFormat,
    sources: list[LogSource],
    memory_bytes: int | None,
) -> ImportedRecord:
    own = {"tokens_per_iter"}  # has a field of its own
    if builder.bits_per_byte:
        last, bits = max(builder.bits_per_byte.items())
        builder.note(
            f"its validation is in bits per byte, not in nats per token: {bits:g} after {last:,} iterations"
        )
    return ImportedRecord(
        name=clean(request.folder.name),
        started_at=utc_now(),
        command=tuple(clean(word) for word in request.command),
        notes=builder.notes,
        resumed_at_iterations=tuple(builder.resumed),
        origin=OriginRecord(
            program=kind.program,
            files=tuple(_source(source, kind) for source in sources),
            iterations=builder.steps.count,
            evaluations=builder.evals.count,
            timed_iterations=builder.timed,
            restarts=builder.restarts,
            trainings=builder.trainings,
        ),
        settings={key: value for key, value in builder.settings.items() if key not in own},
        tokens_per_iter=builder.tokens_per_iter,
        parameters=builder.parameters,
        device_name=builder.device_name,
        device_memory_bytes=memory_bytes,
        processes=builder.processes,
        val_bits_per_byte=tuple(builder.bits_per_byte.items()),
    )


def _source(source: LogSource, kind: LogFormat) -> SourceRecord:
    return SourceRecord(
        name=source.name,
        kind=kind.kind if source.is_log else CONFIG,
        size_bytes=source.size_bytes,
        sha256=source.sha256,
        unread_lines=source.unread_lines,
    )


def _put_in_place(aside: Path, folder: Path) -> None:
    """The new run takes the old one's place only when it is whole."""
    old = folder.with_name(f"{ASIDE}old-{folder.name}")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    aside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
