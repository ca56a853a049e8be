"""What was tuned, for `nanodyno train`: as a file or as a command."""

import shlex
from collections.abc import Iterable, Mapping
from json import dumps as json_text
from pathlib import Path
from typing import TYPE_CHECKING

from nanodyno.cli.reporting import refuse_unwritable
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.analysis.tuning import Tuning
    from nanodyno.inputs import Request
    from nanodyno.recipes import Settings


def how_to_train(
    request: "Request", after: "Request", options: Mapping[str, str | None], write: Path | None
) -> str:
    """The command that trains what was tuned; `options` are what makes it this search and no other.

    A run is no config to train: of one, the same search, which is remembered, writes a file.
    """
    if write is not None:
        return f"nanodyno train {write}"
    if not request.is_run:
        given = (*request.typed, *request.settings.chosen)
        return train_command(request.source, given, request.settings, after.settings)
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    again = ["nanodyno", "tune", request.source, *request.arguments, *words, "--write", "tuned.toml"]
    return f"{shlex.join(again)} && nanodyno train tuned.toml"


def train_command(source: str, given: Iterable[str], before: "Settings", after: "Settings") -> str:
    """With the keys that were given, as far as they still hold, and all that has to be different."""
    changed = [key for key, value in after.values.items() if before.values.get(key) != value]
    kept = [key for key in given if key in after.values and key not in changed]
    words = (f"--{key}={after.values[key]}" for key in (*kept, *changed))
    return shlex.join(["nanodyno", "train", source, *words])


def write_tuned(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "what was measured is kept: the same command with another --write measures nothing again"
        raise NanodynoError(f"{path} cannot be written: {error.strerror}", hint) from None


def toml_text(settings: "Settings", tuning: "Tuning", name: str) -> str:
    """The tuned settings as a file: nothing of the machine but as a comment."""
    from nanodyno.analysis.tuning import rows_of
    from nanodyno.report.tune import title_words, verdict_lines

    reported = [title_words(tuning, name), *(line for line, _ in verdict_lines(tuning, rows_of(tuning)))]
    comments = [f"# {line.strip()}" for line in ("Tuned by nanodyno.", *reported)]
    lines = [f"{key} = {_toml(value)}" for key, value in settings.values.items() if value is not None]
    return "\n".join([*comments, "", *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json_text(value, ensure_ascii=False)  # whose strings are TOML's too
    return repr(value)


def refuse_unwritable_toml(path: Path) -> None:
    """Now, and not after minutes of measuring."""
    if path.suffix != ".toml":
        raise NanodynoError(f"--write {path}: not a .toml file", "name it tuned.toml, so that train takes it")
    refuse_unwritable(path, "--write")
