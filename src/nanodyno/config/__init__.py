"""What a run is: its settings, frozen and explicit, and how they are built from what a user gave."""

from nanodyno.config.build import ConfigError, build_config, nearest_setting, tenth
from nanodyno.config.fields import IGNORED_KEYS, RunConfig, is_ignored, padded_vocab_size
from nanodyno.config.kinds import DEVICES
from nanodyno.config.shape import OF_THE_BLOCK, OF_THE_START, ModelShape

__all__ = [
    "DEVICES",
    "IGNORED_KEYS",
    "OF_THE_BLOCK",
    "OF_THE_START",
    "ConfigError",
    "ModelShape",
    "RunConfig",
    "build_config",
    "is_ignored",
    "nearest_setting",
    "padded_vocab_size",
    "tenth",
]
