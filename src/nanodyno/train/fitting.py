"""What cannot fit is told before it is tried, with what would."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from nanodyno.config import RunConfig
from nanodyno.costs.advice import MemoryAdvice, advise, offloaded_bytes
from nanodyno.costs.calibration import Calibration, calibration_for
from nanodyno.costs.memory import memory_of
from nanodyno.costs.plan import least_recompute
from nanodyno.costs.setup import Setup, settle
from nanodyno.costs.target import present_target
from nanodyno.errors import NanodynoError
from nanodyno.hardware.host import available_memory
from nanodyno.train.device import DeviceChoice
from nanodyno.train.kernels import choose_way

GIB = 2**30
SURELY = 0.9
"""Of what is predicted: a prediction may be too high by so much, and what might fit is tried."""
MOST_TOLD = 3
FORCE = "--force tries it all the same"


@dataclass(frozen=True)
class _Room:
    """Of a device, and of the host that it is in."""

    words: str
    limit_bytes: int
    host_bytes: int
    calibration: Calibration


def refuse_what_cannot_fit(config: RunConfig, vocab_size: int, choice: DeviceChoice, processes: int) -> None:
    """On a GPU or a CPU. Shares of a model in several processes are not predicted; evaluations are small."""
    if config.eval_only or (config.parallel == "fsdp" and processes > 1):
        return
    if choice.device.type not in ("cuda", "cpu"):
        return
    on_gpu = choice.device.type == "cuda"
    room = _on_gpu(choice) if on_gpu else _on_host()
    setup = _settled(config, vocab_size, choice, processes, room)
    memory = memory_of(setup, room.calibration)
    if memory.allocated * SURELY > room.limit_bytes:
        needs = memory.total if on_gpu else memory.allocated
        raise NanodynoError(
            f"this needs about {needs / GIB:.1f} GiB (predicted), and {room.words}",
            _gpu_hint(setup, room) if on_gpu else _host_hint(setup, room),
        )
    moments = offloaded_bytes(setup, room.calibration) if on_gpu else 0
    if moments * SURELY > room.host_bytes:
        raise NanodynoError(
            f"offload_moments needs {moments / GIB:.1f} GiB of host memory, and "
            f"{room.host_bytes / GIB:.1f} GiB is free",
            f"close other programs, or leave --offload_moments out; {FORCE}",
        )


def _on_gpu(choice: DeviceChoice) -> _Room:
    properties = torch.cuda.get_device_properties(choice.device)
    limit = int(properties.total_memory * torch.cuda.get_per_process_memory_fraction(choice.device))
    gpu = present_target(properties.name, properties.total_memory, None).gpu
    words = f"{properties.name} has {limit / GIB:.1f}"
    return _Room(words, limit, available_memory(), calibration_for(gpu, choice.dtype))


def _on_host() -> _Room:
    """Its need is predicted as a card's, which is too low by a tenth or two where it was compared."""
    free = available_memory()
    return _Room(f"this machine has {free / GIB:.1f} free", free, free, calibration_for(None))


def _settled(config: RunConfig, vocab_size: int, choice: DeviceChoice, processes: int, room: _Room) -> Setup:
    way = choose_way(config, choice, processes).kernels
    setup = settle(config, config.model_shape(vocab_size), choice.dtype, room.limit_bytes, way)
    if config.recompute == "auto" and way == "fused":
        return least_recompute(setup, room.limit_bytes, lambda each: memory_of(each, room.calibration).total)
    return setup


def _gpu_hint(setup: Setup, room: _Room) -> str:
    advice = advise(setup, room.limit_bytes, room.calibration, room.host_bytes)
    return f"{advice_words(advice)}; `nanodyno plan` shows more, and {FORCE}"


def advice_words(advice: Sequence[MemoryAdvice]) -> str:
    """Those that are enough for a card, with what they cost."""
    return _fitting_words([_words(each) for each in advice if each.fits], "GPU")


def _host_hint(setup: Setup, room: _Room) -> str:
    """By the eager prediction, since what compiling saves on a card was not seen on a CPU.

    What a switch costs in time is not known of a CPU, and the fused kernels are made for a card.
    """
    advice = advise(replace(setup, compiled=False), room.limit_bytes, room.calibration)
    enough = [_settings_words(each) for each in advice if each.fits and "kernels" not in dict(each.settings)]
    return f"{_fitting_words(enough, 'machine')}; {FORCE}"


def _fitting_words(enough: list[str], place: str) -> str:
    """What is enough, in a sentence; where nothing is, the last resort."""
    if not enough:
        return f"no switch is enough for this model on this {place}: make it smaller (--n_layer, --n_embd)"
    return "it fits with " + ", or ".join(enough[:MOST_TOLD])


def _words(advice: MemoryAdvice) -> str:
    other = ", other arithmetic" if advice.arithmetic == "different" else ""
    host = f", {advice.host_bytes / GIB:.1f} GiB of the host's memory" if advice.host_bytes else ""
    return f"{_settings_words(advice)} ({100 * advice.slower:+.0f}% time{other}{host})"


def _settings_words(advice: MemoryAdvice) -> str:
    return " ".join(f"--{key}={value}" for key, value in advice.settings)
