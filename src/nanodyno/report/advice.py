"""What would make a config fit, as a table."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from nanodyno.config.attributes import Arithmetic
from nanodyno.costs.advice import MemoryAdvice
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.prose import Prose

NOTHING_FITS = "plan.advice.nothing-enough"
ARITHMETIC: dict[Arithmetic, str] = {
    "exact": "plan.advice.arithmetic-exact",
    "rounding": "plan.advice.arithmetic-rounding",
    "different": "plan.advice.arithmetic-different",
}


def advice_table(
    advice: Sequence[MemoryAdvice], host_bytes: int | None, language: Language = ENGLISH
) -> RenderableType:
    """`host_bytes` are free in the machine that the GPU is in, where that is known."""
    possible = any(each.fits for each in advice)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(language.say("plan.advice.title"), overflow="fold")
    table.add_column(language.say("plan.advice.memory-saved"), justify="right", no_wrap=True)
    table.add_column(language.say("common.time"), justify="right", no_wrap=True)
    table.add_column(language.say("common.fits"), no_wrap=True)
    table.add_column(language.say("plan.advice.arithmetic"), no_wrap=True)
    for each in advice:
        fits = "common.yes" if each.fits else "plan.advice.fits-not-alone" if possible else "common.no"
        table.add_row(
            " ".join(f"--{key}={value}" for key, value in each.settings),
            quantities.gib(each.saved_bytes, language),
            quantities.share(round(100 * each.slower) / 100, "+.0f", language),
            language.say(fits),
            language.say(ARITHMETIC[each.arithmetic]),
            style="" if each.fits else "dim",
        )
    pieces: list[RenderableType] = [table] if advice else []
    moved = max((each.host_bytes for each in advice), default=0)
    if moved:
        pieces.append(Prose(_offload_words(moved, host_bytes, language)))
    return Group(*pieces, *([] if possible else [Prose(language.say(NOTHING_FITS), style="red")]))


def _offload_words(moved: int, host_bytes: int | None, language: Language) -> str:
    size = quantities.gib(moved, language)
    if host_bytes is None:
        return language.say("plan.advice.offload-host-memory", size=size)
    return language.say(
        "plan.advice.offload-host-memory-free",
        size=size,
        free=quantities.gib(host_bytes, language),
    )
