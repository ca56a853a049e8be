"""How a training of so many FLOPs is set: its batch, learning rate, warm-up and evaluations."""

from nanodyno.config import RunConfig
from nanodyno.schedule import batch_factor

BATCH, BATCH_POWER = 0.2920, 0.3271
RATE, RATE_POWER = 0.3118, -0.1250
"""DeepSeek LLM (2024), equation 1: the best batch in tokens and the best learning rate by FLOPs, found with
AdamW at 1e17 to 2e19 of them."""
FEWEST_FLOPS = 1e17
SMALLEST_BATCH, LARGEST_BATCH = 32_768, 524_288
DOUBLINGS = 2
"""At most, from the first batch of a run to its last."""
EVALUATIONS = 20
EVALUATED_SHARE = 0.0015
"""Of the tokens, in one evaluation and split: all evaluations are then 2% of the work."""
FEWEST_EVALUATED, MOST_EVALUATED = 65_536, 1_048_576
SHORTEST_WARMUP, WARMUP_SHARE = 20, 0.01


def training_flops(config: RunConfig, tokens: float) -> float:
    """As DeepSeek counts them: without the vocabulary, and with attention to the future."""
    width, block = config.n_embd, config.block_size
    return config.n_layer * (72 * width**2 + 12 * width * block) * tokens


def batch_for(flops: float) -> dict[str, object]:
    """Settings of the effective batch. A power of two, rounded down: a batch too small costs some speed, one
    too large costs updates."""
    wished = int(BATCH * flops**BATCH_POWER)
    power = 1 << max(0, wished.bit_length() - 1)
    return {"tokens_per_iter": min(LARGEST_BATCH, max(SMALLEST_BATCH, power))}


def ramp_for(config: RunConfig, tokens: float) -> dict[str, object]:
    """Settings of a batch that grows to the config's, each size from where a run that ended there would have
    it by the law. None is smaller than a micro-batch, which stays and is the fastest."""
    last, least = config.tokens_per_iter, max(SMALLEST_BATCH, config.batch_size * config.block_size)
    sizes = [last >> back for back in range(DOUBLINGS, -1, -1) if last >> back >= least]
    per_token = training_flops(config, 1)
    starts = {size: float(f"{(size / BATCH) ** (1 / BATCH_POWER) / per_token:.1e}") for size in sizes[1:]}
    steps = [f"{start / 1e6:g}M:{size}" for size, start in starts.items() if start < tokens]
    if not steps:
        return {"tokens_per_iter": last}
    return {"tokens_per_iter": sizes[0], "batch_ramp": ",".join(steps)}


def rate_for(flops: float) -> float:
    """Below what it was found with, a rate that rises on is a risk."""
    return RATE * max(flops, FEWEST_FLOPS) ** RATE_POWER


def course_for(config: RunConfig, iterations: int, tokens: int) -> dict[str, object]:
    """Warm-up and evaluations by the length; the learning rate by the tokens of the choice, in two digits of
    it, as more are not known: the law's for the last batch is the config's for the first."""
    of_last = rate_for(training_flops(config, tokens))
    rate = of_last * batch_factor(config.tokens_per_iter, config.ramp.sizes[-1])
    evaluated = min(MOST_EVALUATED, max(FEWEST_EVALUATED, int(tokens * EVALUATED_SHARE)))
    settings: dict[str, object] = {
        "learning_rate": float(f"{rate:.1e}"),
        "max_iters": iterations,
        "warmup_iters": min(iterations - 1, max(SHORTEST_WARMUP, round(WARMUP_SHARE * iterations))),
        "eval_interval": max(1, iterations // EVALUATIONS),
    }
    whole = max(1, evaluated // config.block_size) * config.block_size
    return settings if config.eval_iters is not None else settings | {"eval_tokens": whole}
