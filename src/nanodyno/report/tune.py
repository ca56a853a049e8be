"""A tuning as a page for people and as a document for programs."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.candidates import Candidate
from nanodyno.analysis.tune_findings import tune_findings
from nanodyno.analysis.tuning import TuneRow, Tuning, against_chosen, curve_of, rows_of
from nanodyno.analysis.verdict import SpeedComparison
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.page import BulletList, Section, to_terminal
from nanodyno.report.probes import call_code, call_words
from nanodyno.report.prose import Prose
from nanodyno.report.tune_notes import disturbance_document, disturbed, untried
from nanodyno.report.tune_picture import tune_picture
from nanodyno.report.tune_words import (
    UNKNOWN,
    finding_words,
    fits_code,
    fits_words,
    memory_words,
    rate_words,
    spread_words,
    switch_words,
)

WIDE = 100
FIRST_ROWS = 7
FIRST_REASONS = 3
FIRST_RIVALS = 2
"""What the first page has of each at most: 30 lines in all."""
LEAST_SWITCHES = 15
MARK = "*"
RIVAL = "dim"
"""The style of those lines of a verdict that hold other finalists against the chosen one."""
CHOSEN = {
    (False, True): "tune.chosen.measured",
    (False, False): "tune.chosen.search-only",
    (True, True): "tune.best-so-far.measured",
    (True, False): "tune.best-so-far.search-only",
}
"""By whether the search was interrupted, and whether it came to the final."""
OTHER_ARITHMETIC = "tune.chosen.other-arithmetic"
AS_ASKED = "tune.chosen.as-asked"
NONE = "tune.chosen.none-measured"
NONE_ROOMY = "tune.chosen.none-fits-run"


def tune_page(tuning: Tuning, name: str, width: int, language: Language = ENGLISH) -> RenderableType:
    """Everything."""
    head = tune_head(tuning, name, language, everything=True)
    return Group(head, tune_body(tuning, width, language, everything=True))


def tune_head(tuning: Tuning, name: str, language: Language, everything: bool) -> RenderableType:
    """The title and what was chosen; of the first page without the rivals that are far behind."""
    lines = list(verdict_lines(tuning, rows_of(tuning), language))
    rivals = [line for line in lines if line[1] == RIVAL]
    left_out = [] if everything else rivals[FIRST_RIVALS:]
    title = Prose(title_words(tuning, name, language), style="bold")
    shown = [Prose(line, style=style) for line, style in lines if (line, style) not in left_out]
    return Group(title, Text(), *shown)


def tune_body(tuning: Tuning, width: int, language: Language, everything: bool) -> RenderableType:
    """The table and the reasons; of the first page the best rows and the first reasons."""
    rows = rows_of(tuning)
    chosen = None if tuning.pick is None else tuning.pick.chosen
    shown = rows if everything else _best(rows, tuning)
    pieces: list[RenderableType] = []
    if any(row.summary is not None for row in shown):
        pieces += [Text(), tune_table(shown, chosen, width, language)]
    left_out = [*untried(tuning, rows, language), *disturbed(rows, language)]
    if left_out and (everything or chosen is None):
        pieces += [Text(), *map(Prose, left_out if everything else left_out[:FIRST_REASONS])]
    curve = curve_of(rows, chosen)
    if everything and len(curve) > 1:
        pieces += [Text(), tune_picture(curve, chosen, width, language)]
    found = [finding_words(each, language) for each in tune_findings(tuning)]
    if found:
        reasons = BulletList(tuple(found if everything else found[:FIRST_REASONS]))
        pieces += [Text(), to_terminal([Section(language.say("tune.section.reasons"), (reasons,))])]
    notes = remarks(tuning, rows, language) if everything else [_more(rows, shown, language)]
    return Group(*pieces, *([Text()] if notes else []), *(Prose(each, style="dim") for each in notes))


def _more(rows: Sequence[TuneRow], shown: Sequence[TuneRow], language: Language) -> str:
    if len(rows) == len(shown):
        return language.say("tune.note.more")
    return language.say_plural("tune.note.more-rows", len(rows) - len(shown))


def _best(rows: Sequence[TuneRow], tuning: Tuning) -> list[TuneRow]:
    """The chosen one, the one asked for, finalists and the fastest, in the order of the table."""
    chosen = None if tuning.pick is None else tuning.pick.chosen

    def rank(row: TuneRow) -> tuple[bool, bool, bool, float]:
        rate = row.tokens_per_second
        worth = -(rate.value if rate else 0.0)
        return row.name != chosen, not is_asked(row, tuning), not row.is_final, worth

    best = sorted((row for row in rows if row.summary is not None), key=rank)[:FIRST_ROWS]
    return [row for row in rows if row in best]


def remarks(tuning: Tuning, rows: Sequence[TuneRow], language: Language) -> list[str]:
    predicted = any(row.summary is None and row.candidate.memory is not None for row in rows)
    mark = [language.say("tune.note.predicted")] if predicted else []
    return [*mark, *_margin(tuning, language), *tuning.notes]


def title_words(tuning: Tuning, name: str, language: Language = ENGLISH) -> str:
    machine, limit = tuning.machine, tuning.memory_limit_bytes
    device = machine.device_name
    if machine.device_type == "cpu":
        device = language.joined([device, quantities.threads(machine.cpu_threads, language)])
    if limit is not None:
        size = quantities.gib(limit, language)
        device = language.say("common.device-memory-limit", device=device, size=size)
    return language.say(
        "tune.title",
        name=name,
        device=device,
        dtype=tuning.ground.dtype,
        tokens=language.number(tuning.asked.tokens_per_iter, ","),
    )


def tune_table(
    rows: Sequence[TuneRow], chosen: str | None, width: int, language: Language = ENGLISH
) -> Table:
    """Rates with ± are of the confirmation, those without it of the screening."""
    on_gpu = any(row.summary is not None and row.summary.speed.mfu is not None for row in rows)
    narrow = width < WIDE
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0 if narrow else 1))
    table.add_column("", no_wrap=True)
    table.add_column(language.say("common.micro-batch"), justify="right", no_wrap=True)
    table.add_column(language.say("tune.table.switches"), min_width=LEAST_SWITCHES)
    share = "common.share-of-peak-short" if on_gpu else "common.share-of-matmul-short"
    for title in ("common.memory", "unit.ms-per-iter", "unit.tok-per-s", "common.plus-minus", share):
        table.add_column(language.say(title), justify="right", no_wrap=True)
    table.add_column(language.say("common.fits"), no_wrap=True)
    for row in rows:
        style = "bold" if row.name == chosen else "dim" if row.reason else ""
        table.add_row(MARK if row.name == chosen else "", *_cells(row, on_gpu, language), style=style)
    return table


def _cells(row: TuneRow, on_gpu: bool, language: Language) -> list[str]:
    """Shares are of the datasheet's peak, or of the measured ceiling where there is none."""
    config, speed, rate = row.candidate.config, row.speed, row.tokens_per_second
    split = f"{config.batch_size} x {config.gradient_accumulation_steps}"
    switches, fits = switch_words(row.candidate, language), fits_words(row, language)
    if speed is None or rate is None or row.iteration_seconds is None:
        return [split, switches, _predicted(row.candidate, language), *[UNKNOWN] * 4, fits]
    share = speed.mfu if on_gpu else speed.ceiling_fraction
    return [
        split,
        switches,
        memory_words(row, language),
        language.number(row.iteration_seconds * 1000, ",.1f"),
        quantities.rate(rate.value, language),
        spread_words(rate, language),
        UNKNOWN if share is None else quantities.percent(share.value, language),
        fits,
    ]


