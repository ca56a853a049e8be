"""What effective batch the gradient noise calls for, as a page and as a document."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.effective import Advice, Verdict
from nanodyno.report import quantities as q
from nanodyno.report.noise import noise_scale_words, unsettled_words

NOT_MEASURED = (
    "no iteration measured the noise: each had one micro-step, or none was done; half the batch_size at the "
    "same tokens_per_iter makes it two"
)
VERDICTS: Mapping[Verdict, str] = {
    "small": "is smaller: that costs no tokens, but more updates than it need make",
    "serves": "is among them",
    "large": "is larger: fewer would reach the same loss with fewer tokens",
    "not-settled": "",
    "not-measured": "",
}


@dataclass(frozen=True)
class Asked:
    """Whose noise it is, and how it was come by."""

    name: str
    whence: str
    iterations: int
    tokens_seen: int


def effective_page(asked: Asked, advice: Advice) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for title, words in rows(advice):
        facts.add_row(title, Text(words))
    seen = f"{asked.iterations:,} iterations, {q.count(asked.tokens_seen)} tokens"
    parts: list[RenderableType] = [
        Text(f"Gradient noise of {asked.name}, {asked.whence}: {seen}", style="bold"),
        Text(),
        facts,
    ]
    if len(advice.points) > 1:
        parts += [Text(), _course(advice)]
    return Group(*parts)


def rows(advice: Advice) -> Iterator[tuple[str, str]]:
    scale = advice.scale
    if scale is None:
        yield "noise scale", NOT_MEASURED
        return
    yield "noise scale", noise_scale_words(scale)
    if advice.serves is None or advice.suggested is None or advice.dearer is None:
        yield "advice", f"none: {unsettled_words(scale)}; train it longer, or with more micro-steps"
        return
    low, high = (q.rate(each) for each in advice.serves)
    has = f"{advice.tokens_per_iter:,}"
    yield "serves now", f"{low} to {high} tokens per iteration; {has} {VERDICTS[advice.verdict]}"
    yield "in tokens", f"by theory {has} takes {advice.dearer:.2f} times the fewest to a loss"
    wanted = f"--tokens_per_iter={advice.suggested} --batch_size={advice.batch_size}"
    if advice.verdict != "serves":
        yield "try", f"{wanted}, the learning rate by the root of the change"
    yield "heads to", _heading_words(advice)
    if advice.ramp:
        steps = ",".join(f"{since}:{size}" for since, size in advice.ramp)
        yield "to follow it", f"{wanted} --batch_ramp={steps}"


def _heading_words(advice: Advice) -> str:
    heads = advice.heading
    if heads is None:
        return "not known: it takes four settled stretches and a way to go; --batch_ramp=noise follows it"
    low, high = q.count(heads.low), q.count(heads.high)
    return (
        f"{q.count(heads.tokens)} tokens ({low} to {high}) at {q.count(heads.tokens_seen)} tokens, as the "
        f"tokens seen to the power of {heads.exponent:.2f} (fitted to {heads.points} stretches, not measured)"
    )


def _course(advice: Advice) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("tokens seen", "loss", "noise scale", "95% interval"):
        table.add_column(title, justify="right", no_wrap=True)
    for point in advice.points:
        scale = point.scale
        assert scale.tokens is not None
        assert scale.low is not None
        assert scale.high is not None
        table.add_row(
            q.count(point.tokens_seen),
            f"{point.loss:.3f}",
            q.count(scale.tokens),
            f"{q.count(scale.low)} to {q.count(scale.high)}",
        )
    return table


def effective_document(asked: Asked, advice: Advice) -> dict[str, object]:
    return {
        "of": dataclasses.asdict(asked),
        "settled": advice.scale is not None and advice.scale.settled,
        **dataclasses.asdict(advice),
    }
