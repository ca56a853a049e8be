"""Other ways to compare two configs, on the same measurements: what each gets wrong shows in simulation.py.

Each takes the log seconds of two equal configs [session, round, config, iteration] and gives, per session, an
estimate of the log ratio and the half-width of what it takes for a 95% interval.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nanodyno.analysis.student import t_quantile

Floats = NDArray[np.float64]
Estimates = tuple[Floats, Floats]
ROUNDS = 8
WARMUP = 3


def few_iterations(log_seconds: Floats) -> Estimates:
    """Three iterations after the warm-up, one process each, no interval: what differs, differs."""
    few = log_seconds[:, 0, :, WARMUP : WARMUP + 3].mean(axis=2)
    return few[:, 0] - few[:, 1], np.zeros(len(few))


def one_process_each(log_seconds: Floats) -> Estimates:
    """Student's t over the iterations of one process each, as if they were independent."""
    kept = log_seconds[:, 0, :, WARMUP:]
    return _welch(kept[:, 0], kept[:, 1])


def iterations_pooled(log_seconds: Floats) -> Estimates:
    """Student's t over all iterations of all processes, as if they were independent."""
    kept = log_seconds[:, :ROUNDS, :, WARMUP:]
    return _welch(kept[:, :, 0].reshape(len(kept), -1), kept[:, :, 1].reshape(len(kept), -1))


def one_after_the_other(log_seconds: Floats) -> Estimates:
    """Eight processes of one, then eight of the other; Student's t over their medians."""
    medians = np.median(log_seconds[:, :ROUNDS, :, WARMUP:], axis=3).reshape(len(log_seconds), 2, ROUNDS)
    return _welch(medians[:, 0], medians[:, 1])


def by_turns_not_paired(log_seconds: Floats) -> Estimates:
    medians = np.median(log_seconds[:, :ROUNDS, :, WARMUP:], axis=3)
    return _welch(medians[:, :, 0], medians[:, :, 1])


def means_paired(log_seconds: Floats) -> Estimates:
    """By turns, paired, t: but each visit is the plain mean of its iterations, spikes and bursts included."""
    means = np.log(np.exp(log_seconds[:, :ROUNDS, :, WARMUP:]).mean(axis=3))
    return _paired_t(means[:, :, 0] - means[:, :, 1])


def medians_paired(log_seconds: Floats) -> Estimates:
    medians = np.median(log_seconds[:, :ROUNDS, :, WARMUP:], axis=3)
    return _paired_t(medians[:, :, 0] - medians[:, :, 1])


def bootstrap_of_four(log_seconds: Floats) -> Estimates:
    """Four rounds by turns, paired medians, percentile bootstrap."""
    medians = np.median(log_seconds[:, :4, :, WARMUP:], axis=3)
    ratios = medians[:, :, 0] - medians[:, :, 1]
    drawn = np.random.default_rng(0).integers(0, 4, (1000, 4))
    low, high = np.quantile(ratios[:, drawn].mean(axis=2), [0.025, 0.975], axis=1)
    return (low + high) / 2, (high - low) / 2


def until_it_differs(log_seconds: Floats) -> Estimates:
    """By turns, paired medians, t at 95% after every round from the third: stop when 1 is outside."""
    medians = np.median(log_seconds[:, :, :, WARMUP:], axis=3)
    ratios = medians[:, :, 0] - medians[:, :, 1]
    estimate, half = _paired_t(ratios[:, :3])
    for rounds in range(4, 2 * ROUNDS + 1):
        goes_on = np.abs(estimate) <= half
        later = _paired_t(ratios[:, :rounds])
        estimate, half = np.where(goes_on, later[0], estimate), np.where(goes_on, later[1], half)
    return estimate, half


ALTERNATIVES: dict[str, Callable[[Floats], Estimates]] = {
    "3 iterations of one process each": few_iterations,
    "one process each, t over iterations": one_process_each,
    "8 processes each, t over iterations": iterations_pooled,
    "8 A then 8 B, t over medians": one_after_the_other,
    "8 by turns, not paired": by_turns_not_paired,
    "8 by turns, paired plain means": means_paired,
    "8 by turns, paired medians": medians_paired,
    "4 by turns, percentile bootstrap": bootstrap_of_four,
    "3 to 16 by turns, until it differs": until_it_differs,
}


def _paired_t(ratios: Floats) -> Estimates:
    count = ratios.shape[1]
    half = t_quantile(count - 1, 0.95) * ratios.std(axis=1, ddof=1) / math.sqrt(count)
    return ratios.mean(axis=1), half


def _welch(one: Floats, other: Floats) -> Estimates:
    """The degrees of freedom of equal variances: the two sides are alike here."""
    count = one.shape[1]
    error = np.sqrt((one.var(axis=1, ddof=1) + other.var(axis=1, ddof=1)) / count)
    return one.mean(axis=1) - other.mean(axis=1), t_quantile(2 * count - 2, 0.95) * error
