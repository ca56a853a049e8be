"""Every setting of a run, for `train --keys`."""

from rich.table import Table

from nanodyno.config import RunConfig


def keys_table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("key", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it is")
    for name, field in RunConfig.model_fields.items():
        default = (
            "derived" if field.is_required() else "none" if field.default is None else str(field.default)
        )
        table.add_row(f"--{name}", default, field.description or "")
    return table
