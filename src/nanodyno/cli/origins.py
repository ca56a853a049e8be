"""What a command is given to go by: a recipe, a file, or a run that was made, here or by another program."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nanodyno.cli.options import RUNS_FOLDER
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.config import RunConfig
    from nanodyno.recipes import Settings
    from nanodyno.records.store import Run
    from nanodyno.records.types import RunRecord
    from nanodyno.report.language import Language


@dataclass(frozen=True)
class Origin:
    settings: "Settings"
    is_run: bool = False
    known: bool = True
    """Whether what is not among the settings has its default; of a log it is not known."""
    device: str | None = None
    """Of a log."""


def origin_of(source: str) -> Origin:
    """A recipe comes before a run of its name, which has a path too."""
    from nanodyno.recipes import load_settings, recipe_names
    from nanodyno.recipes.reading import no_such
    from nanodyno.records.store import known_run, read_any_record, read_run, run_folders
    from nanodyno.records.types import RunRecord

    if source in recipe_names() or Path(source).suffix in (".toml", ".py"):
        return Origin(load_settings(source))
    folder = known_run(source, RUNS_FOLDER)
    if folder is None:
        raise no_such(source, [each.name for each in run_folders(RUNS_FOLDER)])
    record = read_any_record(folder)
    return _of_own(record) if isinstance(record, RunRecord) else origin_of_run(read_run(folder))


def _of_own(record: "RunRecord") -> Origin:
    from nanodyno.recipes import Settings

    return Origin(Settings(record.name, _fewest(record.config)), is_run=True)


def origin_of_run(run: "Run") -> Origin:
    from nanodyno.analysis.account import account_of
    from nanodyno.analysis.audit import with_found_shape
    from nanodyno.config import SIZE_KEYS
    from nanodyno.recipes import Settings
    from nanodyno.records.imported import ImportedRecord

    record = run.record
    if not isinstance(record, ImportedRecord):
        return _of_own(record)
    account = with_found_shape(account_of(run))
    values = _ours(account.settings)
    if account.shape is not None:
        values = account.shape.model_dump(include=set(SIZE_KEYS)) | values
    if account.tokens_per_iter is not None:
        values["tokens_per_iter"] = account.tokens_per_iter
        values.pop("gradient_accumulation_steps", None)
    return Origin(Settings(run.name, values), is_run=True, known=False, device=record.device_name)


def whole_origin(source: str, changes: Mapping[str, object], language: "Language") -> Origin:
    """One that makes a config; what is taken for granted of a log is told."""
    origin = origin_of(source)
    refuse_incomplete(origin, changes)
    if note := untold_note(origin, language):
        typer.echo(note, err=True)
    return origin


def refuse_incomplete(origin: Origin, changes: Mapping[str, object]) -> None:
    """Of a log, what makes the model and its batch has to be told, by it or by the command."""
    from nanodyno.config import SIZE_KEYS

    needed = (*SIZE_KEYS, "batch_size", "tokens_per_iter")  # or it would be another model, or another batch
    lacking = [key for key in needed if key not in origin.settings.values and key not in changes]
    if lacking and not origin.known:
        raise NanodynoError(
            f"the log of {origin.settings.name} does not tell {', '.join(lacking)}",
            f"say it: {' '.join(f'--{key}=...' for key in lacking)}",
        )


def refuse_run(source: str) -> None:
    """By `train`: going on with a run and beginning another like it are two things."""
    from nanodyno.recipes import recipe_names
    from nanodyno.records.store import known_run

    if source not in recipe_names() and known_run(source, RUNS_FOLDER) is not None:
        raise NanodynoError(
            f"{source} is a run, and train takes a recipe or a file",
            f"nanodyno train --resume {source} goes on with it; for another like it, give its recipe",
        )


def untold_note(origin: Origin, language: "Language") -> str | None:
    if origin.known:
        return None
    return language.say(
        "what the log of {run} does not tell is as nanodyno has it by default", run=origin.settings.name
    )


def _fewest(config: "RunConfig") -> dict[str, object]:
    """The settings that make this config: what follows from others is left out, to follow them if they are
    changed."""
    from nanodyno.config import COUNTED_IN_MICRO_BATCHES, PLACES, SETTINGS, RunConfig, derived_value

    left_out = {"eval_only", *COUNTED_IN_MICRO_BATCHES, *PLACES}
    return {
        key: value
        for key, value in config
        if key not in left_out
        and value != RunConfig.model_fields[key].default
        and not (len(SETTINGS[key].derived_from) == 1 and value == derived_value(config, key))
    }


def _ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a log, what is a setting of ours and says how it trained, not where."""
    from nanodyno.config import PLACES, RunConfig

    places = {"eval_iters", "parallel", *PLACES}
    return {
        key: value
        for key, value in settings.items()
        if key in RunConfig.model_fields and key not in places and value is not None
    }
