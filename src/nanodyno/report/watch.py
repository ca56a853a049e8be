"""The table of all runs, kept up to date until Ctrl-C."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from nanodyno.records.types import utc_now
from nanodyno.report.listing import Listed, Listing, RunRow
from nanodyno.report.runs import runs_table

TERMINAL_SECONDS = 2.0
ELSEWHERE_SECONDS = 10.0
REST = 9.0
"""Rests this many times as long as it read: never more than a tenth of a core that the training may need."""
MOST_SKIPPED = 3
NO_RUNS = "no runs yet: `nanodyno demo` makes two in a few minutes"

Wait = Callable[[float], None]


def keep_showing(listing: Listing, console: Console, wait: Wait = time.sleep) -> None:
    """A screen of its own on a terminal, whose last state stays when it ends; else the table when it changed.

    Ends with Ctrl-C, or when nobody reads any more.
    """
    if console.is_terminal and not console.is_dumb_terminal:
        _on_screen(listing, console, wait)
    else:
        _in_lines(listing, console, wait)


def listed_table(listed: Listed, width: int) -> RenderableType:
    return runs_table(listed.rows, width) if listed.rows else Text(NO_RUNS)


def _on_screen(listing: Listing, console: Console, wait: Wait) -> None:
    listed: Listed | None = None
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as live,
    ):
        while True:
            began = time.perf_counter()
            listed = listing.read()
            live.update(_screen(listed, console), refresh=True)
            wait(_rest(began, TERMINAL_SECONDS))
    if listed is not None:
        console.print(listed_table(listed, console.width))


def _in_lines(listing: Listing, console: Console, wait: Wait) -> None:
    shown = None
    with suppress(KeyboardInterrupt):
        while not console.quiet:  # as it is once its reader has gone
            began = time.perf_counter()
            listed = listing.read()
            if listed != shown:
                console.print(Group(Text(_now()), listed_table(listed, console.width), *_skipped(listed)))
                shown = listed
            wait(_rest(began, ELSEWHERE_SECONDS))


def _rest(began: float, least: float) -> float:
    return max(least, REST * (time.perf_counter() - began))


def _screen(listed: Listed, console: Console) -> Group:
    below = [
        *_skipped(listed)[:MOST_SKIPPED],
        _line(f"{_now()}; Ctrl-C closes this table and leaves the runs running"),
    ]
    rows, left_out = _newest(listed.rows, console.height - len(below) - 2)
    if left_out:
        below.insert(0, _line(f"and {left_out} older"))
    return Group(listed_table(Listed(rows, ()), console.width), *below)


def _skipped(listed: Listed) -> list[Text]:
    return [_line(f"skipped: {message}") for message in listed.unreadable]


def _line(words: str) -> Text:
    return Text(words, style="dim", no_wrap=True, overflow="ellipsis")


def _newest(rows: Sequence[RunRow], room: int) -> tuple[tuple[RunRow, ...], int]:
    """As many as there is room for: those that run, then the newest; and how many are left out."""
    left_out = max(0, len(rows) - max(1, room))
    idle = [number for number, (_, summary) in enumerate(rows) if summary.state.kind != "running"]
    dropped = set(idle[:left_out])
    return tuple(row for number, row in enumerate(rows) if number not in dropped), len(dropped)


def _now() -> str:
    return f"{utc_now():%Y-%m-%d %H:%M:%S} UTC"
