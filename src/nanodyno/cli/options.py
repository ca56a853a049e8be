"""Options and helpers that several commands share."""

import os
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType

    from nanodyno.inputs import Request
    from nanodyno.messages.language import Language

RUNS_FOLDER = Path("runs")
INTERRUPTED = 130
"""The exit code after Ctrl-C."""

MOST_TOKENS = 10**18
"""More than anybody has."""
_SIZES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_BYTES = {"G": 2**30, "M": 2**20}
_BLANKS_AT_THE_END = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Json = Annotated[
    bool, typer.Option("--json", help="Write one JSON document to stdout, and everything else to stderr.")
]
Everything = Annotated[bool, typer.Option("--all", help="Print all details, not only the summary.")]
Lang = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="LANGUAGE",
        help="Output language: en, ar, fr, hi, ja or zh-Hant (default: from LC_ALL, LC_MESSAGES or LANG, "
        "else English).",
    ),
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A name under runs/, or the path of a run folder.")
]

OLD_OPTIONS: dict[str, dict[str, str]] = {
    "attribute": {"--metric flops_per_second": "--metric achieved_flops_per_second"},
    "plan": {"--cards": "--gpus"},
    "tune": {"--effective-batch": "--critical-batch-size"},
}
"""By command: options that were renamed, and values as `--option value`, with what each is called now."""


def renamed_options(arguments: "Sequence[str]", old: "Mapping[str, str]") -> "Iterator[str]":
    """Return the arguments under today's names, with a note on stderr for each that was renamed."""
    before = ""
    for number, argument in enumerate(arguments):
        if argument == "--":
            yield from arguments[number:]
            return
        option, equals, value = argument.partition("=")
        if argument in old:
            _note_renamed(argument, old[argument])
            argument = old[argument]
        elif equals and option in old:
            _note_renamed(option, old[option])
            argument = f"{old[option]}={value}"
        elif (pair := f"{option} {value}" if equals else f"{before} {argument}") in old:
            _note_renamed(pair, old[pair])
            now = old[pair].rpartition(" ")[2]
            argument = f"{option}={now}" if equals else now
        before = argument
        yield argument


def _note_renamed(old: str, new: str) -> None:
    typer.echo(f"note: {old} is now {new}", err=True)


def note_former_names(arguments: "Sequence[str]", renamed: "Sequence[str]" = ()) -> None:
    """Say on stderr which settings have another name now: those typed, and those of a file."""
    from nanodyno.recipes import former_names
    from nanodyno.report.idle import renamed_notes

    for note in renamed_notes((*renamed, *former_names(arguments))):
        typer.echo(note, err=True)


def console_for(json: bool) -> "Console":
    """Where people read: stdout, or stderr when stdout carries a document.

    When its reader goes away (`| head`, a `tee` that died), it falls silent and the work goes on.
    """
    from rich.console import Console

    class LastingConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())

    return LastingConsole(stderr=json)


def print_page(page: "RenderableType", console: "Console", language: "Language") -> None:
    """Tables are filled up with blanks, which would make a line of a wide script longer than the window."""
    from nanodyno.messages.language import ENGLISH

    if language is ENGLISH:
        console.print(page)
        return
    with console.capture() as captured:
        console.print(page)
    console.file.write(_BLANKS_AT_THE_END.sub(r"\1", captured.get()))


def language_of(wanted: str | None, json: bool = False) -> "Language":
    """The reader's; English where the terminal has no letters for it. One that we lack is reported.

    A document is for programs: its words are English whatever the locale.
    """
    from nanodyno.messages.language import ENGLISH, language_for, not_quite

    if json:
        return ENGLISH
    language, reported = language_for(wanted, os.environ), not_quite(wanted, os.environ)
    if language is not ENGLISH and not _can_be_written(language):
        language, reported = (
            ENGLISH,
            f"{sys.stdout.encoding} has no letters for {language.code}: shown in English",
        )
    if reported is not None:
        typer.echo(reported, err=True)
    return language


def assumed_note(request: "Request", language: "Language") -> tuple[str, ...]:
    """What is taken for granted of a log."""
    if not request.is_log:
        return ()
    return (language.say("option.log.defaults-assumed", run=request.name),)


def _can_be_written(language: "Language") -> bool:
    try:
        language.say("common.tokens-per-second").encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def seconds_of(text: str) -> float | None:
    """15m, 90s, 1.5h or 2d in seconds; None for off."""
    if text == "off":
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", text)
    if found is None or float(found[1]) == 0:
        raise NanodynoError(f"{text!r} is not a duration", "write 90s, 15m, 1.5h or off")
    return float(found[1]) * _UNITS[found[2]]


def time_of(text: str) -> float:
    """Unix time of an hour of the day, the next one to come, or of a date and hour; both in local time."""
    now = datetime.now().astimezone()
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", text):
            hour, minute = map(int, text.split(":"))
            wanted = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (wanted if wanted > now else wanted + timedelta(days=1)).timestamp()
        wanted = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise NanodynoError(f"{text!r} is not a time", "write 07:30 or 2026-11-16T07:30") from None
    if wanted <= now:
        raise NanodynoError(f"{text} is in the past", f"it is now {now:%Y-%m-%dT%H:%M}")
    return wanted.timestamp()


def count_of(text: str, option: str) -> int:
    """10B, 2.5M, 100k, 1e9 or 1_000_000 as a number."""
    found = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s?([kmbt]|e\+?\d{1,2}|)", text.strip().lower())
    number = round(float(found[1].replace("_", "")) * _size(found[2])) if found else 0
    if not 1 <= number < MOST_TOKENS:
        raise NanodynoError(
            f"{option}={text} is not a number of tokens", "for example 10B, 300M, 1e9 or 100000"
        )
    return number


def _size(suffix: str) -> float:
    return float(f"1{suffix}") if suffix.startswith("e") else _SIZES[suffix]


def bytes_of(text: str, option: str) -> int:
    """Return a limit of GPU memory in bytes.

    8GB is what a GPU sold as 8 GB shows to a program, and 8GiB is 8 GiB. MB are MiB, as in nvidia-smi.
    """
    from nanodyno.costs.target import shown_bytes

    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([GM]?)(i?)B?", text.strip(), re.IGNORECASE)
    size = 0
    if found is not None:
        unit = (found[2] or "G").upper()
        size = int(float(found[1]) * _BYTES[unit])
        size = shown_bytes(size) if unit == "G" and not found[3] else size
    if size == 0:
        raise NanodynoError(f"{option}={text} is not a size", "for example 12GB, 11.2GiB or 12000MB")
    return size


def watts_of(text: str, option: str) -> float:
    """Return a limit of power: 150 or 150W."""
    found = re.fullmatch(r"(\d{1,5}(?:\.\d{1,3})?)\s*W?", text.strip(), re.IGNORECASE)
    watts = 0.0 if found is None else float(found[1])
    if watts == 0:
        raise NanodynoError(f"{option}={text} is not a power", "for example 150 or 150W")
    return watts
