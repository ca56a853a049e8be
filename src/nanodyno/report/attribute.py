"""An attribution as a page for people and as a document for programs."""

import dataclasses
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.attribution import Attribution, Known
from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.analysis.effects import Effect
from nanodyno.analysis.factors import Factor
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.shapley import Corner, along, last_corner
from nanodyno.records.probe import MemoryRecord
from nanodyno.report import quantities
from nanodyno.report.attribute_picture import waterfall
from nanodyno.report.attribute_words import METRICS, change_words, setting_words, words
from nanodyno.report.page import Points, Section, to_terminal
from nanodyno.report.page import Table as PageTable
from nanodyno.report.tune_words import spread_words

END_WIDTH = 8
COLUMNS = {
    "tok/s": (0, 9),
    "±": (1, 6),
    "ms/micro-batch": (5, 14),
    "work": (2, 13),
    "idle": (4, 4),
    "memory": (3, 9),
}
"""How much each is asked for, the least first, and its width."""
UNKNOWN = "-"
MISSING = {
    "too-large": "does not fit",
    "indivisible": "no config",
    "failed": "failed",
    "disturbed": "disturbed",
    "no-time": "not measured",
}
TITLED = {
    "tokens_per_second": "tokens per second",
    "flops_per_second": "rate of work, exact causal FLOPs",
    "val_loss": "val loss",
}
STOPPED = "stopped: this is what was measured so far, and the same command goes on from here"
TOLD_BY_TABLES = frozenset({"part", "part-tied", "part-not-shown", "part-once"})
TITLES = (
    ("what was found", ("fact",)),
    ("what to keep in mind", ("wrong", "caution")),
    ("what to do next", ("next",)),
)


def attribution_page(found: Attribution, width: int) -> RenderableType:
    pieces: list[RenderableType] = [
        Text(title_words(found), style="bold"),
        Text(),
        corners_table(found, width),
    ]
    if found.interrupted:
        pieces += [
            Text(),
            Text("stopped: this is what was measured so far, and the same command goes on", "yellow"),
        ]
    findings = attribution_findings(found)
    if found.look.effects.parts:
        pieces += [Text(), parts_table(found), Text(), waterfall(found, width)]
    pieces += [Text(), to_terminal(attribution_sections(findings)), Text()]
    return Group(*pieces, *(Text(each, style="dim") for each in _remarks(found)))


def title_words(found: Attribution) -> str:
    machine = found.machine
    limit = found.memory_limit_bytes
    limited = "" if limit is None else f" kept to {quantities.gib(limit)}"
    before, after = found.names
    return f"{before} to {after} on {machine.device_name}{limited}: {TITLED[found.metric]}"


