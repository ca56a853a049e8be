"""Probes as a table with intervals, bars of where the time went, and sentences for what is no number."""

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.budget import Reading
from nanodyno.analysis.probes import ProbeSummary, TimeShares, summarise_probe
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.verdict import SpeedComparison
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import PARTS_OF_TIME
from nanodyno.records.probe import Measured, MemoryRecord, ProbeResult
from nanodyno.report.document import as_document
from nanodyno.report.probe_notes import probe_notes
from nanodyno.report.prose import Prose

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "white", "bright_black")
PERCENT_WIDTH = 7
LEAST_BAR = 4
MOST_BAR = 40
FULL, HALF = "█", "▌"
UNKNOWN = "-"
ALL_COLUMNS_WIDTH = 98
"""Of the numbers beside a config's name."""
LONGEST_NAME = 20
"""Longer ones are folded."""


def probes_page(
    results: Mapping[str, ProbeResult], reading: Reading, width: int, language: Language = ENGLISH
) -> RenderableType:
    """Everything that came of measuring these configs."""
    measured = {name: result for name, result in results.items() if isinstance(result, Measured)}
    summaries = _summaries(results, reading)
    pieces: list[RenderableType] = []
    if measured:
        pieces += [Prose(_where(next(iter(measured.values())), language)), Text()]
        pieces.append(rates_table(measured, summaries, width, language))
    if reading.comparisons:
        pieces += [Text(), comparison_table(reading.comparisons, language)]
    shares = {name: summary.time for name, summary in summaries.items() if summary.time is not None}
    if shares:
        pieces += [Text(), bars(shares, width, language)]
    notes = [
        Prose(language.say("probe.note.of-config", name=name, note=words))
        for name, result in results.items()
        for words in probe_notes(result, summaries.get(name), language)
    ]
    notes += [
        Prose(
            language.say(
                "probe.note.round-left-out",
                name=odd.config,
                number=language.number(odd.round + 1, ","),
            )
        )
        for odd in reading.odd
    ]
    return Group(*pieces, *([Text()] if pieces and notes else []), *notes)


def rates_table(
    measured: Mapping[str, Measured],
    summaries: Mapping[str, ProbeSummary],
    width: int,
    language: Language = ENGLISH,
) -> Table:
    """One config a row; narrow windows lose the columns that are least asked for."""
    on_gpu = any(summary.speed.mfu is not None for summary in summaries.values())
    table = Table(box=None, pad_edge=False, header_style="bold")
    name_width = min(max(map(len, summaries)), LONGEST_NAME)
    table.add_column(language.say("probe.table.config"), overflow="fold", min_width=name_width)
    share_title = "common.share-of-peak-short" if on_gpu else "common.share-of-matmul-short"
    titles = [
        "unit.tok-per-s",
        "common.interval-95",
        "unit.ms-per-micro-batch",
        share_title,
        "common.peak-memory-short",
    ]
    wide = width >= ALL_COLUMNS_WIDTH + name_width
    titles += ["unit.ms-per-iter", "common.work", "probe.table.processes"] if wide else []
    for title in titles:
        table.add_column(language.say(title), justify="right", no_wrap=True)
    for name, summary in summaries.items():
        share = summary.speed.mfu if on_gpu else summary.speed.ceiling_fraction
        cells = [
            quantities.rate(summary.tokens_per_second.value, language),
            _bounds(summary.tokens_per_second, language),
            language.number(summary.micro_step_seconds.value * 1000, ",.2f"),
            UNKNOWN if share is None else quantities.percent(share.value, language),
            _peak_memory(measured[name].memory, language),
        ]
        if wide:
            iteration = language.number(summary.iteration_seconds.value * 1000, ",.1f")
            work = quantities.flop_rate(summary.achieved_flops_per_second.value, language)
            cells += [iteration, work, str(summary.processes)]
        table.add_row(name, *cells)
    return table


def comparison_table(comparisons: Sequence[SpeedComparison], language: Language = ENGLISH) -> Table:
    """Speed against the reference: time per token turned round, so that more is faster."""
    level = language.number(100 * comparisons[0].ratio.level, ".3g")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(language.say("probe.table.config"), overflow="fold")
    against = language.say("probe.comparison.speed-against", name=comparisons[0].reference)
    table.add_column(against, justify="right")
    table.add_column(language.say("probe.comparison.interval", level=level), justify="right", no_wrap=True)
    table.add_column("")
    for each in comparisons:
        ratio = each.ratio
        low, high = (None if bound is None else 1 / bound for bound in (ratio.high, ratio.low))
        interval = UNKNOWN
        if low is not None and high is not None:
            interval = _range_words(_change(low, language), _change(high, language), language)
        table.add_row(each.config, _change(1 / ratio.value, language), interval, call_words(each, language))
    return table


