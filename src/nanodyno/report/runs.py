"""Runs as a table, one run as a page, losses as a picture: for a terminal."""

import io
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.summary import Summary
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.store import Run
from nanodyno.report.facts import fact_rows, facts_table
from nanodyno.report.plot import Labels, PlotSeries, line_plot
from nanodyno.report.prose import Prose
from nanodyno.report.state import STYLES, state_cell

FIRST_PAGE_LINES = 30
"""Of what a command prints without --all."""
PLOT_HEIGHT, SMALL_PLOT_HEIGHT = 12, 7
PLOT_MAX_WIDTH = 100
UNKNOWN = "-"
LARGEST_DRAWN = 1e30
"""A loss beyond it, as of a damaged log, would leave no room for the others."""
GAP = 2
"""Blanks between two columns of a table."""


@dataclass(frozen=True)
class Column:
    title: str
    cell: Callable[[Run, Summary, Language], str]
    rank: int = 0
    """0 is always shown; the others come in as long as they fit, lower ranks first."""
    justify: Literal["left", "right"] = "right"
    style: Callable[[Summary], str] = lambda _: ""
    wanted: Callable[[Summary], bool] = lambda _: True
    """A column that no run of the table wants is left out."""


def runs_table(runs: Sequence[tuple[Run, Summary]], width: int, language: Language = ENGLISH) -> Table:
    """One run a row. Narrow windows lose the columns that are least asked for."""
    columns = [column for column in COLUMNS if any(column.wanted(summary) for _, summary in runs)]
    cells = {
        column.title: [column.cell(run, summary, language) for run, summary in runs] for column in columns
    }
    shown = _fitting(columns, cells, width, language)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown:
        table.add_column(language.say(column.title), justify=column.justify, no_wrap=True)
    for row, (_, summary) in enumerate(runs):
        table.add_row(*(Text(cells[column.title][row], style=column.style(summary)) for column in shown))
    return table


def _fitting(
    columns: Sequence[Column], cells: Mapping[str, Sequence[str]], width: int, language: Language
) -> list[Column]:
    """The columns that stand side by side without a cell being cut, in the order of the table."""
    shown: set[str] = set()
    left = width + GAP
    for column in sorted(columns, key=lambda column: column.rank):
        every = [language.say(column.title), *cells[column.title]]
        needed = max(cell_len(cell) for cell in every) + GAP
        if column.rank and needed > left:
            break
        shown.add(column.title)
        left -= needed
    return [column for column in columns if column.title in shown]


def run_page(
    run: Run, summary: Summary, width: int, language: Language = ENGLISH, everything: bool = False
) -> RenderableType:
    """Losses, speed, memory, settings, notes and the curve; as many rows as fit, or everything."""
    rows = fact_rows(run, summary, language)
    if everything:
        return Group(facts_table(rows, summary, language), Text(), loss_plot([run], width, language))
    plot = loss_plot([run], width, language, SMALL_PLOT_HEIGHT)
    more = language.say("show.more", run=shlex.quote(str(run.folder)))
    for count in range(len(rows), 0, -1):
        hint = [Prose(more, style="dim")] if count < len(rows) else []
        page = Group(facts_table(rows[:count], summary, language), Text(), plot, *hint)
        if fits_first_page(page, width):
            return page
    return Group(plot, Prose(more))


def fits_first_page(page: RenderableType, width: int) -> bool:
    console = Console(width=width, file=io.StringIO())
    return len(console.render_lines(page)) <= FIRST_PAGE_LINES


def loss_plot(
    runs: Sequence[Run], width: int, language: Language = ENGLISH, height: int = PLOT_HEIGHT
) -> Text:
    """Training loss of one run with its evaluations, or the val loss of several.

    Several are shown without their first, untrained point, beside which all the rest would look level.
    """
    width = min(width, PLOT_MAX_WIDTH)
    if len(runs) == 1:
        series = [
            _train_series(runs[0], language.say("common.train-loss")),
            _val_series(runs[0], language.say("common.val-loss")),
        ]
    else:
        series = [_val_series(run, run.name, skip_untrained=True) for run in runs]
    y_label = language.say("common.loss") if len(runs) == 1 else language.say("common.val-loss")
    labels = Labels(language.say("common.iterations"), y_label, language)
    return line_plot(series, width, height, labels)