def corners_table(found: Attribution, width: int) -> Table:
    """A row a corner, before first and after last; a column a setting."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    losses = found.metric == "val_loss"
    settings = found.design.settings(0)
    for key in settings:
        table.add_column(key, justify="right", no_wrap=True)
    room = width - END_WIDTH - sum(len(key) + 2 for key in settings)
    titles = ["val loss", "seeds"] if losses else _that_fit(room)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for corner, known in found.corners.items():
        values = [setting_words(value) for value in found.design.settings(corner).values()]
        if known.missing is not None:
            cells = [MISSING[known.missing.reason]]
        elif losses:
            cells = _loss_cells(found, corner, known)
        else:
            cells = [_speed_cells(known)[title] for title in titles]
        table.add_row(_end(found, corner), *values, *cells)
    return table


def _that_fit(room: int) -> list[str]:
    """Those most asked for first; shown in the order that they have."""
    kept: list[str] = []
    for title in sorted(COLUMNS, key=lambda each: COLUMNS[each][0]):
        room -= COLUMNS[title][1] + 2
        if room >= 0 or not kept:
            kept.append(title)
    return [title for title in COLUMNS if title in kept]


def _end(found: Attribution, corner: Corner) -> str:
    return {0: "before", last_corner(len(found.design.factors)): "after"}.get(corner, "")


def _loss_cells(found: Attribution, corner: Corner, known: Known) -> list[str]:
    value = found.value(corner)
    return [UNKNOWN if value is None else f"{value:.4f}", str(len(known.losses))]


def _speed_cells(known: Known) -> dict[str, str]:
    summary, measured = known.summary, known.measured
    assert summary is not None
    assert measured is not None
    return {
        "tok/s": quantities.rate(summary.tokens_per_second.estimate),
        "±": spread_words(summary.tokens_per_second),
        "ms/micro-batch": f"{summary.micro_step_seconds * 1000:,.2f}",
        "work": quantities.flop_rate(summary.flops_per_second),
        "idle": UNKNOWN if summary.time is None else f"{summary.time.idle:.0%}",
        "memory": _memory(measured.memory),
    }


def _memory(memory: MemoryRecord) -> str:
    peak = memory.peak_reserved_bytes or memory.peak_host_bytes
    return UNKNOWN if peak is None else quantities.gib(peak)


def parts_table(found: Attribution) -> Table:
    """What each change does if it is made first, if last, and its part of the whole."""
    effects, screened = found.look.effects, found.look.effects.screened
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("change", overflow="fold")
    several = len(effects.parts) > 1 and not screened
    titles = ["made first", "made last"] if several else []
    for title in (*titles, "its part" if not screened else "average", "interval", ""):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    whole = last_corner(len(effects.parts))
    for number, part in enumerate(effects.parts):
        factor = found.design.factors[number]
        ends = [effects.steps[0, number], effects.steps[whole & ~(1 << number), number]] if several else []
        shown = [change_words(found.change(each.interval.estimate), found.metric) for each in (*ends, part)]
        table.add_row(_factor_words(factor), *shown, *_judged(found, part))
    if several or screened:
        told = effects.total
        assert told is not None, "parts need both ends"
        filler = [""] * len(titles)
        size = change_words(found.change(told.interval.estimate), found.metric)
        table.add_row("all together", *filler, size, *_judged(found, told), style="bold")
    return table


def _factor_words(factor: Factor) -> str:
    return ", ".join(
        f"{key} {setting_words(factor.before[key])} to {setting_words(factor.after[key])}"
        for key in factor.name.split("+")
    )


def _judged(found: Attribution, effect: Effect) -> list[str]:
    low, high = effect.interval.low, effect.interval.high
    if low is None or high is None:
        return [UNKNOWN, "seen once"]
    bounds = " to ".join(change_words(found.change(each), found.metric) for each in (low, high))
    calls = {"different": "", "tied": "nothing to speak of", "no difference shown": "not shown"}
    return [bounds, calls[effect.call]]


def attribution_sections(findings: Sequence[Finding]) -> list[Section]:
    """What stands in the tables is not said again."""
    told = [each for each in findings if each.code not in TOLD_BY_TABLES]
    sections: list[Section] = []
    for title, severities in TITLES:
        sentences = tuple(words(each) for each in told if each.severity in severities)
        if sentences:
            sections.append(Section(title, (Points(sentences),)))
    return sections


def measured_apart(attributions: Sequence[Attribution]) -> list[Section]:
    """For the page of a comparison, of which these are attributions."""
    work = next((each for each in attributions if each.metric == "flops_per_second"), None)
    return [
        section
        for each in attributions
        if each is not work
        for section in embedded_sections(each, work if each.metric == "tokens_per_second" else None)
    ]


def embedded_sections(found: Attribution, work: Attribution | None = None) -> list[Section]:
    """For the page of a comparison: which device it was, a row a change, and what was found.

    work: the same measurements as rates of work, where they differ from those of tokens.
    """
    told: tuple[str | Points | PageTable, ...] = (f"Measured apart: {title_words(found)}.",)
    if found.look.effects.parts:
        shown = [found] if work is None else [found, work]
        heads = [title for each in shown for title in (METRICS[each.metric], "interval")]
        table = PageTable(("change", *heads, ""), tuple(_rows(shown)), figures_from=1)
        told += (table,)
    sentences = tuple(words(each) for each in attribution_findings(found) if each.code not in TOLD_BY_TABLES)
    return [Section("which change did what", (*told, Points(sentences)))]


def _rows(shown: Sequence[Attribution]) -> Iterator[tuple[str, ...]]:
    for number, factor in enumerate(shown[0].design.factors):
        cells: list[str] = []
        for each in shown:
            part = each.look.effects.parts[number]
            size = change_words(each.change(part.interval.estimate), each.metric)
            cells += [size, _judged(each, part)[0]]
        yield _factor_words(factor), *cells, _judged(shown[0], shown[0].look.effects.parts[number])[1]


def _remarks(found: Attribution) -> Iterator[str]:
    level = 100 * found.look.level
    if len(found.look.kept) > 1:
        yield (
            f"intervals are over {len(found.look.kept)} rounds, at {level:.3g}% since they may be looked at "
            "more than once; those of the parts hold together"
        )
    if found.budget_seconds is not None:
        reused = f", {found.reused} visits of an earlier command among them" if found.reused else ""
        of = quantities.clock(found.budget_seconds)
        yield f"measuring took {quantities.clock(found.spent_seconds)} of {of}{reused}"
    yield from found.notes


def attribution_document(found: Attribution) -> dict[str, object]:
    """Under the names of the code, for programs. Effects are of logarithms, or of losses as they are."""
    effects = found.look.effects
    names = [factor.name for factor in found.design.factors]
    return {
        "runs": list(found.names),
        "metric": found.metric,
        "scale": "log" if found.on_logs else "nats",
        "machine": found.machine.model_dump(mode="json"),
        "memory_limit_bytes": found.memory_limit_bytes,
        "changes": [
            {"name": each.name, "before": dict(each.before), "after": dict(each.after)}
            for each in found.design.factors
        ],
        "corners": [_corner_document(found, corner, known) for corner, known in found.corners.items()],
        "difference": _effect_document(effects.total),
        "parts": {name: _effect_document(each) for name, each in zip(names, effects.parts, strict=False)},
        "screened": effects.screened,
        "left_over": _effect_document(effects.left_over),
        "steps": [
            {"from": found.design.settings(corner), "change": names[factor], **(_effect_document(each) or {})}
            for (corner, factor), each in effects.steps.items()
        ],
        "interactions": [
            {"pairs": [[names[one], names[other]] for one, other in chain], **(_effect_document(each) or {})}
            for chain, each in effects.pairs.items()
        ],
        "paths": [
            [
                {"change": names[factor], "effect": effects.steps[at, factor].interval.estimate}
                for at, factor in zip(along(path), path, strict=False)
            ]
            for path in effects.paths()
        ],
        "level": found.look.level,
        "rounds": len(found.look.kept),
        "precise": found.look.finished,
        "findings": [dataclasses.asdict(each) for each in attribution_findings(found)],
        "spent_seconds": found.spent_seconds,
        "budget_seconds": found.budget_seconds,
        "interrupted": found.interrupted,
        "notes": list(found.notes),
    }


def _effect_document(effect: Effect | None) -> dict[str, object] | None:
    return None if effect is None else {**dataclasses.asdict(effect.interval), "verdict": effect.call}


def _corner_document(found: Attribution, corner: Corner, known: Known) -> dict[str, object]:
    summary = known.summary
    return {
        "settings": found.design.settings(corner),
        "value": found.value(corner),
        "missing": None if known.missing is None else dataclasses.asdict(known.missing),
        "summary": None if summary is None else dataclasses.asdict(summary),
        "memory": None if known.measured is None else known.measured.memory.model_dump(mode="json"),
        "val_losses": list(known.losses),
    }