def call_words(comparison: SpeedComparison, language: Language = ENGLISH) -> str:
    if comparison.call == "tied":
        margin = quantities.percent(comparison.margin, language)
        return language.say("probe.comparison.tied", margin=margin)
    if comparison.call == "different":
        return (
            language.say("probe.comparison.faster")
            if comparison.ratio.value < 1
            else language.say("probe.comparison.slower")
        )
    return language.say("probe.comparison.no-difference")


def call_code(comparison: SpeedComparison) -> str:
    """As documents have it, whatever the words."""
    if comparison.call != "different":
        return comparison.call
    return "faster" if comparison.ratio.value < 1 else "slower"


def bars(shares: Mapping[str, TimeShares], width: int, language: Language = ENGLISH) -> Table:
    """A row a part, a column a config; without room for bars the percentages alone."""
    titles = ("common.where-time-went", *PARTS_OF_TIME.values())
    title_width = max(cell_len(language.say(each)) for each in titles)
    room = (min(width, 120) - title_width) // len(shares) - PERCENT_WIDTH - 3
    longest = max(share for each in shares.values() for _, share in share_rows(each))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(language.say("common.where-time-went"), no_wrap=True)
    for name in shares:
        table.add_column(name if len(shares) > 1 else "", overflow="fold")
    for number, title in enumerate(PARTS_OF_TIME.values()):
        found = [dict(share_rows(each))[title] for each in shares.values()]
        drawn = (
            _bar(share, share / longest if longest else 0, min(room, MOST_BAR), (COLOURS[number], language))
            for share in found
        )
        table.add_row(language.say(title), *drawn)
    return table


def share_rows(shares: TimeShares) -> list[tuple[str, float]]:
    known: dict[str, float] = {**shares.parts, "data": shares.data, "idle": shares.idle}
    return [(title, known.get(part, 0.0)) for part, title in PARTS_OF_TIME.items()]


def _bar(share: float, length: float, room: int, pen: tuple[str, Language]) -> Text:
    """length: of the longest."""
    colour, language = pen
    percent = quantities.share(share, ".1f", language).rjust(6)
    if room < LEAST_BAR:
        return Text(percent)
    halves = round(2 * room * length)
    drawn = FULL * (halves // 2) + HALF * (halves % 2)
    return Text.assemble((drawn.ljust(room), colour), " ", percent)


def _where(result: Measured, language: Language) -> str:
    """On what, in which arithmetic, and the ceiling that shares are of."""
    setup, machine = result.setup, result.setup.machine
    device = machine.device_name
    if machine.device_type == "cpu":
        device = language.joined([device, quantities.threads(machine.cpu_threads, language)])
    words = language.say(
        "probe.where.device",
        device=device,
        dtype=setup.arithmetic.dtype,
        torch=setup.versions.torch,
    )
    if setup.matmul_flops_per_second is None:
        return words
    rate = quantities.flop_rate(setup.matmul_flops_per_second, language)
    ceiling = language.say("probe.where.matmul", rate=rate, size=str(setup.matmul_size))
    return language.clauses([words, ceiling])


def _summaries(results: Mapping[str, ProbeResult], reading: Reading) -> dict[str, ProbeSummary]:
    left_out = {repetition.round for repetition in reading.odd}
    return {
        name: summarise_probe(result, left_out)
        for name, result in results.items()
        if isinstance(result, Measured)
    }


def _bounds(interval: Interval, language: Language) -> str:
    if interval.low is None or interval.high is None:
        return UNKNOWN
    low, high = (quantities.rate(bound, language) for bound in (interval.low, interval.high))
    return _range_words(low, high, language)


def _range_words(low: str, high: str, language: Language) -> str:
    return language.say("common.range", low=low, high=high)


def _peak_memory(memory: MemoryRecord, language: Language) -> str:
    peak = memory.peak_allocated_bytes or memory.peak_host_bytes
    return UNKNOWN if peak is None else quantities.gib(peak, language)


def _change(ratio: float, language: Language) -> str:
    """1.072 as +7.2%."""
    return quantities.share(ratio - 1, "+.1f", language)


def _comparison_document(comparison: SpeedComparison) -> dict[str, object]:
    """The ratio is of times, so that below 1 is faster."""
    return {
        "config": comparison.config,
        "reference": comparison.reference,
        "seconds_ratio": comparison.ratio.document(),
        "margin": comparison.margin,
        "verdict": call_code(comparison),
    }


def probes_document(results: Mapping[str, ProbeResult], reading: Reading) -> dict[str, object]:
    """Raw facts of every config and what is derived from them, under the names of the code."""
    summaries = _summaries(results, reading)
    return {
        "results": {
            name: {
                **result.model_dump(mode="json"),
                "summary": as_document(summaries[name]) if name in summaries else None,
            }
            for name, result in results.items()
        },
        "comparisons": [_comparison_document(each) for each in reading.comparisons],
        "rounds_set_aside": sorted({repetition.round for repetition in reading.odd}),
    }
