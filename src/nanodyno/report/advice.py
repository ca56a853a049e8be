"""What would make a config fit, as a table."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.costs.advice import Advice
from nanodyno.report import quantities

NOTHING_FITS = "no switch is enough for this model on this card: make it smaller (--n_layer, --n_embd)"


def advice_table(advice: Sequence[Advice]) -> RenderableType:
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
            f"{round(100 * each.slower, 1) + 0.0:+.1f}%",
            "yes" if each.fits else "not alone" if possible else "no",
            each.arithmetic,
            style="" if each.fits else "dim",
        )
    if possible:
        return table
    return Group(*([table] if advice else []), Text(NOTHING_FITS, style="red"))
