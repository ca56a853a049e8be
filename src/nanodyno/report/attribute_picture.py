"""A waterfall: before, what each change adds or takes, after."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.shapley import last_corner
from nanodyno.report.attribute_words import change_words, value_words

FULL, RISE, FALL = "█", "▓", "░"
LABEL_WIDTH = 22
FIGURE_WIDTH = 16
MOST_WIDTH = 110
LEAST_ROOM = 16
ZOOM = 0.25
"""Where all changes together are a smaller share of the totals, the picture begins near them."""


@dataclass(frozen=True)
class Bar:
    """From one level to the next; a total begins at none."""

    label: str
    begin: float | None
    end: float
    change: float | None = None


def waterfall_bars(found: Attribution) -> list[Bar]:
    """Plain data: each part from where the one before it ended, so that the last ends at after."""
    effects = found.look.effects
    means, last = effects.means, last_corner(len(effects.parts))
    level = means[0]
    bars = [Bar(found.names[0], None, found.natural(level))]
    parts = [(factor.name, part) for factor, part in zip(found.design.factors, effects.parts, strict=True)]
    if effects.left_over is not None:
        parts.append(("three or more together", effects.left_over))
    for name, part in parts:
        size = part.interval.estimate
        bars.append(Bar(name, found.natural(level), found.natural(level + size), found.change(size)))
        level += size
    return [*bars, Bar(found.names[1], None, found.natural(means[last]))]


def waterfall(found: Attribution, width: int) -> Text:
    bars = waterfall_bars(found)
    room = max(LEAST_ROOM, min(width, MOST_WIDTH) - LABEL_WIDTH - FIGURE_WIDTH - 2)
    low, high = _range(bars)
    text = Text()
    for bar in bars:
        begin, end = sorted((low if bar.begin is None else bar.begin, bar.end))
        first, after = (round(room * (each - low) / (high - low)) for each in (begin, end))
        after = max(after, first + 1) if bar.begin is not None else after
        text.append(_cut(bar.label).ljust(LABEL_WIDTH), style="bold" if bar.begin is None else "")
        text.append(" " * first)
        text.append(_fill(bar) * (after - first), style=_style(bar, found))
        text.append(" " * max(0, room - after + 1))
        text.append(_figure(bar, found).rjust(FIGURE_WIDTH) + "\n")
    if low:
        text.append(f"{'':{LABEL_WIDTH}}from {value_words(low, found.metric)}\n", style="dim")
    text.rstrip()
    return text


def _range(bars: Sequence[Bar]) -> tuple[float, float]:
    ends = [bar.end for bar in bars]
    low, high = min(ends), max(ends)
    if high - low >= ZOOM * high:
        return 0.0, high
    reach = max(high - low, 0.01 * high)
    return low - reach, high + 0.1 * reach


def _fill(bar: Bar) -> str:
    if bar.begin is None:
        return FULL
    return RISE if bar.end >= bar.begin else FALL


def _style(bar: Bar, found: Attribution) -> str:
    """Green is better: a rate that rises, a loss that falls."""
    if bar.begin is None:
        return "cyan"
    return "green" if (bar.end >= bar.begin) == found.on_logs else "red"


def _figure(bar: Bar, found: Attribution) -> str:
    if bar.change is None:
        return value_words(bar.end, found.metric)
    return change_words(bar.change, found.metric)


def _cut(label: str) -> str:
    return label if len(label) < LABEL_WIDTH else f"{label[: LABEL_WIDTH - 2]}…"
