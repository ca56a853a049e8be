"""Memory over micro-batch as stacked bars of letters, one for each component, with the GPU's line."""

import math
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.costs.memory import Memory
from nanodyno.costs.plan import MicroBatchPlan
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language

PARTS = (
    ("weights", "w", "cyan", "common.memory-part.weights"),
    ("grads", "g", "blue", "common.memory-part.gradients"),
    ("optimizer", "o", "magenta", "common.optimizer"),
    ("casts", "c", "white", "common.memory-part.casts"),
    ("activations", "a", "green", "common.memory-part.activations"),
    ("logits_and_loss", "l", "yellow", "common.memory-part.logits-and-loss"),
    ("largest_temporary", "t", "red", "plan.memory-part.largest-temporary"),
    ("context", "x", "bright_black", "common.memory-part.cuda-context"),
    ("fragmentation", "f", "bright_blue", "common.memory-part.fragmentation"),
)
SMALL = ("+", "bright_white", "plan.bars.small-parts")
"""Those that are less than a cell."""
LABEL_WIDTH = 5
AMOUNT_WIDTH = 11
MOST_WIDTH = 120
BEYOND = 1.25
"""How much further than the GPU's line the bars are drawn, in shares of it."""
LEGEND_COLUMNS = 3
LINE = "│"
BEYOND_MARK = ("»", "")


def memory_bars(
    candidates: Sequence[MicroBatchPlan],
    asked: int,
    limit_bytes: int | None,
    width: int,
    language: Language = ENGLISH,
) -> RenderableType:
    """A bar a micro-batch; one that ends in » goes on beyond the picture."""
    labels = _aligned((f"{each.setup.batch_size} " for each in candidates), LABEL_WIDTH)
    amounts = _aligned(
        (f"  {quantities.gib(each.memory.total, language)}" for each in candidates), AMOUNT_WIDTH
    )
    room = max(20, min(width, MOST_WIDTH) - len(labels[0]) - len(amounts[0]))
    largest = max(each.memory.total for each in candidates)
    end = largest if limit_bytes is None else min(largest, round(limit_bytes * BEYOND))
    end = max(end, limit_bytes or 0)
    line = None if limit_bytes is None else min(room - 1, round(room * limit_bytes / end))
    bars = [_cells(each.memory, end, room) for each in candidates]
    rows = [
        Text.assemble(
            (label, "bold" if each.setup.batch_size == asked else ""), _bar(cells, room, line), amount
        )
        for each, label, cells, amount in zip(candidates, labels, bars, amounts, strict=True)
    ]
    title = language.say("plan.bars.title")
    if limit_bytes is not None:
        limit = quantities.gib(limit_bytes, language)
        title = language.say("plan.bars.title-with-limit", line=LINE, limit=limit)
    has_small = any(SMALL[:2] in bar for bar in bars)
    return Group(Text(title, style="bold"), *rows, _legend(has_small, language))


def _aligned(words: Iterable[str], least: int) -> list[str]:
    every = list(words)
    width = max(least, *map(len, every))
    return [each.rjust(width) for each in every]


def _bar(cells: Sequence[tuple[str, str]], room: int, line: int | None) -> Text:
    bar = Text()
    for column in range(room):
        letter, colour = cells[column] if column < len(cells) else (" ", "")
        if column == line and letter == " ":
            bar.append(LINE, style="bold")
        elif column == line:
            bar.append(LINE, style=f"bold black on {colour}")
        else:
            bar.append(letter, style=f"black on {colour}" if colour else "")
    return bar


def _cells(memory: Memory, end: int, room: int) -> list[tuple[str, str]]:
    """Rounded at each boundary, so that the whole bar is as long as its total.

    A part of at least a cell has one that way. Smaller ones stand together at the end: they have a cell at
    least, if need be one of the largest part's.
    """
    sizes = {key: room * memory.components[key] / end for key, _, _, _ in PARTS}
    counts: dict[str, int] = {}
    reached = 0.0
    for key, size in sizes.items():
        if size >= 1:
            counts[key] = _boundary(reached + size, room) - _boundary(reached, room)
            reached += size
    small = _boundary(room * memory.total / end, room) - sum(counts.values())
    if small < 1 and any(0 < size < 1 for size in sizes.values()):
        small = 1
        if counts:
            counts[max(counts, key=lambda key: counts[key])] -= 1
    cells = [(letter, colour) for key, letter, colour, _ in PARTS for _ in range(counts.get(key, 0))]
    cells += [SMALL[:2]] * small
    return [*cells[: room - 1], BEYOND_MARK] if memory.total > end else cells


def _boundary(value: float, room: int) -> int:
    """Halves up: round() takes them to the even number, and a part between two of them would have no cell."""
    return min(room, math.floor(value + 0.5))


def _legend(has_small: bool, language: Language) -> Table:
    legend = Table.grid(padding=(0, 2))
    legend.add_column(width=LABEL_WIDTH - 2)
    shown = [each[1:] for each in PARTS] + ([SMALL] if has_small else [])
    entries = [
        Text.assemble((letter, f"black on {colour}"), f" {language.say(words)}")
        for letter, colour, words in shown
    ]
    for first in range(0, len(entries), LEGEND_COLUMNS):
        legend.add_row("", *entries[first : first + LEGEND_COLUMNS])
    return legend
