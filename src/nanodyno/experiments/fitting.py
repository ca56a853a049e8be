"""Switches that make every corner fit the card, so that all can be measured alike."""

from collections.abc import Iterator
from typing import Any

from nanodyno.analysis.factors import Design
from nanodyno.analysis.shapley import combinations_of
from nanodyno.config import RunConfig, build_config
from nanodyno.costs.advice import MemoryAdvice, advise
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import Setup, settle
from nanodyno.errors import NanodynoError
from nanodyno.experiments.ground import DeviceState
from nanodyno.recipes import parse_overrides


def fitting_switches(design: Design, place: DeviceState, vocab_size: int) -> dict[str, Any]:
    """The fastest that does for all corners by prediction; none where all fit without any."""
    ground = place.ground
    if ground.device_type != "cuda" or ground.usable_bytes is None:
        raise NanodynoError("--make-fit works on GPUs only: no memory is predicted for a CPU", "leave it out")
    room = ground.usable_bytes - ground.margin_bytes
    calibration = calibration_for(ground.gpu, ground.dtype)
    found = [design.config(combination) for combination in combinations_of(len(design.factors))]
    configs = [config for config in found if isinstance(config, RunConfig)]

    def settled(config: RunConfig) -> Setup:
        shape = config.model_shape(config.vocab_size or vocab_size)
        return settle(config, shape, ground.dtype, ground.usable_bytes)

    def needs(config: RunConfig) -> int:
        return memory_of(settled(config), calibration).total

    largest = max(configs, key=needs)
    if needs(largest) <= room:
        return {}
    for settings in _switches(advise(settled(largest), room, calibration)):
        if all(needs(build_config(config.model_dump() | settings)) <= room for config in configs):
            return settings
    raise NanodynoError(
        f"no switch makes every combination fit: the largest needs about {needs(largest) / 2**30:.1f} GiB of "
        f"{ground.usable_bytes / 2**30:.1f}",
        "a larger --memory-limit, or a smaller AFTER",
    )


def _switches(advice: tuple[MemoryAdvice, ...]) -> Iterator[dict[str, Any]]:
    """Those that keep the arithmetic and are no other micro-batch, which may be what is asked about."""
    for each in advice:
        if each.fits and each.arithmetic != "different" and "batch_size" not in dict(each.settings):
            yield parse_overrides([f"--{key}={value}" for key, value in each.settings])
