"""What a run is: its settings, frozen and explicit, and how they are built from what a user gave."""

from nanodyno.config.build import (
    ConfigError,
    accepts,
    build_config,
    changed,
    derived_value,
    nearest_setting,
    tenth,
)
from nanodyno.config.fields import (
    COUNTED_IN_MICRO_BATCHES,
    IGNORED,
    PLACES,
    SETTINGS,
    SIZE_KEYS,
    SPLIT_KEYS,
    TEXT_KEYS,
    RunConfig,
    first_name,
    is_ignored,
    keys_led_by,
    keys_where,
    other_value,
    padded_vocab_size,
    present_name,
)
from nanodyno.config.kinds import DEVICES
from nanodyno.config.shape import ModelShape

__all__ = [
    "COUNTED_IN_MICRO_BATCHES",
    "DEVICES",
    "IGNORED",
    "PLACES",
    "SETTINGS",
    "SIZE_KEYS",
    "SPLIT_KEYS",
    "TEXT_KEYS",
    "ConfigError",
    "ModelShape",
    "RunConfig",
    "accepts",
    "build_config",
    "changed",
    "derived_value",
    "first_name",
    "is_ignored",
    "keys_led_by",
    "keys_where",
    "nearest_setting",
    "other_value",
    "padded_vocab_size",
    "present_name",
    "tenth",
]