def _predicted(candidate: Candidate, language: Language) -> str:
    return UNKNOWN if candidate.memory is None else f"~{quantities.gib(candidate.memory.allocated, language)}"


def verdict_lines(
    tuning: Tuning, rows: Sequence[TuneRow], language: Language = ENGLISH
) -> Iterator[tuple[str, str]]:
    by_name = {row.name: row for row in rows}
    if tuning.interrupted:
        yield (
            language.say("common.stopped-can-continue"),
            "yellow",
        )
    pick = tuning.pick
    if pick is None:
        if not tuning.interrupted:
            yield language.say(NONE_ROOMY if any(row.reason == "tight" for row in rows) else NONE), "red"
        return
    chosen = by_name[pick.chosen]
    words = language.say(
        CHOSEN[tuning.interrupted, chosen.is_final],
        name=chosen.name,
        rate=rate_words(chosen, language),
        memory=memory_words(chosen, language),
    )
    yield words, "bold green"
    if other := chosen.candidate.other_arithmetic:
        yield language.say(OTHER_ARITHMETIC, switches=language.joined(other)), "yellow"
    yield from _against_others(tuning, rows, chosen, language)


def _against_others(
    tuning: Tuning, rows: Sequence[TuneRow], chosen: TuneRow, language: Language
) -> Iterator[tuple[str, str]]:
    """The chosen one against what was asked for, then the other finalists against the chosen one."""
    asked = next((row for row in rows if is_asked(row, tuning)), None)
    rivals = {each.config: each for each in against_chosen(tuning)}
    own = None if asked is None else rivals.pop(asked.name, None)
    if asked is not None and (gained := _gain_words(asked, chosen, own, language)):
        yield gained, ""
    for each in rivals.values():
        change = quantities.share(1 / each.ratio.value - 1, "+.1f", language)
        call = call_words(each, language)
        said = language.say("tune.chosen.against-candidate", config=each.config, change=change, verdict=call)
        yield said, RIVAL


