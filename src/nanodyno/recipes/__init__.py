"""Named starting points, and reading settings from files and command lines."""

from nanodyno.recipes.commandline import former_names, parse_overrides, parse_set
from nanodyno.recipes.reading import load_settings, recipe_names
from nanodyno.recipes.settings import Settings, at_any_rate, changed, override, wants_found_rate

__all__ = [
    "Settings",
    "at_any_rate",
    "changed",
    "former_names",
    "load_settings",
    "override",
    "parse_overrides",
    "parse_set",
    "recipe_names",
    "wants_found_rate",
]