def _train_series(run: Run, label: str) -> PlotSeries:
    """Thinned to what a plot can show: the mean over equal stretches."""
    points = [
        (step.iteration + 1, step.loss)
        for step in run.steps
        if step.loss is not None and _can_be_drawn(step.loss)
    ]
    size = max(1, len(points) // (2 * PLOT_MAX_WIDTH))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return PlotSeries(
        label,
        [group[-1][0] for group in groups],
        [sum(loss for _, loss in group) / len(group) for group in groups],
    )


def _val_series(run: Run, label: str, skip_untrained: bool = False) -> PlotSeries:
    evals = [entry for entry in run.evals if _can_be_drawn(entry.val_loss)]
    if skip_untrained and len(evals) > 2:
        evals = [entry for entry in evals if entry.iteration > 0]
    return PlotSeries(label, [entry.iteration for entry in evals], [entry.val_loss for entry in evals])


def _can_be_drawn(loss: float) -> bool:
    return math.isfinite(loss) and abs(loss) < LARGEST_DRAWN


def _size_cell(_: Run, summary: Summary, language: Language) -> str:
    """By the log's own count where that is all there is."""
    size = summary.parameters.total if summary.parameters else summary.counted_parameters
    return UNKNOWN if size is None else quantities.count(size, language)


def _tokens_cell(_: Run, summary: Summary, language: Language) -> str:
    return UNKNOWN if summary.tokens_seen is None else quantities.count(summary.tokens_seen, language)


def _time_cell(_: Run, summary: Summary, language: Language) -> str:
    seconds = summary.training_seconds
    return UNKNOWN if seconds is None else quantities.duration(seconds, language)


def _speed_cell(_: Run, summary: Summary, language: Language) -> str:
    rate = summary.speed.tokens_per_second
    return quantities.rate(rate.value, language) if rate else UNKNOWN


def _iteration_cell(_: Run, summary: Summary, language: Language) -> str:
    seconds = summary.speed.iteration_seconds
    return language.number(seconds.value * 1000, ",.1f") if seconds else UNKNOWN


def _share_cell(_: Run, summary: Summary, language: Language) -> str:
    mfu = summary.speed.mfu
    return UNKNOWN if mfu is None else quantities.percent(mfu.value, language)


def _peak_cell(_: Run, summary: Summary, language: Language) -> str:
    peak = summary.peak_allocated_bytes or summary.peak_host_bytes
    return UNKNOWN if peak is None else quantities.gib(peak, language)


def _eta_cell(_: Run, summary: Summary, language: Language) -> str:
    return quantities.clock(summary.eta_seconds, language) if summary.state.kind == "running" else UNKNOWN


def _val_cell(_: Run, summary: Summary, language: Language) -> str:
    return language.number(summary.last_val.loss, ".4f") if summary.last_val else UNKNOWN


COLUMNS = (
    Column("common.run", lambda run, _summary, _language: run.name, justify="left"),
    Column(
        "common.state",
        lambda _, summary, language: state_cell(summary, language),
        justify="left",
        style=lambda summary: STYLES[summary.state.kind],
    ),
    Column("runs.table.eta", _eta_cell, rank=1, wanted=lambda summary: summary.state.kind == "running"),
    Column("runs.table.parameters", _size_cell),
    Column("common.tokens", _tokens_cell, rank=2),
    Column("common.val-loss", _val_cell),
    Column("unit.tok-per-s", _speed_cell),
    Column("unit.ms-per-iter", _iteration_cell, rank=5),
    Column(
        "runs.table.share-of-peak", _share_cell, rank=4, wanted=lambda summary: summary.speed.mfu is not None
    ),
    Column("common.peak-memory-short", _peak_cell, rank=3),
    Column("common.time", _time_cell, rank=6),
    Column(
        "runs.table.started",
        lambda run, _summary, _language: f"{run.record.started_at:%Y-%m-%d %H:%M}",
        7,
        "left",
    ),
)