def _gain_words(
    asked: TuneRow, chosen: TuneRow, own: SpeedComparison | None, language: Language
) -> str | None:
    """By how much the chosen one beats what was asked for, and how sure that is."""
    if asked.name == chosen.name:
        return language.say(AS_ASKED)
    if own is not None and own.ratio.low is not None and own.ratio.high is not None:
        change, low, high = (
            quantities.share(each - 1, "+.1f", language)
            for each in (own.ratio.value, own.ratio.low, own.ratio.high)
        )
        interval = language.say("common.range", low=low, high=high)
        return language.say("tune.chosen.against-asked", change=change, name=asked.name, interval=interval)
    if not asked.tokens_per_second or not chosen.tokens_per_second:
        return None
    gain = chosen.tokens_per_second.value / asked.tokens_per_second.value - 1
    return language.say(
        "tune.chosen.against-asked-screening",
        change=quantities.share(gain, "+.1f", language),
        name=asked.name,
    )


def is_asked(row: TuneRow, tuning: Tuning) -> bool:
    same = row.candidate.batch_size == tuning.asked.batch_size
    return same and not row.candidate.variant and row.summary is not None


def _margin(tuning: Tuning, language: Language) -> Iterator[str]:
    ground = tuning.ground
    if ground.usable_bytes is not None:
        yield language.say(
            "tune.note.memory-margin",
            context=quantities.gib(ground.context_bytes, language),
            margin=quantities.gib(ground.margin_bytes, language),
            usable=quantities.gib(ground.usable_bytes, language),
        )
    spent, budget = (
        quantities.clock(each, language) for each in (tuning.spent_seconds, tuning.budget_seconds)
    )
    if not tuning.reused:
        yield language.say("common.measuring-time", spent=spent, budget=budget)
        return
    yield language.say_plural(
        "tune.note.measuring-time-reused",
        tuning.reused,
        spent=spent,
        budget=budget,
    )


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
        "confirmed": pick is not None and pick.reading is not None,
        "settings": dict(settings),
        "candidates": [_candidate_document(row) for row in rows_of(tuning)],
        "comparisons": [
            {
                "name": each.config,
                "seconds_ratio": each.ratio.document(),
                "verdict": _verdict_code(each),
            }
            for each in against_chosen(tuning)
        ],
        "findings": [{"code": each.code, "numbers": each.numbers} for each in tune_findings(tuning)],
        "spent_seconds": tuning.spent_seconds,
        "budget_seconds": tuning.budget_seconds,
        "interrupted": tuning.interrupted,
        "notes": list(tuning.notes),
    }


def _verdict_code(comparison: SpeedComparison) -> str:
    code = call_code(comparison)
    return f"tied within {quantities.percent(comparison.margin)}" if code == "tied" else code


def _candidate_document(row: TuneRow) -> dict[str, object]:
    config = row.candidate.config
    return {
        "name": row.name,
        "batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "switches": dict(row.candidate.switches),
        "arithmetic": "different" if row.candidate.other_arithmetic else "rounding",
        "measured": row.speed is not None,
        "confirmed": row.is_final,
        "speed": None if row.speed is None else row.speed.document(),
        "peak_bytes": row.peak_bytes,
        "run_bytes": row.needs_bytes,
        "predicted_bytes": None if row.candidate.memory is None else row.candidate.memory.total,
        "predicted_seconds": row.candidate.predicted_seconds,
        "fits": fits_code(row),
        "reason": row.reason,
        "disturbed": disturbance_document(row),
    }
