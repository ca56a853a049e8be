"""`--key=value` and `--key value` as nanoGPT's users type them."""

from collections.abc import Sequence
from typing import Literal, get_origin, get_type_hints

from nanodyno.config import RunConfig, nearest_setting, present_name
from nanodyno.errors import NanodynoError, did_you_mean
from nanodyno.recipes.arithmetic import ConfigValue, Unreadable, parse_value

TOML_WORDS: dict[str, ConfigValue] = {"true": True, "false": False}


def parse_overrides(args: Sequence[str]) -> dict[str, object]:
    """The settings of a command line by their present names; a later one wins. `build_config` judges them."""
    overrides: dict[str, object] = {}
    words = list(reversed(args))
    while words:
        word = words.pop()
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise _stray(word)
        key = present_name(name.replace("-", "_"))
        if equals:
            overrides[key] = _value(key, text)
        elif _is_denied_switch(key):
            overrides[present_name(key.removeprefix("no_"))] = False
        elif words and not words[-1].startswith("--"):
            overrides[key] = _value(key, words.pop())
        else:
            overrides[key] = _bare(key)
    return overrides


def parse_set(words: Sequence[str]) -> dict[str, ConfigValue]:
    """The settings of --set key=value; those of another program pass, misspelt ones of ours do not."""
    for word in words:
        key, equals, _ = word.partition("=")
        if not equals or not key.isidentifier():
            raise NanodynoError(f"--set {word}: not a setting", "write it as --set n_layer=12")
        if present_name(key) not in RunConfig.model_fields and (near := nearest_setting(key)):
            raise NanodynoError(
                f"--set {word}: unknown setting{did_you_mean([near])}",
                "`nanodyno train --keys` lists every setting",
            )
    found = parse_overrides([f"--{word}" for word in words])
    return {key: value for key, value in found.items() if isinstance(value, ConfigValue)}


def former_names(args: Sequence[str]) -> tuple[str, ...]:
    """The settings of a command line that are there by a former name."""
    typed = (word.removeprefix("--").partition("=")[0] for word in args if word.startswith("--"))
    names = (name.replace("-", "_").removeprefix("no_") for name in typed)
    return tuple(name for name in names if present_name(name) != name)


def _stray(word: str) -> NanodynoError:
    example = f"--{word.lstrip('-')}" if "=" in word else "--batch_size=8"
    return NanodynoError(f"{word}: not a setting", f"settings are written --key=value, such as {example}")


def _is_denied_switch(key: str) -> bool:
    info = RunConfig.model_fields.get(present_name(key.removeprefix("no_")))
    return key.startswith("no_") and info is not None and info.annotation is bool


def _bare(key: str) -> bool:
    """A switch without a value is on; so is an unknown key, which is told later among all faults."""
    info = RunConfig.model_fields.get(key)
    if info is not None and info.annotation is not bool:
        raise NanodynoError(f"{key}: a value is missing", f"write --{key}=value")
    return True


def _value(key: str, text: str) -> ConfigValue:
    """A Python value or simple arithmetic where the text spells one, else the text itself.

    For a key that takes text only quotes and None are read, so that a folder may be named 2024-10-11.
    """
    try:
        value = TOML_WORDS[text] if text in TOML_WORDS else parse_value(text)
    except Unreadable:
        return text
    return text if _takes_text(key) and not isinstance(value, str | None) else value


def _takes_text(key: str) -> bool:
    kind = get_type_hints(RunConfig).get(key)
    return kind in (str, str | None) or get_origin(kind) is Literal
