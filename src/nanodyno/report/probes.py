"""Probes as a table with intervals, bars of where the time went, and sentences for what is no number."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.budget import Reading
from nanodyno.analysis.probes import ProbeSummary, TimeShares, summarise_probe
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.verdict import Comparison
from nanodyno.records.probe import Measured, MemoryRecord, Part, ProbeResult
from nanodyno.report import quantities
from nanodyno.report.disturbances import USUAL, disturbance_words, redone_words, result_words

PARTS: tuple[Part, ...] = (
    "matrix products",
    "attention",
    "loss",
    "element-wise",
    "optimiser",
    "copies",
)
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "white", "bright_black")
TITLE_WIDTH = 17
PERCENT_WIDTH = 7
LEAST_BAR = 4
MOST_BAR = 40
FULL, HALF = "█", "▌"
LAUNCH_BOUND = 0.25
UNKNOWN = "-"
ALL_COLUMNS_WIDTH = 98
"""Of the numbers beside a config's name."""
LONGEST_NAME = 20
"""Longer ones are folded."""


def probes_page(results: Mapping[str, ProbeResult], reading: Reading, width: int) -> RenderableType:
    """Everything that came of measuring these configs."""
    measured = {name: result for name, result in results.items() if isinstance(result, Measured)}
    summaries = _summaries(results, reading)
    pieces: list[RenderableType] = []
    if measured:
        pieces += [Text(_where(next(iter(measured.values())))), Text()]
        pieces.append(rates_table(measured, summaries, width))
    if reading.comparisons:
        pieces += [Text(), comparison_table(reading.comparisons)]
    shares = {name: summary.time for name, summary in summaries.items() if summary.time is not None}
    if shares:
        pieces += [Text(), bars(shares, width)]
    notes = [
        Text(f"{name}: {words}")
        for name, result in results.items()
        for words in _notes(result, summaries.get(name))
    ]
    notes += [
        Text(f"{odd.config}: process {odd.round + 1} was unlike the others, so its round was set aside")
        for odd in reading.odd
    ]
    return Group(*pieces, *([Text()] if pieces and notes else []), *notes)


def rates_table(measured: Mapping[str, Measured], summaries: Mapping[str, ProbeSummary], width: int) -> Table:
    """One config a row; narrow windows lose the columns that are least asked for."""
    on_card = any(summary.card_share is not None for summary in summaries.values())
    table = Table(box=None, pad_edge=False, header_style="bold")
    name_width = min(max(map(len, summaries)), LONGEST_NAME)
    table.add_column("config", overflow="fold", min_width=name_width)
    titles = ["tok/s", "95% interval", "ms/micro-batch", "of peak" if on_card else "of matmul", "peak mem"]
    wide = width >= ALL_COLUMNS_WIDTH + name_width
    titles += ["ms/iter", "work", "processes"] if wide else []
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for name, summary in summaries.items():
        share = summary.card_share if on_card else summary.ceiling_share
        cells = [
            quantities.rate(summary.tokens_per_second.estimate),
            _bounds(summary.tokens_per_second),
            f"{summary.micro_step_seconds * 1000:,.2f}",
            UNKNOWN if share is None else quantities.percent(share),
            _peak_memory(measured[name].memory),
        ]
        if wide:
            iteration = f"{summary.iteration_seconds * 1000:,.1f}"
            cells += [iteration, quantities.flop_rate(summary.flops_per_second), str(summary.processes)]
        table.add_row(name, *cells)
    return table


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Speed against the reference: time per token turned round, so that more is faster."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("config", overflow="fold")
    table.add_column(f"tok/s against {comparisons[0].reference}", justify="right")
    table.add_column(f"{100 * comparisons[0].ratio.level:.3g}% interval", justify="right", no_wrap=True)
    table.add_column("")
    for each in comparisons:
        ratio = each.ratio
        low, high = (None if bound is None else 1 / bound for bound in (ratio.high, ratio.low))
        interval = UNKNOWN if low is None or high is None else f"{_change(low)} to {_change(high)}"
        table.add_row(each.config, _change(1 / ratio.estimate), interval, call_words(each))
    return table


def call_words(comparison: Comparison) -> str:
    if comparison.call == "tied":
        return f"tied within {quantities.percent(comparison.margin)}"
    if comparison.call == "different":
        return "faster" if comparison.ratio.estimate < 1 else "slower"
    return "no difference shown"


def bars(shares: Mapping[str, TimeShares], width: int) -> Table:
    """A row a part, a column a config; without room for bars the percentages alone."""
    room = (min(width, 120) - TITLE_WIDTH) // len(shares) - PERCENT_WIDTH - 3
    longest = max(share for each in shares.values() for _, share in share_rows(each))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("where the time went", no_wrap=True)
    for name in shares:
        table.add_column(name if len(shares) > 1 else "", overflow="fold")
    for number, title in enumerate((*PARTS, "waiting for data", "idle")):
        found = [dict(share_rows(each))[title] for each in shares.values()]
        table.add_row(title, *(_bar(share, longest, min(room, MOST_BAR), COLOURS[number]) for share in found))
    return table


