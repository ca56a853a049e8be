"""What a command works on: a recipe, a TOML file, a nanoGPT config or a run, with settings typed after it, a
GPU and data. Every command resolves its input here, once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.attribution import AssumedSetting
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.known_speeds import Measurements
from nanodyno.analysis.machine_state import machine_state
from nanodyno.analysis.metrics import gpu_of
from nanodyno.analysis.sizing import SizeChoice, choose_size, fitted_batch
from nanodyno.config import (
    COUNTED_IN_MICRO_BATCHES,
    PLACES,
    SETTINGS,
    SIZE_KEYS,
    RunConfig,
    build_config,
    derived_value,
    keys_led_by,
    tenth,
)
from nanodyno.costs.target import Target, named_target, present_target
from nanodyno.data.resolve import Vocabulary, vocabulary_of
from nanodyno.errors import NanodynoError
from nanodyno.hardware.gpus import Gpu
from nanodyno.hardware.host import available_memory
from nanodyno.recipes import (
    Settings,
    at_any_rate,
    load_settings,
    override,
    parse_overrides,
    recipe_names,
    wants_found_rate,
)
from nanodyno.recipes.reading import no_such
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import (
    Run,
    find_run,
    known_run,
    read_any_record,
    read_run,
    read_run_record,
    read_telemetry,
    run_folders,
)
from nanodyno.records.types import RunRecord, TelemetryRecord


@dataclass(frozen=True)
class Request:
    """A resolved input. What follows from it is worked out when it is first asked for, and then kept."""

    source: str
    """As it was typed, as are the arguments."""
    own: Settings
    """Of the source alone."""
    given: Settings
    """With the settings that were typed."""
    origin: Literal["recipe", "file", "run", "log"] = "recipe"
    """A log is a run of another program: what is not among its settings is not known to have its default."""
    arguments: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    """Keys among the arguments."""
    device_name: str | None = None
    """That a log was made on."""
    gpu: str | None = None
    memory_limit_bytes: int | None = None
    power_limit_watts: float | None = None
    measured: Measurements | None = None
    """Of GPUs, in files that were named."""
    power_drawn: tuple[Gpu, float] | None = None
    """Of a run of our own: the GPU that it trained on, and the median watts by its telemetry."""

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def is_run(self) -> bool:
        return self.origin in ("run", "log")

    @property
    def is_log(self) -> bool:
        return self.origin == "log"

    @cached_property
    def target(self) -> Target:
        """The GPU that was named, or the one that training would take, with what was measured of it."""
        target = target_of(self._of_data.device, self.gpu, self.memory_limit_bytes)
        target = replace(target, power_limit_watts=self.power_limit_watts or target.power_limit_watts)
        if self.power_drawn is not None and self.power_drawn[0] == target.gpu:
            target = replace(target, drawn_watts=self.power_drawn[1])
        return target if self.measured is None else self.measured.applied_to(target)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self._of_data)

    @cached_property
    def _of_data(self) -> RunConfig:
        values = self.given.values
        keys = (*keys_led_by("dataset"), "device")
        return build_config({key: values[key] for key in keys if key in values})

    @cached_property
    def choice(self) -> SizeChoice | None:
        """What was chosen for the GPU, where the source is for so many hours."""
        if self.given.hours is None:
            return None
        return choose_size(self.given, self.target, self.vocabulary.model, self.vocabulary.data)

    @cached_property
    def settings(self) -> Settings:
        """All settings, with those that the source leaves to the GPU. A micro-batch stays as it is where the
        speed of none is known, and a learning rate that is still to be found is left so."""
        given = self.given
        if self.choice is not None:
            return _completed(given, {**self.choice.chosen.settings, **given.values})
        if not given.auto_batch_size:
            return given
        target, vocabulary = self.target, self.vocabulary
        if target.gpu is None and target.ceilings is None:
            return _completed(given, given.values)
        size = fitted_batch(given, target, vocabulary.model, vocabulary.data)
        return _completed(given, {**given.values, "batch_size": size})

    @cached_property
    def config(self) -> RunConfig:
        """The validated config, where a learning rate that is to be found has its default. Refuses a log that
        does not say what makes the model and its batch."""
        needed = (*SIZE_KEYS, "batch_size", "tokens_per_iter")  # or it would be another model or batch
        lacking = [key for key in needed if key not in self.own.values and key not in self.given.values]
        if lacking and self.is_log:
            raise NanodynoError(
                f"the log of {self.name} does not report {', '.join(lacking)}",
                f"add {' '.join(f'--{key}=...' for key in lacking)}",
            )
        return build_config(at_any_rate(self.settings).values)

    def changed(self, changes: Mapping[str, object]) -> "Request":
        """Return the request with these settings on top of all that was chosen."""
        return replace(self, given=override(self.settings, changes))

    def at_any_rate(self) -> "Request":
        """Return the request for what finds no learning rate: it is what the source would have."""
        return replace(self, given=at_any_rate(self.given))


def resolve(
    source: str,
    arguments: Sequence[str],
    runs_folder: Path,
    *,
    takes_runs: bool = True,
    gpu: str | None = None,
    memory_limit_bytes: int | None = None,
) -> Request:
    """Return what a command was asked for: a source, and words as --key=value. A recipe comes before a run of
    its name, which has a path too."""
    request = _read(source, runs_folder, takes_runs)
    changes = parse_overrides(arguments)
    return replace(
        request,
        given=override(request.own, changes),
        arguments=tuple(arguments),
        typed=tuple(changes),
        gpu=gpu,
        memory_limit_bytes=memory_limit_bytes,
    )


def resolve_with_own(typed: str, arguments: Sequence[str], runs_folder: Path) -> Request:
    """Return the request of a source that may have settings of its own after commas, which come last."""
    source, *own = typed.split(",")
    return resolve(source, [*arguments, *(f"--{each}" for each in own)], runs_folder)


def resolve_resumed(run: str, source: str | None, arguments: Sequence[str], runs_folder: Path) -> Request:
    """Return a run with the settings that it began with, and what is changed; typer takes a first --key=value
    for a recipe."""
    if source is not None and source.startswith("-"):
        source, arguments = None, [source, *arguments]
    folder = find_run(run, runs_folder)
    file = None if source is None else load_settings(source)
    if file is not None and file.hours is not None:
        raise NanodynoError(
            f"{source} would make another run, and --resume keeps the settings", f"leave {source} out"
        )
    values = read_run_record(folder).config.model_dump() if file is None else file.values
    changes = parse_overrides(arguments)
    if refused := PLACES & changes.keys() - {"device"}:
        raise NanodynoError(f"--resume and --{min(refused)} both say where the run is", "use one of the two")
    if wants_found_rate(override(Settings(folder.name, values), changes)):
        raise NanodynoError(
            "learning_rate=auto finds the rate before a run starts, and this run has started", "give a number"
        )
    # These follow from what stays: with another micro-batch the effective batch is the same.
    stale = {"eval_only", *COUNTED_IN_MICRO_BATCHES} if file is None else set[str]()
    if file is None and "learning_rate" in changes and values["min_lr"] == tenth(values["learning_rate"]):
        stale.add("min_lr")
    derived = file is None and values["lr_decay_iters"] == values["max_iters"]
    own = Settings(
        folder.name,
        {key: value for key, value in values.items() if key not in stale},
        assumed=frozenset({"lr_decay_iters"} if derived else ()),
    )
    given = override(own, {**changes, "init_from": "resume", "out_dir": str(folder)})
    return Request(run, own, given, "run", tuple(arguments), tuple(changes))


def _read(source: str, runs_folder: Path, takes_runs: bool) -> Request:
    file = Path(source).suffix in (".toml", ".py")
    if file or source in recipe_names():
        settings = load_settings(source)
        return Request(source, settings, settings, "file" if file else "recipe")
    folder = known_run(source, runs_folder)
    if folder is None:
        runs = [each.name for each in run_folders(runs_folder)] if takes_runs else None
        raise no_such(source, runs)
    if not takes_runs:  # resuming a run and beginning another like it are two things
        raise NanodynoError(
            f"{source} is a run, and train takes a recipe or a file",
            f"`nanodyno train --resume {source}` resumes it; to start another like it, give its recipe",
        )
    record = read_any_record(folder)
    if isinstance(record, ImportedRecord):
        return replace(_of_log(read_run(folder), record), source=source)
    own = _of_own_run(source, record.name, record.config)
    return replace(own, power_drawn=_power_drawn(record, read_telemetry(folder)))


def request_of_run(run: Run) -> Request:
    """Return what `resolve` makes of the name of this run."""
    record = run.record
    if isinstance(record, ImportedRecord):
        return _of_log(run, record)
    own = _of_own_run(run.name, run.name, record.config)
    return replace(own, power_drawn=_power_drawn(record, run.telemetry))


def _power_drawn(record: RunRecord, telemetry: Sequence[TelemetryRecord]) -> tuple[Gpu, float] | None:
    gpu = gpu_of(record.machine)
    state = machine_state(telemetry, on_gpu=gpu is not None)
    watts = None if state is None else state.power_watts
    return None if gpu is None or watts is None else (gpu, watts)


def _of_own_run(source: str, name: str, config: RunConfig) -> Request:
    settings = Settings(name, _fewest(config))
    return Request(source, settings, settings, "run")


def _of_log(run: Run, record: ImportedRecord) -> Request:
    """What is a setting of ours and says how it trained, not where."""
    account = with_found_shape(account_of(run))
    places = {"eval_iters", "parallel", *PLACES}
    values: dict[str, Any] = {
        key: value
        for key, value in account.settings.items()
        if key in RunConfig.model_fields and key not in places and value is not None
    }
    if account.shape is not None:
        values = account.shape.model_dump(include=set(SIZE_KEYS)) | values
    if account.tokens_per_iter is not None:
        values["tokens_per_iter"] = account.tokens_per_iter
        values.pop("gradient_accumulation_steps", None)
    settings = Settings(run.name, values)
    return Request(run.name, settings, settings, "log", device_name=record.device_name)


def _fewest(config: RunConfig) -> dict[str, object]:
    """The settings that make this config: what follows from others is left out, to follow them if they are
    changed."""
    left_out = {"eval_only", *COUNTED_IN_MICRO_BATCHES, *PLACES}
    return {
        key: value
        for key, value in config
        if key not in left_out
        and value != RunConfig.model_fields[key].default
        and not (len(SETTINGS[key].derived_from) == 1 and value == derived_value(config, key))
    }


def _completed(settings: Settings, values: Mapping[str, object]) -> Settings:
    """The settings when nothing is left to a GPU any more."""
    chosen = tuple(key for key in values if key not in settings.values)
    if settings.auto_batch_size:
        chosen = (*chosen, "batch_size")
    return replace(settings, values=dict(values), hours=None, auto_batch_size=False, chosen=chosen)


def target_of(device: str, gpu: str | None, limit_bytes: int | None) -> Target:
    """The GPU of this name; else the one that training would take, with what doctor measured of it."""
    if gpu is not None:
        return named_target(gpu, limit_bytes)

    import torch

    from nanodyno.records.ceilings import recall_ceilings
    from nanodyno.train.device import describe_machine

    if device in ("cpu", "mps") or not torch.cuda.is_available():
        return Target(None, None, limit_bytes, limited=limit_bytes is not None)
    cuda: Any = torch.cuda  # which has no types for properties
    found = [cuda.get_device_properties(number) for number in range(cuda.device_count())]
    _, _, number = device.partition(":")
    if number and int(number) >= len(found):
        raise NanodynoError(f"device={device}, but this machine has {len(found)} GPUs, from cuda:0 on")
    if not number and len({(each.name, each.total_memory) for each in found}) > 1:
        listed = ", ".join(f"cuda:{place} {each.name}" for place, each in enumerate(found))
        raise NanodynoError(
            f"this machine has different GPUs: {listed}", "choose one by --device=cuda:N or --gpu NAME"
        )
    place = int(number) if number else 0
    device_at, ceilings = found[place], recall_ceilings(describe_machine(torch.device("cuda", place)))
    target = present_target(device_at.name, device_at.total_memory, limit_bytes, available_memory())
    return replace(target, ceilings=ceilings, power_limit_watts=_power_limit(device_at.name))


def _power_limit(name: str) -> float | None:
    """Return the power limit that the driver enforces on the GPUs of this name; None where they differ."""
    from nanodyno.hardware.inventory import take_inventory

    limits = {each.power_limit_watts for each in take_inventory().gpus if each.name == name}
    return limits.pop() if len(limits) == 1 else None


@dataclass(frozen=True)
class Pair:
    """Two configs to hold against each other."""

    before: RunConfig
    after: RunConfig
    names: tuple[str, str]
    elsewhere: tuple[tuple[str, str | None], ...] = ()
    """Runs that were made on another device than this one's, and which, where their logs name it."""
    unreported: tuple[AssumedSetting, ...] = ()
    """What was taken to be the same, because one of the two does not say it."""
    logs_only: bool = False


