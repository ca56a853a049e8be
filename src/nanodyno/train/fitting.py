"""What cannot fit is told before it is tried, with what would."""

import torch

from nanodyno.config import RunConfig
from nanodyno.costs.advice import Advice, advise
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.memory import memory_of
from nanodyno.costs.plan import least_recompute
from nanodyno.costs.setup import settle
from nanodyno.costs.target import present_target
from nanodyno.errors import NanodynoError
from nanodyno.train.device import Choice
from nanodyno.train.kernels import choose_way

GIB = 2**30
SURELY = 0.9
"""Of what is predicted: a prediction may be too high by so much, and what might fit is tried."""
MOST_TOLD = 3


def refuse_what_cannot_fit(config: RunConfig, vocab_size: int, choice: Choice, processes: int) -> None:
    """On a GPU. Shares of a model in several processes are not predicted, and evaluations alone are small."""
    if choice.device.type != "cuda" or config.eval_only or (config.parallel == "fsdp" and processes > 1):
        return
    properties = torch.cuda.get_device_properties(choice.device)
    limit = int(properties.total_memory * torch.cuda.get_per_process_memory_fraction(choice.device))
    card = present_target(properties.name, properties.total_memory, None).card
    calibration = calibration_for(card, choice.dtype)
    way = choose_way(config, choice, processes).kernels
    setup = settle(config, config.model_shape(vocab_size), choice.dtype, limit, way)
    if config.recompute == "auto" and way == "fused":
        setup = least_recompute(setup, limit, calibration)
    memory = memory_of(setup, calibration)
    if memory.allocated * SURELY <= limit:
        return
    raise NanodynoError(
        f"this needs about {memory.total / GIB:.1f} GiB by prediction, and {properties.name} has "
        f"{limit / GIB:.1f}",
        f"{advice_words(advise(setup, limit, calibration))}; `nanodyno plan` tells more, and --force tries "
        "it all the same",
    )


def advice_words(advice: tuple[Advice, ...]) -> str:
    """Those that are enough, in a sentence; where none is, the last resort."""
    enough = [each for each in advice if each.fits][:MOST_TOLD]
    if not enough:
        return "no switch is enough for this model on this card: make it smaller (--n_layer, --n_embd)"
    return "it fits with " + ", or ".join(_words(each) for each in enough)


def _words(advice: Advice) -> str:
    settings = " ".join(f"--{key}={value}" for key, value in advice.settings)
    other = ", other arithmetic" if advice.arithmetic == "different" else ""
    return f"{settings} ({100 * advice.slower:+.0f}% time{other})"
