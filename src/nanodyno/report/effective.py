"""What effective batch the gradient noise calls for, for a terminal and as a document."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.effective import BatchSizeAdvice, Lack, Verdict
from nanodyno.analysis.noise_scale import FEWEST_POINTS
from nanodyno.messages import quantities as q
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.document import as_document
from nanodyno.report.noise import decay_words, noise_scale_words, unmeasured_words, unsettled_words
from nanodyno.report.prose import Prose

Whence = Literal["records", "short-training"]
HEADS: Mapping[Whence, str] = {
    "records": "batch.title.from-records",
    "short-training": "batch.title.from-short-training",
}
VERDICTS: Mapping[Verdict, str] = {
    "small": "batch.advice.too-small",
    "within": "batch.advice.within",
    "open": "batch.advice.undecided",
    "large": "batch.advice.too-large",
}
"""Of an estimate that has settled."""
LACKS: Mapping[Lack | None, str] = {
    "no-iteration": "batch.not-measured.no-iteration",
    "no-sample": "batch.not-measured.no-sample",
}


@dataclass(frozen=True)
class NoiseScaleSource:
    """Whose noise it is, and how it was come by."""

    name: str
    whence: Whence
    iterations: int
    tokens_seen: int


def effective_page(
    asked: NoiseScaleSource, advice: BatchSizeAdvice, language: Language = ENGLISH
) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for title, words in advice_rows(advice, language):
        facts.add_row(title, Prose(words))
    parts: list[RenderableType] = [Prose(title_words(asked, language), style="bold"), Text(), facts]
    if len(advice.points) > 1:
        parts += [Text(), course_table(advice, language)]
    return Group(*parts)


def title_words(asked: NoiseScaleSource, language: Language) -> str:
    seen = language.joined(
        [
            language.say_plural("common.iteration-count", asked.iterations),
            language.say("common.token-count", number=q.count(asked.tokens_seen, language)),
        ]
    )
    return language.say(HEADS[asked.whence], name=asked.name, seen=seen)


def advice_rows(advice: BatchSizeAdvice, language: Language) -> Iterator[tuple[str, str]]:
    scale = advice.scale
    if scale is None:
        words = language.say(LACKS[advice.lack]) if advice.lack in LACKS else unmeasured_words(language)
        yield language.say("common.noise-scale"), words
        return
    words = noise_scale_words(scale, language)
    if advice.decayed_at is not None:
        words = language.clauses([words, decay_words(advice.decayed_at, language)])
    yield language.say("common.noise-scale"), words
    if advice.critical_batch_range is None or advice.suggested is None or advice.token_cost_ratio is None:
        why = unsettled_words(scale, language)
        words = language.say("batch.advice.none-yet", why=why)
        yield language.say("batch.row.advice"), words
        return
    low, high = (q.rate(each, language) for each in advice.critical_batch_range)
    has = language.number(advice.tokens_per_iter, ",")
    yield (
        language.say("batch.row.range-now"),
        language.say(VERDICTS[advice.verdict], low=low, high=high, has=has),
    )
    yield (
        language.say("batch.row.token-cost"),
        language.say(
            "batch.token-cost",
            has=has,
            times=language.number(advice.token_cost_ratio, ".2f"),
        ),
    )
    wanted = f"--tokens_per_iter={advice.suggested} --batch_size={advice.batch_size}"
    if advice.verdict in ("small", "large"):
        words = language.say("batch.settings-to-try", settings=wanted)
        yield language.say("batch.row.settings-to-try"), words
    yield language.say("batch.row.trend"), _heading_words(advice, language)
    if advice.ramp:
        steps = ",".join(f"{since}:{size}" for since, size in advice.ramp)
        yield language.say("batch.row.ramp-settings"), f"{wanted} --batch_ramp={steps}"


def _heading_words(advice: BatchSizeAdvice, language: Language) -> str:
    heads = advice.heading
    if heads is None:
        if len(advice.points) < FEWEST_POINTS:
            return language.say("batch.trend.not-known")
        return language.say("batch.trend.run-ended")
    return language.say(
        "batch.trend.expected",
        tokens=q.count(heads.tokens, language),
        low=q.count(heads.low, language),
        high=q.count(heads.high, language),
        seen=q.count(heads.tokens_seen, language),
        exponent=language.number(heads.exponent, ".2f"),
        points=str(heads.points),
    )


def course_table(advice: BatchSizeAdvice, language: Language) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = "common.tokens-seen", "common.loss", "common.noise-scale", "common.interval-95"
    for title in titles:
        table.add_column(language.say(title), justify="right", no_wrap=True)
    for point in advice.points:
        scale = point.scale
        assert scale.tokens is not None
        assert scale.low is not None
        assert scale.high is not None
        low, high = q.count(scale.low, language), q.count(scale.high, language)
        table.add_row(
            q.count(point.tokens_seen, language),
            language.number(point.loss, ".3f"),
            q.count(scale.tokens, language),
            language.say("common.range", low=low, high=high),
        )
    return table


def effective_document(asked: NoiseScaleSource, advice: BatchSizeAdvice) -> dict[str, object]:
    found = as_document(advice)
    return {
        "of": as_document(asked),
        "settled": advice.scale is not None and advice.scale.settled,
        "noise_scale": found.pop("scale"),
        **found,
    }
