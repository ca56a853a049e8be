"""Runs as tables and pictures for a terminal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.summary import LAST_STEPS, Summary
from nanodyno.records.store import Run
from nanodyno.report import quantities
from nanodyno.report.plot import Series, line_plot

PLOT_HEIGHT = 12
PLOT_MAX_WIDTH = 100
UNKNOWN = "-"
GAP = 2
"""Blanks between two columns of a table."""


@dataclass(frozen=True)
class Column:
    title: str
    cell: Callable[[Run, Summary], str]
    rank: int = 0
    """0 is always shown; the others come in as long as they fit, lower ranks first."""
    justify: Literal["left", "right"] = "right"


def state(summary: Summary) -> str:
    if summary.finished:
        return "done"
    if summary.iterations_planned == 0 or summary.iterations_done == 0:
        return "not begun"
    return f"at {summary.iterations_done / summary.iterations_planned:.0%}"


def runs_table(runs: Sequence[tuple[Run, Summary]], width: int) -> Table:
    """One run a row. Narrow windows lose the columns that are least asked for; a card's only where one is."""
    any_card = any(summary.card_share is not None for _, summary in runs)
    columns = [column for column in COLUMNS if any_card or column.title != "% of peak"]
    shown = _fitting(columns, runs, width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown:
        table.add_column(column.title, justify=column.justify, no_wrap=True)
    for run, summary in runs:
        table.add_row(*(Text(column.cell(run, summary)) for column in shown))
    return table


def _fitting(columns: Sequence[Column], runs: Sequence[tuple[Run, Summary]], width: int) -> list[Column]:
    """The columns that stand side by side without a cell being cut, in the order of the table."""
    shown: set[str] = set()
    left = width + GAP
    for column in sorted(columns, key=lambda column: column.rank):
        cells = [column.title, *(column.cell(run, summary) for run, summary in runs)]
        needed = max(cell_len(cell) for cell in cells) + GAP
        if column.rank and needed > left:
            break
        shown.add(column.title)
        left -= needed
    return [column for column in columns if column.title in shown]


def run_page(run: Run, summary: Summary, width: int) -> RenderableType:
    """Everything about one run that fits a screen: facts, speed, memory, losses, the curve."""
    return Group(_facts(run, summary), Text(), loss_plot([run], width))


def loss_plot(runs: Sequence[Run], width: int) -> Text:
    """Training loss of one run with its evaluations, or the val loss of several.

    Several are shown without their first, untrained point, beside which all the rest would look level.
    """
    width = min(width, PLOT_MAX_WIDTH)
    if len(runs) == 1:
        series = [_train_series(runs[0]), _val_series(runs[0], "val loss")]
    else:
        series = [_val_series(run, run.name, skip_untrained=True) for run in runs]
    return line_plot(series, width, PLOT_HEIGHT, "iterations", "loss" if len(runs) == 1 else "val loss")


def _facts(run: Run, summary: Summary) -> Table:
    record, config = run.record, run.record.config
    shape = config.model_shape(record.vocab_size)
    size, nanogpt = (quantities.count(n) for n in (summary.parameters.total, summary.parameters.nanogpt))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    rows: list[tuple[str, str]] = [
        ("run", f"{run.name} ({state(summary)}), {run.folder}"),
        (
            "model",
            f"{size} parameters ({nanogpt} by nanoGPT's count): {shape.n_layer} layers of {shape.n_embd}, "
            f"{shape.n_head} heads, "
            f"context {shape.block_size}, vocabulary {shape.vocab_size}",
        ),
        (
            "batch",
            f"{config.tokens_per_iter:,} tokens/iteration = micro-batch {config.batch_size} "
            f"x {shape.block_size} x {config.gradient_accumulation_steps} micro-steps",
        ),
        (
            "data",
            f"{record.data.dataset}, {quantities.count(record.data.train_tokens)} train tokens, "
            f"{quantities.epochs(summary.tokens_seen / max(1, record.data.train_tokens))} epochs seen",
        ),
        ("machine", _machine(run)),
        (
            "progress",
            f"{summary.iterations_done:,} of {summary.iterations_planned:,} iterations, "
            f"{quantities.count(summary.tokens_seen)} tokens",
        ),
        *_resumed(record.resumed_at_iterations),
        *_speed(summary),
        *_losses(run, summary),
        *(("note", note) for note in record.notes),
    ]
    for title, words in rows:
        table.add_row(title, Text(words))
    return table


def _machine(run: Run) -> str:
    machine, arithmetic, versions = run.record.machine, run.record.arithmetic, run.record.versions
    threads = f", {quantities.threads(machine.cpu_threads)}" if machine.device_type == "cpu" else ""
    compiled = "compiled" if arithmetic.compiled else "not compiled"
    return f"{machine.device_name}{threads}, {arithmetic.dtype}, {compiled}, torch {versions.torch}"


def _resumed(iterations: Sequence[int]) -> list[tuple[str, str]]:
    if not iterations:
        return []
    return [("resumed", f"at iteration {', '.join(f'{each:,}' for each in iterations)}")]


def _speed(summary: Summary) -> list[tuple[str, str]]:
    speed, seconds = summary.tokens_per_second, summary.step_seconds
    if (
        speed is None
        or seconds is None
        or summary.micro_step_seconds is None
        or summary.flops_per_second is None
    ):
        return [("speed", "not known yet: the run ended inside its first iterations")]
    rows = [
        ("speed", _interval(speed, 1, "tokens/s")),
        (
            "time",
            f"{_interval(seconds, 1000, 'ms/iteration')}, "
            f"{quantities.milliseconds(summary.micro_step_seconds)}/micro-batch; "
            f"training {quantities.duration(summary.training_seconds)}, "
            f"evaluation {quantities.duration(summary.evaluation_seconds)}",
        ),
        ("work", _work(summary)),
        ("memory", f"peak {_memory(summary)}"),
    ]
    if summary.data_wait_share is not None and summary.data_wait_share >= 0.01:
        rows.append(("data wait", f"{quantities.percent(summary.data_wait_share)} of the time"))
    return rows


def _work(summary: Summary) -> str:
    assert summary.flops_per_second is not None
    words = f"{quantities.flop_rate(summary.flops_per_second)} (exact causal FLOPs, "
    words += f"{summary.flops_per_token / 1e6:,.1f} MFLOP/token)"
    if summary.card_share is not None and summary.peak_flops is not None:
        words += f" = {quantities.percent(summary.card_share)} of {summary.card_name}'s datasheet peak of "
        words += f"{quantities.flop_rate(summary.peak_flops)} (dense)"
    if summary.nanogpt_mfu is not None:
        words += f"; nanoGPT's MFU (A100): {quantities.percent(summary.nanogpt_mfu)}"
    return words


def _losses(run: Run, summary: Summary) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if summary.last_train_loss is not None:
        n = min(LAST_STEPS, len(run.steps))
        over = "of the only iteration" if n == 1 else f"mean of the last {n} iterations"
        rows.append(("train loss", f"{summary.last_train_loss:.4f} ({over})"))
    last, best = summary.last_val, summary.best_val
    if last is not None:
        words = f"{last.loss:.4f} at {last.iteration} (perplexity {last.perplexity:,.1f}), "
        words += f"evaluated on {run.evals[-1].val_tokens:,} tokens"
        if best is not None and best.iteration != last.iteration:
            words += f"; best {best.loss:.4f} at {best.iteration}"
        rows.append(("val loss", words))
    if summary.eta_seconds:
        rows.append(("to go", quantities.duration(summary.eta_seconds)))
    return rows


def _interval(interval: Interval, scale: float, unit: str) -> str:
    """The median with its 95% interval, where there are samples enough for one."""
    digits = 0 if interval.estimate * scale >= 1000 else 1 if interval.estimate * scale >= 10 else 2
    value = f"{interval.estimate * scale:,.{digits}f} {unit}"
    if interval.low is None or interval.high is None:
        return f"{value} (median of {interval.n})"
    low, high = (f"{bound * scale:,.{digits}f}" for bound in (interval.low, interval.high))
    return f"{value} (median of {interval.n}, {interval.level:.0%} interval {low} to {high})"


def _share(summary: Summary) -> str:
    return UNKNOWN if summary.card_share is None else quantities.percent(summary.card_share)


def _memory(summary: Summary) -> str:
    if summary.peak_allocated_bytes is not None and summary.peak_reserved_bytes is not None:
        reserved = quantities.gib(summary.peak_reserved_bytes)
        return f"{quantities.gib(summary.peak_allocated_bytes)} ({reserved} reserved)"
    return UNKNOWN if summary.peak_host_bytes is None else f"{quantities.gib(summary.peak_host_bytes)} (host)"


def _train_series(run: Run) -> Series:
    """Thinned to what a plot can show: the mean over equal stretches."""
    steps = [step for step in run.steps if math.isfinite(step.loss)]
    size = max(1, len(steps) // (2 * PLOT_MAX_WIDTH))
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    return Series(
        "train loss",
        [group[-1].iteration + 1 for group in groups],
        [sum(step.loss for step in group) / len(group) for group in groups],
    )


def _val_series(run: Run, label: str, skip_untrained: bool = False) -> Series:
    evals = [entry for entry in run.evals if math.isfinite(entry.val_loss)]
    if skip_untrained and len(evals) > 2:
        evals = [entry for entry in evals if entry.iteration > 0]
    return Series(label, [entry.iteration for entry in evals], [entry.val_loss for entry in evals])


def _speed_cell(_: Run, summary: Summary) -> str:
    return quantities.rate(summary.tokens_per_second.estimate) if summary.tokens_per_second else UNKNOWN


def _iteration_cell(_: Run, summary: Summary) -> str:
    return f"{summary.step_seconds.estimate * 1000:,.1f}" if summary.step_seconds else UNKNOWN


def _peak_cell(_: Run, summary: Summary) -> str:
    peak = summary.peak_allocated_bytes or summary.peak_host_bytes
    return UNKNOWN if peak is None else quantities.gib(peak)


COLUMNS = (
    Column("run", lambda run, _: run.name, justify="left"),
    Column("state", lambda _, summary: state(summary), justify="left"),
    Column("params", lambda _, summary: quantities.count(summary.parameters.total)),
    Column("tokens", lambda _, summary: quantities.count(summary.tokens_seen), rank=1),
    Column("val loss", lambda _, summary: f"{summary.last_val.loss:.4f}" if summary.last_val else UNKNOWN),
    Column("tok/s", _speed_cell),
    Column("ms/iter", _iteration_cell, rank=4),
    Column("% of peak", lambda _, summary: _share(summary), rank=3),
    Column("peak mem", _peak_cell, rank=2),
    Column("time", lambda _, summary: quantities.duration(summary.training_seconds), rank=5),
    Column("started (UTC)", lambda run, _: f"{run.record.started_at:%Y-%m-%d %H:%M}", 6, "left"),
)
