"""A tuning as a page for people and as a document for programs."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.candidates import Candidate
from nanodyno.analysis.tune_findings import tune_findings
from nanodyno.analysis.tuning import Row, Tuning, against_chosen, curve_of, rows_of
from nanodyno.records.probe import Failed, Measured, Throttled
from nanodyno.report import quantities
from nanodyno.report.disturbances import result_words
from nanodyno.report.probes import call_words
from nanodyno.report.tune_picture import tune_picture
from nanodyno.report.tune_words import (
    REASONS,
    UNKNOWN,
    finding_words,
    fits_words,
    memory_words,
    rate_words,
    spread_words,
    switch_words,
)

WIDE = 100
LEAST_SWITCHES = 15
MARK = "*"


def tune_page(tuning: Tuning, name: str, width: int) -> RenderableType:
    rows = rows_of(tuning)
    chosen = None if tuning.pick is None else tuning.pick.chosen
    pieces: list[RenderableType] = [Text(title_words(tuning, name), style="bold"), Text()]
    if any(row.summary is not None for row in rows):
        pieces += [tune_table(rows, chosen, width), Text()]
    if left := list(untried(rows)):
        pieces += [*map(Text, left), Text()]
    pieces += [Text(line, style=style) for line, style in verdict_lines(tuning, rows)]
    curve = curve_of(rows, chosen)
    if len(curve) > 1:
        pieces += [Text(), tune_picture(curve, chosen, width)]
    found = [finding_words(each) for each in tune_findings(tuning)]
    if found:
        indented = (Padding(words, (0, 0, 0, 2), expand=False) for words in map(Text, found))
        pieces += [Text(), Text("why", style="bold"), *indented]
    told = remarks(tuning, rows)
    return Group(*pieces, *([Text()] if told else []), *(Text(each, style="dim") for each in told))


def remarks(tuning: Tuning, rows: Sequence[Row]) -> list[str]:
    predicted = any(row.summary is None and row.candidate.memory is not None for row in rows)
    return [*(["~ is predicted, not measured"] if predicted else []), *_margin(tuning), *tuning.notes]


def title_words(tuning: Tuning, name: str) -> str:
    machine = tuning.machine
    limit = tuning.memory_limit_bytes
    limited = "" if limit is None else f" kept to {quantities.gib(limit)}"
    threads = f", {quantities.threads(machine.cpu_threads)}" if machine.device_type == "cpu" else ""
    return (
        f"{name} on {machine.device_name}{threads}{limited}, {tuning.ground.dtype}: "
        f"{tuning.asked.tokens_per_iter:,} tokens per iteration"
    )


def tune_table(rows: Sequence[Row], chosen: str | None, width: int) -> Table:
    """Rates without ± are of the search, those with it were measured afresh in the final."""
    on_card = any(row.summary is not None and row.summary.card_share is not None for row in rows)
    ceiling = None if on_card else matmul_ceiling(rows)
    narrow = width < WIDE
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0 if narrow else 1))
    table.add_column("", no_wrap=True)
    table.add_column("micro-batch", justify="right", no_wrap=True)
    table.add_column("switches", min_width=LEAST_SWITCHES)
    for title in ("memory", "ms/iter", "tok/s", "±", "of peak" if on_card else "of matmul"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("fits", no_wrap=True)
    for row in rows:
        style = "bold" if row.name == chosen else "dim" if row.reason else ""
        table.add_row(MARK if row.name == chosen else "", *_cells(row, ceiling), style=style)
    return table


def matmul_ceiling(rows: Sequence[Row]) -> float | None:
    """The fastest large products that any of the processes saw: one and the same for all rows."""
    results = [row.result for row in rows if isinstance(row.result, Measured)]
    rates = [each.setup.matmul_flops_per_second for each in results]
    return max((rate for rate in rates if rate is not None), default=None)


def _cells(row: Row, ceiling: float | None) -> list[str]:
    """ceiling: what shares are of where there is no datasheet."""
    config, summary, rate = row.candidate.config, row.summary, row.tokens_per_second
    split = f"{config.batch_size} x {config.gradient_accumulation_steps}"
    switches = switch_words(row.candidate)
    if summary is None or rate is None:
        return [split, switches, _predicted(row.candidate), *[UNKNOWN] * 4, fits_words(row)]
    share = summary.card_share if ceiling is None else summary.flops_per_second / ceiling
    return [
        split,
        switches,
        memory_words(row),
        f"{summary.iteration_seconds * 1000:,.1f}",
        quantities.rate(rate.estimate),
        spread_words(rate),
        UNKNOWN if share is None else quantities.percent(share),
        fits_words(row),
    ]


def _predicted(candidate: Candidate) -> str:
    return UNKNOWN if candidate.memory is None else f"~{quantities.gib(candidate.memory.allocated)}"


def untried(rows: Sequence[Row]) -> Iterator[str]:
    """Why rows have no figures, each reason once."""
    by_words: dict[str, list[str]] = {}
    for row in rows:
        if row.summary is None and row.reason is not None:
            by_words.setdefault(_why(row), []).append(row.name)
    for words, names in by_words.items():
        yield f"{', '.join(names)}: {words}"


def _why(row: Row) -> str:
    if row.candidate.hopeless and row.candidate.memory is not None:
        return f"does not fit: about {quantities.gib(row.candidate.memory.total)} by prediction"
    if isinstance(row.result, Failed | Throttled) and row.reason in ("failed", "disturbed"):
        return result_words(row.result)
    return REASONS[row.reason] if row.reason is not None else ""


def verdict_lines(tuning: Tuning, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    by_name = {row.name: row for row in rows}
    if tuning.interrupted:
        yield "stopped: this is what was measured so far, and the same command goes on from here", "yellow"
    pick = tuning.pick
    if pick is None:
        if not tuning.interrupted:
            yield "no candidate could be measured, so none is chosen", "red"
        return
    chosen = by_name[pick.chosen]
    afresh = "" if chosen.is_final else "; by the search alone, not measured afresh"
    word = "the best so far" if tuning.interrupted else "chosen"
    yield f"{word}: {chosen.name}: {rate_words(chosen)}, {memory_words(chosen)}{afresh}", "bold green"
    asked = next((row for row in rows if is_asked(row, tuning)), None)
    if (
        asked is not None
        and asked.name != chosen.name
        and asked.tokens_per_second
        and chosen.tokens_per_second
    ):
        gain = chosen.tokens_per_second.estimate / asked.tokens_per_second.estimate - 1
        looked = "" if asked.is_final and chosen.is_final else " (a first look)"
        yield f"  {100 * gain:+.1f}% against {asked.name}, as it was asked for{looked}", ""
    for each in against_chosen(tuning):
        change = 100 * (1 / each.ratio.estimate - 1)
        yield f"  {each.config}: {change:+.1f}%, {call_words(each)}", ""


def is_asked(row: Row, tuning: Tuning) -> bool:
    same = row.candidate.batch_size == tuning.asked.batch_size
    return same and not row.candidate.variant and row.summary is not None


def _margin(tuning: Tuning) -> Iterator[str]:
    ground = tuning.ground
    if ground.usable_bytes is not None:
        context, margin = quantities.gib(ground.context_bytes), quantities.gib(ground.margin_bytes)
        yield (
            f"fits: the measured peak that the allocator holds, what an evaluation adds, {context} of "
            f"context and {margin} left free, in {quantities.gib(ground.usable_bytes)}"
        )
    reused = f", {tuning.reused} probes of an earlier search among them" if tuning.reused else ""
    of = quantities.clock(tuning.budget_seconds)
    yield f"measuring took {quantities.clock(tuning.spent_seconds)} of {of}{reused}"


def tune_document(tuning: Tuning, settings: Mapping[str, object]) -> dict[str, object]:
    """`settings` are what the chosen candidate changes of the config that was asked for."""
    pick = tuning.pick
    return {
        "machine": tuning.machine.model_dump(mode="json"),
        "tokens_per_iter": tuning.asked.tokens_per_iter,
        "memory_limit_bytes": tuning.memory_limit_bytes,
        "usable_bytes": tuning.ground.usable_bytes,
        "context_bytes": tuning.ground.context_bytes,
        "margin_bytes": tuning.ground.margin_bytes,
        "chosen": None if pick is None else pick.chosen,
        "fastest": None if pick is None else pick.fastest,
        "near": [] if pick is None else list(pick.near),
        "measured_afresh": pick is not None and pick.reading is not None,
        "settings": dict(settings),
        "candidates": [_candidate_document(row) for row in rows_of(tuning)],
        "against_chosen": [
            {
                "name": each.config,
                "seconds_ratio": dataclasses.asdict(each.ratio),
                "verdict": call_words(each),
            }
            for each in against_chosen(tuning)
        ],
        "findings": [dataclasses.asdict(each) for each in tune_findings(tuning)],
        "spent_seconds": tuning.spent_seconds,
        "budget_seconds": tuning.budget_seconds,
        "interrupted": tuning.interrupted,
        "notes": list(tuning.notes),
    }


def _candidate_document(row: Row) -> dict[str, object]:
    config, summary = row.candidate.config, row.summary
    return {
        "name": row.name,
        "batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "switches": dict(row.candidate.switches),
        "measured": summary is not None,
        "measured_afresh": row.is_final,
        "tokens_per_second": None
        if row.tokens_per_second is None
        else dataclasses.asdict(row.tokens_per_second),
        "iteration_seconds": None if summary is None else summary.iteration_seconds,
        "share_of_peak": None if summary is None else summary.card_share,
        "share_of_matmul": None if summary is None else summary.ceiling_share,
        "peak_bytes": row.peak_bytes,
        "run_bytes": row.needs_bytes,
        "predicted_bytes": None if row.candidate.memory is None else row.candidate.memory.total,
        "predicted_seconds": row.candidate.predicted_seconds,
        "fits": fits_words(row),
        "reason": row.reason,
    }
