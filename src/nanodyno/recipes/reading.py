"""Settings from where a user keeps them: a recipe, a TOML file, a nanoGPT config file."""

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from nanodyno.config import ConfigError, RunConfig, is_ignored, present_name
from nanodyno.errors import NanodynoError, did_you_mean, nearest_names
from nanodyno.recipes.nanogpt import read_nanogpt
from nanodyno.recipes.settings import AUTO_BATCH_SIZE, HOURS, Settings, hours_of

MOST_RUNS_NAMED = 12
BY_SIZE = {
    41: "gpt2-384",
    124: "gpt2-768",
    354: "gpt2-768 --n_layer=24 --n_embd=1024",
    773: "gpt2-768 --n_layer=36 --n_embd=1280",
    1557: "gpt2-768 --n_layer=48 --n_embd=1600",
}
"""By millions of parameters: GPT-2's sizes, and the smaller recipe."""
SIZE_WORDS = {"gpt2": 124, "gpt": 124, "2": 124, "small": 124, "medium": 354, "large": 773, "xl": 1557}
"""The last word of a name that has no number of parameters."""
NEAR_SIZE = 1.2


def recipe_names() -> tuple[str, ...]:
    """The recipes that come with nanodyno, in alphabetical order."""
    found = (Path(entry.name) for entry in files("nanodyno.recipes").iterdir())
    return tuple(sorted(path.stem for path in found if path.suffix == ".toml"))


def load_settings(source: str, lenient: bool = False) -> Settings:
    """Return the settings of a recipe (by its name), a .toml file, or a nanoGPT .py, which is never run.

    If `lenient`, what a .py sets in a way that only Python could work out is left out, and is no error.
    """
    path = Path(source)
    if path.suffix == ".toml":
        return _read_toml(path.stem, _read_text(path), source)
    if path.suffix == ".py":
        return read_nanogpt(path.stem, _read_text(path), source, lenient)
    if source in recipe_names():
        text = files("nanodyno.recipes").joinpath(f"{source}.toml").read_text(encoding="utf-8")
        return _read_toml(source, text, source)
    raise no_such(source)


def no_such(source: str, runs: Sequence[str] | None = None) -> NanodynoError:
    """What a name may be: a recipe or a file, and a run too for a command that knows `runs`, oldest first."""
    known = "" if not runs else f"; runs: {', '.join(runs[-MOST_RUNS_NAMED:])}"
    there = f"recipes: {', '.join(recipe_names())}{known}; or give a .toml file or a nanoGPT .py file"
    if Path(source).exists():
        run = "" if runs is None else "a run folder, "
        return NanodynoError(f"{source}: neither {run}a recipe nor a .toml or .py file", there)
    if hours := re.fullmatch(r"best-(\d+)h?", source):
        there = f"for {hours[1]} hours: best-8h --hours={hours[1]}; {there}"
    question = did_you_mean(_meant(source, (*recipe_names(), *(runs or ()))))
    wanted = "no such recipe" if runs is None else "no such recipe, file or run"
    return NanodynoError(f"{source}: {wanted}{question}", there)


def _meant(source: str, known: Sequence[str]) -> list[str]:
    """A name that is nearly the same; else the recipe of the size that was typed; else the nearest name."""
    found = re.search(r"(\d+(?:\.\d+)?)([mb])$", source.lower())
    word = re.split(r"[-_ ]", source.lower())[-1]
    millions = SIZE_WORDS.get(word) if found is None else float(found[1]) * (1000 if found[2] == "b" else 1)
    by_size = [
        recipe for size, recipe in BY_SIZE.items() if millions and 1 / NEAR_SIZE < size / millions < NEAR_SIZE
    ]
    return nearest_names(source, known, cutoff=0.75) or by_size or nearest_names(source, known, cutoff=0.4)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        recipes = ", ".join(recipe_names())
        raise NanodynoError(f"{path}: no such file", f"a recipe needs no file: {recipes}") from None
    except OSError as error:
        raise NanodynoError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NanodynoError(f"{path}: not a UTF-8 text file") from None


def _read_toml(name: str, text: str, where: str) -> Settings:
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "write one setting per line, such as n_layer = 12; text needs quotes"
        raise NanodynoError(f"{where}: not valid TOML: {error}", hint) from None
    tables = [key for key, value in values.items() if _is_table(value)]
    if tables:
        raise ConfigError(
            (f"{key}: is a table in {where}, but settings are flat" for key in tables),
            "put every setting at the top, with no [table] line and no dot in its name",
        )
    if "fitted" in values:  # its name before it was renamed
        values[AUTO_BATCH_SIZE] = values.pop("fitted")
    hours, auto_batch_size = values.get(HOURS), values.get(AUTO_BATCH_SIZE, False)
    if not isinstance(auto_batch_size, bool):
        raise ConfigError([f"{AUTO_BATCH_SIZE}: must be true or false, not {auto_batch_size!r}"])
    kept = {
        key: value
        for key, value in values.items()
        if not is_ignored(key) and key not in (HOURS, AUTO_BATCH_SIZE)
    }
    return Settings(
        name,
        RunConfig.renamed(kept),
        tuple(filter(is_ignored, values)),
        hours=None if hours is None else hours_of(hours),
        auto_batch_size=auto_batch_size,
        renamed=tuple(key for key in kept if present_name(key) != key),
    )


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))
