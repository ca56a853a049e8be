"""What the gradient noise says about the batch, as a page to open: what serves, and how the noise went."""

from nanodyno.analysis.effective import BatchSizeAdvice
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.report.effective import NoiseScaleSource, advice_rows, course_table, title_words
from nanodyno.report.figures import Estimate, Intervals
from nanodyno.report.page import Page, Section, Table, from_terminal


def effective_report(asked: NoiseScaleSource, advice: BatchSizeAdvice, language: Language) -> Page:
    answer = Table(("", ""), tuple(advice_rows(advice, language)))
    sections = [Section(title_words(asked, language), (answer,))]
    if len(advice.points) > 1:
        course = _picture(advice, language), *from_terminal(course_table(advice, language))
        sections.append(Section(language.say("batch.picture.section"), course))
    return Page(language.say("batch.page-title"), tuple(sections), (asked.name,))


def _picture(advice: BatchSizeAdvice, language: Language) -> Intervals:
    rows = tuple(
        Estimate(
            q.count(point.tokens_seen, language),
            scale.tokens,
            q.count(scale.tokens, language),
            scale.low,
            scale.high,
        )
        for point in advice.points
        if (scale := point.scale).tokens is not None
    )
    return Intervals(
        language.say("batch.picture.title"),
        language.say("batch.picture.note"),
        language.say("common.tokens-seen"),
        lambda value: q.count(value, language),
        rows,
        from_zero=False,
    )
