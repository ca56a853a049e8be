"""An attribution as a page to open: the difference, a waterfall, the effects, every combination, and why."""

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.analysis.shapley import last_combination
from nanodyno.messages.language import Language
from nanodyno.messages.numbers import value_words
from nanodyno.report.attribute import (
    OF_THE_WHOLE,
    answer_words,
    attribution_sections,
    remarks,
    stopped_words,
    title_words,
)
from nanodyno.report.attribute_picture import waterfall_figure
from nanodyno.report.attribute_tables import (
    changes_table,
    combinations_table,
    judged,
    parts_table,
    size_words,
)
from nanodyno.report.page import Page, PageElement, Section, Tile, Tiles, from_terminal

ROOMY = 400
"""A width at which no column of a terminal's table is left out."""
MOST_COLUMNS = 2
"""Of settings, beside the figures: with more of them a page would have to be scrolled sideways."""


def attribution_report(found: Attribution, language: Language) -> Page:
    findings = attribution_findings(found)
    reported = answer_words(found, findings, language)
    if found.interrupted:
        reported.append(stopped_words(language))
    sections = [Section(title_words(found, language), (*reported, *_tiles(found, language)))]
    if found.look.effects.parts:
        shown = (waterfall_figure(found, language), *from_terminal(parts_table(found, ROOMY, language)))
        sections.append(Section(language.say("attribute.parts.title"), shown))
    table = changes_table if len(found.design.factors) > MOST_COLUMNS else combinations_table
    combinations = from_terminal(table(found, ROOMY, language))
    sections.append(Section(language.say("attribute.section.combinations"), combinations))
    sections += attribution_sections([each for each in findings if each.code not in OF_THE_WHOLE], language)
    known = tuple(remarks(found, language))
    if known:
        sections.append(Section(language.say("page.section.notes"), known))
    return Page(language.say("attribute.page-title"), tuple(sections), found.names)


def _tiles(found: Attribution, language: Language) -> tuple[PageElement, ...]:
    total = found.look.effects.total
    before, after = found.value(0), found.value(last_combination(len(found.design.factors)))
    if total is None or before is None or after is None:
        return ()
    tiles = (
        Tile(language.say("common.before"), value_words(before, found.metric, language)),
        Tile(language.say("common.after"), value_words(after, found.metric, language)),
        Tile(
            language.say("attribute.tile.difference"),
            size_words(found, total, language),
            judged(found, total, language)[0],
        ),
    )
    return (Tiles(tiles),)
