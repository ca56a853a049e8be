"""The gradient noise scale in words."""

from nanodyno.analysis.noise_scale import served
from nanodyno.noise import ENOUGH, WIDEST, NoiseScale
from nanodyno.report import quantities


def noise_scale_words(scale: NoiseScale) -> str:
    """`41.2k tokens (95% interval 35.0k to 50.1k, 200 iterations)`."""
    many = "1 measured iteration" if scale.samples == 1 else f"{scale.samples} measured iterations"
    if scale.tokens is None:
        end = "" if scale.low is None else f"; at least {quantities.count(scale.low)} tokens"
        return f"not known after {many}, as the noise drowns the signal{end}"
    if scale.low is None or scale.high is None:
        end = "" if scale.low is None else f"; at least {quantities.count(scale.low)}"
        return f"about {quantities.count(scale.tokens)} tokens{end} ({many})"
    low, high = quantities.count(scale.low), quantities.count(scale.high)
    return f"{quantities.count(scale.tokens)} tokens (95% interval {low} to {high}, {many})"


def serving_words(scale: NoiseScale) -> str:
    if not scale.settled:
        return f"no advice from it: {unsettled_words(scale)}"
    low, high = map(quantities.count, served(scale))
    return f"{low} to {high} tokens per iteration serve now"


def unsettled_words(scale: NoiseScale) -> str:
    if scale.samples < ENOUGH:
        return f"it has not settled, which takes {ENOUGH} measured iterations"
    return f"it has not settled, as its interval spans more than {WIDEST:g} times"