def resolve_pair(before: str, after: str, arguments: Sequence[str], runs_folder: Path) -> Pair:
    """Return the two configs. --key=value goes for both, and what a side has after commas for it alone."""
    found: list[tuple[Request, str]] = []
    for typed in (before, after):
        if typed.startswith("-"):
            raise NanodynoError(
                f"two configs must come before {typed}", "for example: nanodyno attribute gpt2-384 gpt2-768"
            )
        request = resolve_with_own(typed, arguments, runs_folder)
        if wants_found_rate(request.given):
            raise NanodynoError(
                f"{typed}: only `nanodyno train` can find learning_rate=auto",
                "give a number",
            )
        found.append((request, ",".join((request.name, *typed.split(",")[1:]))))
    (one, first), (other, second) = found
    return _paired(one, other, (first, second))


def pair_of_runs(before: Run, after: Run) -> Pair:
    """Return what `resolve_pair` makes of the names of these runs."""
    return _paired(request_of_run(before), request_of_run(after), (before.name, after.name))


def _paired(one: Request, other: Request, names: tuple[str, str]) -> Pair:
    """What a log does not say is as in the other, and as usual where neither says it."""
    first, second = names
    configs: list[RunConfig] = []
    unreported: list[AssumedSetting] = []
    for request, beside, name, its_name in ((one, other, first, second), (other, one, second, first)):
        values = request.settings.values
        lent = {
            key: value
            for key, value in beside.settings.values.items()
            if request.is_log and key not in values and key != "n_head"
        }
        configs.append(build_config({**lent, **values}))
        unreported += [AssumedSetting(name, tuple(lent), its_name)] if lent else []
    return Pair(
        before=configs[0],
        after=configs[1],
        names=names if first != second else (first, f"{second} (2)"),
        elsewhere=tuple(
            (name, each.device_name) for name, each in ((first, one), (second, other)) if each.is_log
        ),
        unreported=tuple(unreported),
        logs_only=one.is_log and other.is_log,
    )
