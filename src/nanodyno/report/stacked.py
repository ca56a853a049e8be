"""Memory over micro-batch as stacked bars of letters, one for each component, with the card's line."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.costs.memory import Memory
from nanodyno.costs.plan import Candidate
from nanodyno.report import quantities

PARTS = (
    ("weights", "w", "cyan", "weights"),
    ("grads", "g", "blue", "grads"),
    ("optimiser", "o", "magenta", "optimiser"),
    ("casts", "c", "white", "casts"),
    ("activations", "a", "green", "activations"),
    ("logits_and_loss", "l", "yellow", "logits and loss"),
    ("largest_temporary", "t", "red", "largest temporary"),
    ("context", "x", "bright_black", "context"),
    ("fragmentation", "f", "bright_blue", "fragmentation"),
)
LABEL_WIDTH = 5
AMOUNT_WIDTH = 11
MOST_WIDTH = 120
BEYOND = 1.25
"""How much further than the card's line the bars are drawn, in shares of it."""
LEGEND_COLUMNS = 3
LINE = "│"


def memory_bars(
    candidates: Sequence[Candidate], asked: int, limit_bytes: int | None, width: int
) -> RenderableType:
    """A bar a micro-batch; one that ends in » goes on beyond the picture."""
    room = max(20, min(width, MOST_WIDTH) - LABEL_WIDTH - AMOUNT_WIDTH)
    largest = max(each.memory.total for each in candidates)
    end = largest if limit_bytes is None else min(largest, round(limit_bytes * BEYOND))
    end = max(end, limit_bytes or 0)
    line = None if limit_bytes is None else min(room - 1, round(room * limit_bytes / end))
    rows = [_row(each, asked, end, room, line) for each in candidates]
    title = "memory over micro-batch"
    if limit_bytes is not None:
        title += f"; {LINE} is the card's {quantities.gib(limit_bytes)}"
    return Group(Text(title, style="bold"), *rows, _legend())


def _row(each: Candidate, asked: int, end: int, room: int, line: int | None) -> Text:
    size = each.setup.batch_size
    row = Text(f"{size:>{LABEL_WIDTH - 1}} ", style="bold" if size == asked else "")
    cells = _cells(each.memory, end, room)
    beyond = each.memory.total > end
    for column in range(room):
        letter, colour = cells[column] if column < len(cells) else (" ", "")
        if column == line and letter == " ":
            row.append(LINE, style="bold")
        elif column == line:
            row.append(LINE, style=f"bold black on {colour}")
        elif beyond and column == room - 1:
            row.append("»")
        else:
            row.append(letter, style=f"black on {colour}" if colour else "")
    row.append(f"{quantities.gib(each.memory.total):>{AMOUNT_WIDTH}}")
    return row


def _cells(memory: Memory, end: int, room: int) -> list[tuple[str, str]]:
    """Rounded at each boundary, so that the whole bar is as long as its total."""
    cells: list[tuple[str, str]] = []
    reached = 0
    for key, letter, colour, _ in PARTS:
        reached += memory.components[key]
        cells += [(letter, colour)] * (min(room, round(room * reached / end)) - len(cells))
    return cells


def _legend() -> Table:
    legend = Table.grid(padding=(0, 2))
    legend.add_column(width=LABEL_WIDTH - 2)
    entries = [
        Text.assemble((letter, f"black on {colour}"), f" {words}") for _, letter, colour, words in PARTS
    ]
    for first in range(0, len(entries), LEGEND_COLUMNS):
        legend.add_row("", *entries[first : first + LEGEND_COLUMNS])
    return legend
