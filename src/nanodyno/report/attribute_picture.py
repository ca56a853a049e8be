"""A waterfall: before, what each change adds or takes, after."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.shapley import last_combination
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import change_words, value_words
from nanodyno.report.figures import Axis, Total, Waterfall, WaterfallChange

FULL, RISE, FALL = "█", "▓", "░"
LABEL_WIDTH = 22
FIGURE_WIDTH = 16
MOST_WIDTH = 110
LEAST_ROOM = 16
ZOOM = 0.25
"""Where all changes together are a smaller share of the totals, the picture begins near them."""

PICTURED = {
    "tokens_per_second": "attribute.picture.title-throughput",
    "achieved_flops_per_second": "attribute.picture.title-work-rate",
    "val_loss": "attribute.picture.title-val-loss",
}


@dataclass(frozen=True)
class EffectBar:
    """From one level to the next; a total begins at none."""

    label: str
    begin: float | None
    end: float
    change: float | None = None
    bounds: tuple[float, float] | None = None
    """Where its interval would have it end."""


def waterfall_bars(found: Attribution, language: Language = ENGLISH) -> list[EffectBar]:
    """Plain data: each part from where the one before it ended, so that the last ends at after."""
    effects = found.look.effects
    means, last = effects.means, last_combination(len(effects.parts))
    level = means[0]
    bars = [EffectBar(found.names[0], None, found.natural(level))]
    parts = [(factor.name, part) for factor, part in zip(found.design.factors, effects.parts, strict=True)]
    if effects.left_over is not None:
        parts.append((language.say("attribute.picture.higher-orders"), effects.left_over))
    for name, part in parts:
        size = part.interval.value
        low, high = part.interval.low, part.interval.high
        bounds = None
        if low is not None and high is not None:
            bounds = found.natural(level + low), found.natural(level + high)
        ends = found.natural(level), found.natural(level + size)
        bars.append(EffectBar(name, *ends, found.change(size), bounds))
        level += size
    return [*bars, EffectBar(found.names[1], None, found.natural(means[last]))]


def waterfall_figure(found: Attribution, language: Language) -> Waterfall:
    before, *parts, after = waterfall_bars(found, language)
    changes: list[WaterfallChange] = []
    for bar in parts:
        assert bar.begin is not None
        low, high = (None, None) if bar.bounds is None else (each - bar.begin for each in bar.bounds)
        changes.append(
            WaterfallChange(bar.label, bar.end - bar.begin, _figure(bar, found, language), low, high)
        )
    text = "attribute.picture.note-rate"
    if not found.on_logs:
        text = "attribute.picture.note-loss"
    return Waterfall(
        language.say(PICTURED[found.metric]),
        language.say(text),
        Axis("", lambda value: value_words(value, found.metric, language)),
        _total(before, found, language),
        tuple(changes),
        _total(after, found, language),
        more_is_better=found.on_logs,
    )


def _total(bar: EffectBar, found: Attribution, language: Language) -> Total:
    return Total(bar.label, bar.end, _figure(bar, found, language))


def waterfall(found: Attribution, width: int, language: Language = ENGLISH) -> Text:
    bars = waterfall_bars(found, language)
    room = max(LEAST_ROOM, min(width, MOST_WIDTH) - LABEL_WIDTH - FIGURE_WIDTH - 2)
    low, high = _range(bars)
    text = Text()
    for bar in bars:
        begin, end = sorted((low if bar.begin is None else bar.begin, bar.end))
        first, after = (round(room * (each - low) / (high - low)) for each in (begin, end))
        after = max(after, first + 1) if bar.begin is not None else after
        text.append(set_cell_size(_cut(bar.label), LABEL_WIDTH), style="bold" if bar.begin is None else "")
        text.append(" " * first)
        text.append(_fill(bar) * (after - first), style=_style(bar, found))
        text.append(" " * max(0, room - after + 1))
        figure = _figure(bar, found, language)
        text.append(" " * max(1, FIGURE_WIDTH - cell_len(figure)) + figure + "\n")
    if low:
        begins = language.say("attribute.picture.axis-start", value=value_words(low, found.metric, language))
        text.append(f"{'':{LABEL_WIDTH}}{begins}\n", style="dim")
    text.rstrip()
    return text


def _range(bars: Sequence[EffectBar]) -> tuple[float, float]:
    ends = [bar.end for bar in bars]
    low, high = min(ends), max(ends)
    if high - low >= ZOOM * high:
        return 0.0, high
    reach = max(high - low, 0.01 * high)
    return low - reach, high + 0.1 * reach


def _fill(bar: EffectBar) -> str:
    if bar.begin is None:
        return FULL
    return RISE if bar.end >= bar.begin else FALL


def _style(bar: EffectBar, found: Attribution) -> str:
    """Green is better: a rate that rises, a loss that falls."""
    if bar.begin is None:
        return "cyan"
    return "green" if (bar.end >= bar.begin) == found.on_logs else "red"


def _figure(bar: EffectBar, found: Attribution, language: Language) -> str:
    if bar.change is None:
        return value_words(bar.end, found.metric, language)
    return change_words(bar.change, found.metric, language)


def _cut(label: str) -> str:
    return label if cell_len(label) < LABEL_WIDTH else f"{set_cell_size(label, LABEL_WIDTH - 2)}…"
