"""What a run is: its settings, frozen and explicit, and how they are built from what a user gave."""

from nanodyno.config.build import ConfigError, build_config, tenth
from nanodyno.config.fields import DEVICES, IGNORED_KEYS, ModelShape, RunConfig, is_ignored, padded_vocab_size

__all__ = [
    "DEVICES",
    "IGNORED_KEYS",
    "ConfigError",
    "ModelShape",
    "RunConfig",
    "build_config",
    "is_ignored",
    "padded_vocab_size",
    "tenth",
]
