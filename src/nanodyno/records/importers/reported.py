"""Settings as people leave them in logs: a config's text, `key = value`, a command line. Nothing is run."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from nanodyno.config import RunConfig, is_ignored, present_name
from nanodyno.errors import NanodynoError
from nanodyno.recipes import parse_overrides
from nanodyno.recipes.arithmetic import ConfigValue, Unreadable, evaluate
from nanodyno.records.importers.events import LogEvent, LoggedProcesses, Note, Reported
from nanodyno.records.importers.source import clean, unreadable

ASSIGNMENT = re.compile(r"(?:[^#=]*?[\s>\]`])??([A-Za-z_]\w{0,63})\s*(?::\s*\w+\s*)?=(?!=)\s*(.+?)[\s`]*")
COMMAND = re.compile(rb"(?:python[\d.]*|torchrun)\b(.{0,400}?)\b[\w./-]{0,200}train\w{0,40}\.py\b(.{0,2000})")
PROCESSES = re.compile(rb"--nproc[_-]per[_-]node[= ](\d{1,4})\b")
COMMENT = re.compile(rb"(?:^|[\s>`])#")
"""A root's prompt has its # behind a name, as in `box:~# python`."""
SHELL = re.compile(r"[|&;<>]|\d>|\s#")
"""Where a command ends and the shell's own words begin."""


YAML_LINE = re.compile(r"""([A-Za-z_]\w{0,63}): +["']?([^"'#\[{&*!|>]{1,200}?)["']?\s*(?: #.*)?""")
LARGEST_YAML = 1 << 20


class ConfigText:
    """Reads a config's lines one by one; a value that only Python could make is left out."""

    def __init__(self) -> None:
        self._names: dict[str, ConfigValue] = {}

    def read(self, line: bytes) -> Reported | None:
        found = ASSIGNMENT.fullmatch(line.decode(errors="replace").strip())
        if found is None:
            return None
        name, text = found.groups()
        try:
            value = evaluate(ast.parse(text.strip(), mode="eval").body, self._names)
        except (Unreadable, SyntaxError, ValueError, MemoryError, RecursionError):
            self._names.pop(name, None)
            return None
        self._names[name] = value
        return reported(name, value)


def overriding(key: str, text: str) -> Reported | None:
    """nanoGPT's `Overriding: key = value`, whose text has no quotes."""
    try:
        values = parse_overrides([f"--{key}={text}"])
    except NanodynoError:
        return None
    value = values.get(present_name(key))
    return reported(key, value) if isinstance(value, bool | int | float | str | None) else None


def flat_yaml(path: Path) -> Iterator[Reported]:
    """Yield the settings of a hparams.yaml: `key: value` lines at its top level, with our names, or lr."""
    try:
        text = path.read_bytes()[:LARGEST_YAML].decode(errors="replace")
    except OSError as error:
        raise unreadable(path, error) from None
    for line in text.splitlines():
        found = YAML_LINE.fullmatch(line)
        key = "learning_rate" if found and found[1] == "lr" else found[1] if found else ""
        if found and present_name(key) in RunConfig.model_fields and (setting := overriding(key, found[2])):
            yield setting


def reported(key: str, value: ConfigValue) -> Reported | None:
    """None for settings that have no part in a run."""
    if is_ignored(key):
        return None
    return Reported(present_name(key), clean(value) if isinstance(value, str) else value)


def command_line(line: bytes) -> Iterator[LogEvent]:
    """Yield the settings of `python train.py config/x.py --batch_size=8`; a command in a comment is none."""
    found = COMMAND.search(line)
    if found is None or COMMENT.search(line, 0, found.start()):
        return
    if processes := PROCESSES.search(found[1]):
        yield LoggedProcesses(int(processes[1]))
    for word in _words(found[2].decode(errors="replace")):
        key, equals, text = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals and key.isidentifier():
            setting = overriding(key, text)
            if setting is not None:
                yield setting
        elif word.endswith((".py", ".toml")):
            yield Note(f"the command names a config, {clean(word)}: give it too, if you have it")


def _words(text: str) -> list[str]:
    end = SHELL.search(text)
    text = text[: end.start()] if end else text
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
