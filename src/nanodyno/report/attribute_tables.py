"""The tables of an attribution: a row a combination, a row a change."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.table import Table

from nanodyno.analysis.attribution import Attribution, Known, MissingReason
from nanodyno.analysis.effects import Effect
from nanodyno.analysis.factors import Factor
from nanodyno.analysis.shapley import Combination, last_combination
from nanodyno.analysis.verdict import VerdictCall
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import (
    change_words,
    interval_words,
    setting_words,
    settings_words,
    turn_words,
)
from nanodyno.records.probe import MemoryRecord
from nanodyno.report.tune_words import spread_words

UNKNOWN = "-"
GAP = 2
FIGURES = 26
"""What a terminal has for the figures at least, and for the names of both ends."""
COLUMNS = {
    "unit.tok-per-s": 0,
    "common.plus-minus": 1,
    "unit.ms-per-micro-batch": 5,
    "common.work-rate": 2,
    "common.idle": 4,
    "common.memory": 3,
}
"""How much each is asked for, the least first."""
LOSS_COLUMNS = ("common.val-loss", "attribute.table.seeds")
MISSING: dict[MissingReason, str] = {
    "too-large": "common.does-not-fit",
    "indivisible": "attribute.missing.invalid-config",
    "failed": "common.failed",
    "disturbed": "common.disturbed",
    "no-time": "attribute.missing.no-time",
}
CALLS: dict[VerdictCall, str] = {
    "different": "",
    "tied": "attribute.verdict.tied",
    "no difference shown": "attribute.verdict.not-shown",
}


def combinations_table(found: Attribution, width: int, language: Language = ENGLISH) -> Table:
    """Before first and after last; a column a setting, or a group where they are too many."""
    settings = {combination: found.design.settings(combination) for combination in found.combinations}
    columns = {key: key for key in found.design.settings(0)}
    if sum(_width([key, *_shown(settings, key, language)]) for key in columns) > width - FIGURES:
        columns = _leading(found.design.factors)
    heads = {
        combination: [
            _end(found, combination, language),
            *(setting_words(values[key], language) for key in columns.values()),
        ]
        for combination, values in settings.items()
    }
    return _combinations_table(found, ["", *columns], heads, width, language)


def _shown(settings: Mapping[Combination, Mapping[str, Any]], key: str, language: Language) -> list[str]:
    return [setting_words(values[key], language) for values in settings.values()]


def _leading(factors: Iterable[Factor]) -> dict[str, str]:
    """The first key of each change, by a title that tells how many more go with it."""
    keys = (factor.name.split("+") for factor in factors)
    return {first if not others else f"{first}\n+{len(others)}": first for first, *others in keys}


def changes_table(found: Attribution, width: int, language: Language = ENGLISH) -> Table:
    """The same in fewer columns: a combination by what is changed in it."""
    heads = {
        combination: [
            _end(found, combination, language) or settings_words(_changed(found, combination), language)
        ]
        for combination in found.combinations
    }
    return _combinations_table(found, [""], heads, width, language)


def _changed(found: Attribution, combination: Combination) -> dict[str, Any]:
    before = found.design.settings(0)
    return {key: value for key, value in found.design.settings(combination).items() if value != before[key]}


def _combinations_table(
    found: Attribution,
    keys: list[str],
    heads: Mapping[Combination, list[str]],
    width: int,
    language: Language,
) -> Table:
    rows = {
        combination: _cells(found, combination, known, language)
        for combination, known in found.combinations.items()
    }
    taken = (_width([key, *(cells[place] for cells in heads.values())]) for place, key in enumerate(keys))
    titles: Sequence[str] = LOSS_COLUMNS
    if found.metric != "val_loss":
        titles = _that_fit(rows.values(), width - sum(taken), language)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for key in keys:
        table.add_column(key, justify="right" if key else "left", no_wrap=True)
    for title in titles:
        table.add_column(language.say(title), justify="right", no_wrap=True)
    for combination, cells in rows.items():
        table.add_row(*heads[combination], *(cells.get(title, "") for title in titles))
    return table


def _that_fit(rows: Iterable[Mapping[str, str]], room: int, language: Language) -> list[str]:
    """Those most asked for first; shown in the order that they have."""
    rows = list(rows)
    kept: list[str] = []
    for title in sorted(COLUMNS, key=COLUMNS.__getitem__):
        room -= _width([language.say(title), *(row.get(title, "") for row in rows)])
        if room >= -GAP or not kept:
            kept.append(title)
    return [title for title in COLUMNS if title in kept]


def _width(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells)) + GAP


def _end(found: Attribution, combination: Combination, language: Language) -> str:
    ends = {0: "common.before", last_combination(len(found.design.factors)): "common.after"}
    return language.say(ends[combination]) if combination in ends else ""


def _cells(found: Attribution, combination: Combination, known: Known, language: Language) -> dict[str, str]:
    if known.missing is not None:
        first = LOSS_COLUMNS[0] if found.metric == "val_loss" else "unit.tok-per-s"
        return {first: language.say(MISSING[known.missing.reason])}
    return (
        _loss_cells(found, combination, known, language)
        if found.metric == "val_loss"
        else _speed_cells(known, language)
    )


def _loss_cells(
    found: Attribution, combination: Combination, known: Known, language: Language
) -> dict[str, str]:
    value = found.value(combination)
    return {
        "common.val-loss": UNKNOWN if value is None else language.number(value, ".4f"),
        "attribute.table.seeds": language.number(len(known.losses)),
    }


def _speed_cells(known: Known, language: Language) -> dict[str, str]:
    summary, measured = known.summary, known.measured
    assert summary is not None
    assert measured is not None
    time = summary.time
    return {
        "unit.tok-per-s": quantities.rate(summary.tokens_per_second.value, language),
        "common.plus-minus": spread_words(summary.tokens_per_second, language),
        "unit.ms-per-micro-batch": language.number(summary.micro_step_seconds.value * 1000, ",.2f"),
        "common.work-rate": quantities.flop_rate(summary.achieved_flops_per_second.value, language),
        "common.idle": UNKNOWN if time is None else quantities.share(time.idle, ".0f", language),
        "common.memory": _memory(measured.memory, language),
    }


def _memory(memory: MemoryRecord, language: Language) -> str:
    peak = memory.peak_reserved_bytes or memory.peak_host_bytes
    return UNKNOWN if peak is None else quantities.gib(peak, language)


def parts_table(found: Attribution, width: int, language: Language = ENGLISH) -> Table:
    """The effect of each change, and what it is if it is made first and if last, where there is room."""
    effects, screened = found.look.effects, found.look.effects.screened
    several = len(effects.parts) > 1 and not screened
    rows = [[size_words(found, part, language), *judged(found, part, language)] for part in effects.parts]
    orders = [_first_and_last(found, number, language) for number in range(len(rows))] if several else []
    if several or screened:
        assert effects.total is not None, "effects need both ends"
        rows.append([size_words(found, effects.total, language), *judged(found, effects.total, language)])
    effect = "attribute.parts.average" if screened else "attribute.parts.own-part"
    titles = [language.say(effect), language.say("attribute.table.interval"), ""]
    ends = [language.say("attribute.parts.made-first"), language.say("attribute.parts.made-last")]
    turns = [turn for factor in found.design.factors for turn in _turns(factor, language)]
    columns = [[title, *(row[place] for row in rows)] for place, title in enumerate(titles)]
    before = [[title, *(row[place] for row in orders)] for place, title in enumerate(ends)]
    if not several or sum(map(_width, [turns, *before, *columns])) - GAP > width:
        ends, orders = [], [list[str]() for _ in rows]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    name_width = min(max(map(cell_len, turns)), width // 2)
    table.add_column(language.say("common.change"), overflow="fold", min_width=name_width)
    for title in (*ends, *titles):
        table.add_column(title, justify="left" if not title else "right", no_wrap=bool(title))
    for factor, order, row in zip(found.design.factors, orders, rows, strict=False):
        table.add_row(factor_words(factor, language), *order, *row)
    if several or screened:
        total = language.say("attribute.parts.total")
        table.add_row(total, *[""] * len(ends), *rows[-1], style="bold")
    return table


def _first_and_last(found: Attribution, number: int, language: Language) -> list[str]:
    steps, whole = found.look.effects.steps, last_combination(len(found.design.factors))
    ends = steps[0, number], steps[whole & ~(1 << number), number]
    return [size_words(found, each, language) for each in ends]


def size_words(found: Attribution, effect: Effect, language: Language) -> str:
    return change_words(found.change(effect.interval.value), found.metric, language)


def factor_words(factor: Factor, language: Language) -> str:
    """n_embd 384 -> 768."""
    return language.joined(_turns(factor, language))


def _turns(factor: Factor, language: Language) -> list[str]:
    return [
        turn_words(key, factor.before[key], factor.after[key], language) for key in factor.name.split("+")
    ]


def judged(found: Attribution, effect: Effect, language: Language) -> list[str]:
    """Its interval, and what that says."""
    low, high = effect.interval.low, effect.interval.high
    if low is None or high is None:
        return [UNKNOWN, language.say("attribute.verdict.seen-once")]
    bounds = interval_words(found.change(low), found.change(high), found.metric, language)
    call = CALLS[effect.call]
    return [bounds, language.say(call) if call else ""]