def share_rows(shares: TimeShares) -> list[tuple[str, float]]:
    parts = [(str(part), shares.parts.get(part, 0.0)) for part in PARTS]
    return [*parts, ("waiting for data", shares.data), ("idle", shares.idle)]


def _bar(share: float, longest: float, room: int, colour: str) -> Text:
    percent = f"{share:6.1%}"
    if room < LEAST_BAR:
        return Text(percent)
    halves = round(2 * room * share / longest) if longest else 0
    drawn = FULL * (halves // 2) + HALF * (halves % 2)
    return Text.assemble((drawn.ljust(room), colour), " ", percent)


def _where(result: Measured) -> str:
    """On what, in which arithmetic, and the ceiling that shares are of."""
    setup, machine = result.setup, result.setup.machine
    threads = f", {quantities.threads(machine.cpu_threads)}" if machine.device_type == "cpu" else ""
    words = f"on {machine.device_name}{threads}, {setup.arithmetic.dtype}, torch {setup.versions.torch}"
    if setup.matmul_flops_per_second is not None:
        rate, size = quantities.flop_rate(setup.matmul_flops_per_second), setup.matmul_size
        words += f"; matmul here: {rate} at {size} x {size}"
    return words


def _summaries(results: Mapping[str, ProbeResult], reading: Reading) -> dict[str, ProbeSummary]:
    left_out = {visit.round for visit in reading.odd}
    return {
        name: summarise_probe(result, left_out)
        for name, result in results.items()
        if isinstance(result, Measured)
    }


def _notes(result: ProbeResult, summary: ProbeSummary | None) -> Iterator[str]:
    if not isinstance(result, Measured) or summary is None:
        assert not isinstance(result, Measured)
        yield result_words(result)
        return
    yield from _how_sure(summary)
    yield from _why(result, summary)
    yield from result.setup.notes
    yield from _told(result)
    if result.redone:
        yield redone_words(result.redone)
    if result.breakdown_fault is not None:
        yield f"no breakdown: {result.breakdown_fault}"
    if result.stopped is not None:
        yield f"ended before its time: {result.stopped}"


def _told(result: Measured) -> Iterator[str]:
    """What disturbed visits that count, the last of its kind, and how many it disturbed."""
    last = {each.code: each for visit in result.visits for each in visit.disturbances}
    for code, each in last.items():
        times = sum(any(found.code == code for found in visit.disturbances) for visit in result.visits)
        often = f" (the last of {times} of {len(result.visits)} visits)" if len(result.visits) > 1 else ""
        yield f"{'noted' if code in USUAL else 'disturbed, and counted'}: {disturbance_words(each)}{often}"


def _how_sure(summary: ProbeSummary) -> Iterator[str]:
    if summary.processes > 1:
        return
    known = "not known" if summary.own_precision is None else f"±{quantities.percent(summary.own_precision)}"
    yield (
        f"one process of {summary.iterations} iterations, its own mean {known}; how processes differ takes "
        "more --processes"
    )


def _why(result: Measured, summary: ProbeSummary) -> Iterator[str]:
    """What the breakdown and the allocator explain."""
    time, memory = summary.time, result.memory
    on_card = result.setup.machine.device_type == "cuda"
    if time is not None and on_card and time.idle >= LAUNCH_BOUND:
        often = time.launches_per_micro_step or time.kernels_per_micro_step
        yield f"launch-bound: the card idles {time.idle:.0%} of a micro-step, which has {often:,.0f} launches"
    if memory.alloc_retries:
        yield f"the allocator had to start over {memory.alloc_retries} times: memory is all but full"


def _bounds(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return UNKNOWN
    return f"{quantities.rate(interval.low)} to {quantities.rate(interval.high)}"


def _peak_memory(memory: MemoryRecord) -> str:
    peak = memory.peak_allocated_bytes or memory.peak_host_bytes
    return UNKNOWN if peak is None else quantities.gib(peak)


def _change(ratio: float) -> str:
    """1.072 as +7.2%."""
    return f"{100 * (ratio - 1):+.1f}%"


def _comparison_document(comparison: Comparison) -> dict[str, object]:
    """The ratio is of times, so that below 1 is faster."""
    return {
        "config": comparison.config,
        "reference": comparison.reference,
        "seconds_ratio": dataclasses.asdict(comparison.ratio),
        "margin": comparison.margin,
        "verdict": "tied" if comparison.call == "tied" else call_words(comparison),
    }


def probes_document(results: Mapping[str, ProbeResult], reading: Reading) -> dict[str, object]:
    """Raw facts of every config and what is derived from them, under the names of the code."""
    summaries = _summaries(results, reading)
    return {
        "results": {
            name: {
                **result.model_dump(mode="json"),
                "summary": dataclasses.asdict(summaries[name]) if name in summaries else None,
            }
            for name, result in results.items()
        },
        "comparisons": [_comparison_document(each) for each in reading.comparisons],
        "rounds_set_aside": sorted({visit.round for visit in reading.odd}),
    }
