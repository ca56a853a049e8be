"""A tuning as a page to open: what was chosen, speed and where the time goes as pictures, the table, why."""

from collections.abc import Sequence

from nanodyno.analysis.tune_findings import tune_findings
from nanodyno.analysis.tuning import TuneRow, Tuning, curve_of, rows_of
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.report.behind import numbers_table
from nanodyno.report.figures import Bar, Bars, Estimate, Intervals
from nanodyno.report.page import BulletList, Page, PageElement, Section, Table, Tile, Tiles, from_terminal
from nanodyno.report.probes import share_rows
from nanodyno.report.tune import is_asked, remarks, title_words, tune_table, verdict_lines
from nanodyno.report.tune_notes import disturbed, untried
from nanodyno.report.tune_words import finding_words, memory_words

ROOMY = 400
"""A width at which no column of a terminal's table is left out."""


def tune_report(tuning: Tuning, name: str, language: Language) -> Page:
    rows = rows_of(tuning)
    chosen = None if tuning.pick is None else tuning.pick.chosen
    lines = [line.strip() for line, _ in verdict_lines(tuning, rows, language)]
    sections = [
        Section(title_words(tuning, name, language), (*_sentences(lines), *_tiles(tuning, rows, language)))
    ]
    sections += [speed_section(tuning, language)]
    sections += [Section(language.say("common.where-time-went"), (_time(tuning, rows, language),))]
    if any(row.summary is not None for row in rows):
        sections.append(Section(language.say("tune.section.candidates"), (_table(rows, chosen, language),)))
    left = tuple(untried(tuning, rows, language))
    if left:
        sections.append(Section(language.say("tune.section.not-measured"), (BulletList(left),)))
    found = tune_findings(tuning)
    if found:
        why = BulletList(
            tuple(finding_words(each, language) for each in found),
            tuple(numbers_table(each.numbers) for each in found),
        )
        sections.append(Section(language.say("tune.section.reasons"), (why,)))
    known = (*disturbed(rows, language), *remarks(tuning, rows, language))
    sections.append(Section(language.say("page.section.notes"), known))
    return Page(language.say("tune.page-title"), tuple(sections), (name,))


def _table(rows: Sequence[TuneRow], chosen: str | None, language: Language) -> Table:
    """The terminal's, with a word in place of its mark."""
    (marked,) = from_terminal(tune_table(rows, chosen, ROOMY, language))
    assert isinstance(marked, Table)
    named = [
        (language.say("tune.table.chosen-row", micro_batch=split) if mark else split, *rest)
        for mark, split, *rest in marked.rows
    ]
    right = frozenset(place - 1 for place in marked.flush_right if place > 1)
    return Table(marked.headers[1:], tuple(named), flush_right=right)


def speed_section(tuning: Tuning, language: Language) -> Section:
    chosen = None if tuning.pick is None else tuning.pick.chosen
    curve = curve_of(rows_of(tuning), chosen)
    return Section(language.say("common.micro-batch"), (_curve(curve, chosen, language),))


def _sentences(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{line[0].upper()}{line[1:]}" for line in lines if line)


def _tiles(tuning: Tuning, rows: Sequence[TuneRow], language: Language) -> tuple[PageElement, ...]:
    row = next((row for row in rows if tuning.pick is not None and row.name == tuning.pick.chosen), None)
    if row is None or row.tokens_per_second is None:
        return ()
    config = row.candidate.config
    split = f"{config.batch_size} x {config.gradient_accumulation_steps}"
    tiles = (
        Tile(language.say("tune.tile.micro-batch-split"), split),
        Tile(language.say("common.tokens-per-second"), q.rate(row.tokens_per_second.value, language)),
        Tile(language.say("common.memory"), memory_words(row, language)),
    )
    return (Tiles(tiles),)


def _curve(curve: Sequence[TuneRow], chosen: str | None, language: Language) -> PageElement:
    rows = tuple(
        Estimate(
            str(row.candidate.batch_size),
            rate.value,
            q.rate(rate.value, language),
            rate.low,
            rate.high,
            chosen=row.name == chosen,
            beside=row.peak_bytes,
            beside_words="" if row.peak_bytes is None else q.gib(row.peak_bytes, language),
        )
        for row in curve
        if (rate := row.tokens_per_second) is not None
    )
    if not rows:
        return language.say("tune.picture.nothing-measured")
    return Intervals(
        language.say("common.speed-over-micro-batch"),
        language.say("tune.picture.speed-note"),
        language.say("common.micro-batch"),
        lambda value: q.rate(value, language),
        rows,
        from_zero=False,
        beside_label=language.say("common.memory"),
    )


def _time(tuning: Tuning, rows: Sequence[TuneRow], language: Language) -> PageElement:
    """Of the chosen one, and of what was asked for where that is another."""
    picked = [row for row in rows if tuning.pick is not None and row.name == tuning.pick.chosen]
    picked += [row for row in rows if is_asked(row, tuning) and row not in picked]
    known = {row.name: row.summary.time for row in picked if row.summary is not None and row.summary.time}
    if not known:
        return language.say("tune.picture.time-not-measured")
    shares = [dict(share_rows(time)) for time in known.values()]
    bars = tuple(
        Bar(
            language.say(part),
            tuple(each[part] for each in shares),
            tuple(q.percent(each[part], language) for each in shares),
        )
        for part in shares[0]
        if any(each[part] for each in shares)
    )
    return Bars(
        language.say("tune.picture.time-title"),
        language.say("tune.picture.time-note"),
        bars,
        tuple(known),
    )
