"""What would make a config fit, as a table."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.costs.advice import Advice
from nanodyno.report import quantities

NOTHING_FITS = "no switch is enough for this model on this card: make it smaller (--n_layer, --n_embd)"


def advice_table(advice: Sequence[Advice], host_bytes: int | None) -> RenderableType:
    """`host_bytes` are free in the machine that the card is in, where that is known."""
    possible = any(each.fits for each in advice)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what would make it fit", overflow="fold")
    table.add_column("saves", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("fits", no_wrap=True)
    table.add_column("arithmetic", no_wrap=True)
    for each in advice:
        table.add_row(
            " ".join(f"--{key}={value}" for key, value in each.settings),
            quantities.gib(each.saved_bytes),
            f"{round(100 * each.slower):+d}%",
            "yes" if each.fits else "not alone" if possible else "no",
            each.arithmetic,
            style="" if each.fits else "dim",
        )
    pieces: list[RenderableType] = [table] if advice else []
    moved = max((each.host_bytes for each in advice), default=0)
    if moved:
        free = "" if host_bytes is None else f", of which {quantities.gib(host_bytes)} are free here"
        pieces.append(Text(f"offload_moments takes {quantities.gib(moved)} of the host's memory{free}"))
    return Group(*pieces, *([] if possible else [Text(NOTHING_FITS, style="red")]))
