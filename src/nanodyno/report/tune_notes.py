"""What is to be said of a tuning's rows: why some have no figures, and what disturbed those of others."""

from collections.abc import Iterator, Sequence

from nanodyno.analysis.tuning import TuneRow, Tuning
from nanodyno.messages import quantities
from nanodyno.messages.language import Language
from nanodyno.records.probe import Disturbance, DisturbanceCode, Measured, OutOfMemory
from nanodyno.report.disturbances import USUAL, disturbance_words, result_words
from nanodyno.report.tune_words import REASONS


def untried(tuning: Tuning, rows: Sequence[TuneRow], language: Language) -> Iterator[str]:
    """Why rows have no figures, or ended after their first: each reason once."""
    by_words: dict[str, list[str]] = {}
    for row in rows:
        if tuning.interrupted and row.reason == "no-time":
            continue  # for want of a hand, not of time: that it was stopped is told
        if row.reason is not None and (row.summary is None or row.name in tuning.lost):
            by_words.setdefault(_why(tuning, row, language), []).append(row.name)
    for words, names in by_words.items():
        yield language.say("tune.note.reason-of-candidates", names=language.joined(names), reason=words)


def _why(tuning: Tuning, row: TuneRow, language: Language) -> str:
    if row.candidate.hopeless and row.candidate.memory is not None:
        needs = quantities.gib(row.candidate.memory.total, language)
        return language.say("tune.note.too-large-predicted", needs=needs)
    ended = tuning.lost.get(row.name, row.result)
    is_plain = isinstance(ended, OutOfMemory) and row.summary is None
    if ended is not None and not isinstance(ended, Measured) and not is_plain:
        return result_words(ended, language)
    return language.say(REASONS[row.reason]) if row.reason is not None else ""


def disturbed(rows: Sequence[TuneRow], language: Language) -> Iterator[str]:
    """What had a part in figures that are shown, by its kind."""
    by_code: dict[DisturbanceCode, list[tuple[str, Disturbance]]] = {}
    for row in rows:
        for each in _disturbances(row):
            by_code.setdefault(each.code, []).append((row.name, each))
    for found in by_code.values():
        names = list(dict.fromkeys(name for name, _ in found))
        _, worst = max(found, key=lambda pair: max(pair[1].numbers.values(), default=0.0))
        cause = language.say("tune.note.disturbed-counted", cause=disturbance_words(worst, language))
        yield language.say("tune.note.reason-of-candidates", names=language.joined(names), reason=cause)


def disturbance_document(row: TuneRow) -> list[str]:
    return list(dict.fromkeys(each.code for each in _disturbances(row)))


def _disturbances(row: TuneRow) -> list[Disturbance]:
    if row.summary is None or not isinstance(row.result, Measured):
        return []
    return [
        each
        for repetition in row.result.repetitions
        for each in repetition.disturbances
        if each.code not in USUAL
    ]
