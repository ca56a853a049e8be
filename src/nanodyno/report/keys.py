"""Every setting of a run, for `train --keys`."""

from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from rich.table import Table
from rich.text import Text

from nanodyno.config import SETTINGS, RunConfig

OF_RECIPES = {
    "--hours": (
        "recipe's",
        "time budget of a recipe or TOML file; settings left out are chosen for the GPU and this time",
    ),
    "auto_batch_size": (
        "False",
        "only in a TOML file: true chooses the fastest micro-batch that fits the GPU",
    ),
}
"""They are gone before there is a config."""


def keys_table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("key", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("meaning")
    for name, field in RunConfig.model_fields.items():
        table.add_row(Text(f"--{name}"), Text(_default(name, field)), Text(_meaning(field)))
    for name, (default, meaning) in OF_RECIPES.items():
        table.add_row(Text(name), Text(default), Text(meaning))
    return table


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "derived"
    return SETTINGS[name].none_means or "none" if field.default is None else str(field.default)


def _meaning(field: FieldInfo) -> str:
    """The description, and the values to choose from where they are few."""
    words = field.description or ""
    if get_origin(field.annotation) is not Literal:
        return words
    return f"{words} ({' | '.join(map(str, get_args(field.annotation)))})"
