"""How a training of so many FLOPs is set: its batch, learning rate, warm-up and evaluations."""

from nanodyno.config import RunConfig

BATCH, BATCH_POWER = 0.2920, 0.3271
RATE, RATE_POWER = 0.3118, -0.1250
"""DeepSeek LLM (2024), equation 1: the best batch in tokens and the best learning rate by FLOPs, found with
AdamW at 1e17 to 2e19 of them."""
FEWEST_FLOPS = 1e17
SMALLEST_BATCH, LARGEST_BATCH = 32_768, 524_288
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
    too large costs updates.

    With `length_of`, all that knows the batch of such a recipe: a batch_ramp that grows to it belongs here.
    """
    wished = int(BATCH * flops**BATCH_POWER)
    power = 1 << max(0, wished.bit_length() - 1)
    return {"tokens_per_iter": min(LARGEST_BATCH, max(SMALLEST_BATCH, power))}


def length_of(config: RunConfig, tokens: float) -> tuple[int, int]:
    """Iterations that see no more tokens than these, but one at least; and the tokens that they see."""
    iterations = max(1, config.ramp.iterations_for(int(tokens) + 1) - 1)
    return iterations, config.ramp.tokens_after(iterations)


def rate_for(flops: float) -> float:
    """Two digits of it: more are not known. Below what it was found with, a rate that rises on is a risk."""
    return float(f"{RATE * max(flops, FEWEST_FLOPS) ** RATE_POWER:.1e}")


def course_for(config: RunConfig, iterations: int, tokens: int) -> dict[str, object]:
    """Warm-up and evaluations by the length; the learning rate by the tokens of the choice."""
    evaluated = min(MOST_EVALUATED, max(FEWEST_EVALUATED, int(tokens * EVALUATED_SHARE)))
    settings: dict[str, object] = {
        "learning_rate": rate_for(training_flops(config, tokens)),
        "max_iters": iterations,
        "warmup_iters": min(iterations - 1, max(SHORTEST_WARMUP, round(WARMUP_SHARE * iterations))),
        "eval_interval": max(1, iterations // EVALUATIONS),
    }
    whole = max(1, evaluated // config.block_size) * config.block_size
    return settings if config.eval_iters is not None else settings | {"eval_tokens": whole}
