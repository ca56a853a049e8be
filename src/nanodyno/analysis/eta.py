"""How long a run still has to go."""

import statistics
from collections.abc import Sequence

from nanodyno.config import RunConfig


def remaining_iterations(config: RunConfig, iterations_done: int) -> int:
    return max(0, _last_iteration(config) - iterations_done)


def remaining_work(config: RunConfig, iterations_done: int) -> float:
    """In iterations of the size of the last one: a schedule's later ones are larger.

    Where the measured noise decides, nobody knows yet, and they are taken to stay as they are.
    """
    iterations = remaining_iterations(config, iterations_done)
    ramp = config.ramp
    if not ramp.steps or not iterations:
        return iterations
    done = ramp.tokens_after(iterations_done)
    last = ramp.at(ramp.tokens_after(max(0, iterations_done - 1)))
    return (ramp.tokens_after(iterations_done + iterations) - done) / last


def remaining_evaluations(config: RunConfig, iterations_done: int, last_eval_iteration: int | None) -> int:
    """Evaluations fall on every eval_interval-th iteration, 0 included, and after the last one."""
    last = _last_iteration(config)
    first = max(iterations_done, 0 if last_eval_iteration is None else last_eval_iteration + 1)
    if first > last:
        return 0
    before_last = (last - 1) // config.eval_interval - (first - 1) // config.eval_interval
    return before_last + 1


def evaluation_seconds(eval_seconds: Sequence[float], save_seconds: Sequence[float]) -> float | None:
    """What an evaluation and the save after it take, by those so far; None before the first evaluation.

    Long saves do not follow every evaluation, nor does any the one before the first iteration.
    """
    if not eval_seconds:
        return None
    saving = statistics.median(save_seconds) if save_seconds else 0.0
    share = min(1.0, len(save_seconds) / max(1, len(eval_seconds) - 1))
    return statistics.median(eval_seconds) + share * saving


def eta_seconds(
    config: RunConfig,
    iterations_done: int,
    last_eval_iteration: int | None,
    step_seconds: float | None,
    eval_seconds: float | None,
) -> float | None:
    """Seconds of training and evaluation ahead; None while the time of either is not known, 0 at the end.

    eval_seconds holds the save that follows an evaluation, or its share.
    """
    iterations = remaining_work(config, iterations_done)
    evaluations = remaining_evaluations(config, iterations_done, last_eval_iteration)
    if (iterations and step_seconds is None) or (evaluations and eval_seconds is None):
        return None
    return iterations * (step_seconds or 0.0) + evaluations * (eval_seconds or 0.0)


def _last_iteration(config: RunConfig) -> int:
    return 0 if config.eval_only else config.max_iters
