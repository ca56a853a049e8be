"""What would make a config fit, as a table."""

from collections.abc import Sequence

from rich.table import Table

from nanodyno.costs.advice import Advice
from nanodyno.report import quantities


def advice_table(advice: Sequence[Advice]) -> Table:
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
            f"{100 * each.slower:+.1f}%",
            "yes" if each.fits else "not alone" if len(each.settings) == 1 else "no",
            each.arithmetic,
            style="" if each.fits else "dim",
        )
    return table
