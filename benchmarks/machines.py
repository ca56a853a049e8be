"""Noise of machines, made up: what a stopwatch meets, with the truth known.

The logarithm of an iteration's seconds is the sum of
  process    each process is a little faster or slower for all of its life; a few are slow ones
  drift      over the session: warming up that levels off, and a random walk from visit to visit
  mood       a slowly wandering load (autocorrelated over some 20 iterations)
  jitter     of each iteration, autocorrelated with the one before
  spikes     single slow iterations
  bursts     a neighbour that uses the machine for a while
  ramp       the first iterations of a process and, smaller and shorter, of each later visit
The sizes are guesses that lean to the bad side of what we measured: on an H200 1 to 2 parts in 1000 over
turns at width 768 and 1 to 3% where launching is the limit; on 2 shared cores 8% a quad (docs/log).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOOD_CORRELATION = 0.95


@dataclass(frozen=True)
class Machine:
    """Deviations of the logarithm, so 0.01 is 1%. Heights of spikes and bursts are medians."""

    process: float
    slow_process: tuple[float, float]
    """Share of processes, and how much slower they are."""
    jitter: float
    jitter_correlation: float
    mood: float
    trend: float
    walk: float
    """Of the session's level, from one visit to the next."""
    spike: tuple[float, float]
    """Share of iterations, height."""
    burst: tuple[float, float, float]
    """Chance to begin in an iteration, mean length in iterations, height."""
    ramp: tuple[float, float]
    """Height, iterations until 63% of it is gone."""


MACHINES = {
    "card of one's own": Machine(
        0.0025, (0.0, 0.0), 0.003, 0.3, 0.001, 0.01, 0.0003, (0.01, 0.1), (0.0005, 10, 0.05), (0.03, 3)
    ),
    "card of a desktop": Machine(
        0.005, (0.05, 0.015), 0.01, 0.5, 0.003, 0.04, 0.001, (0.03, 0.2), (0.0025, 12, 0.1), (0.08, 5)
    ),
    "bound by launching": Machine(
        0.007, (0.05, 0.02), 0.02, 0.5, 0.005, 0.02, 0.002, (0.03, 0.2), (0.0025, 12, 0.1), (0.08, 5)
    ),
    "CPU": Machine(
        0.005, (0.0, 0.0), 0.03, 0.5, 0.01, 0.03, 0.002, (0.03, 0.3), (0.0025, 15, 0.15), (0.1, 3)
    ),
    "crowded CPU": Machine(
        0.005, (0.0, 0.0), 0.05, 0.6, 0.08, 0.03, 0.004, (0.05, 0.3), (0.005, 15, 0.25), (0.1, 3)
    ),
}


def drawn(rng: np.random.Generator) -> Machine:
    """Any machine: every size between that of the quietest above and twice that of the CPU, on a log scale.

    Nothing was tuned on these.
    """

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    return Machine(
        process=between(0.002, 0.015),
        slow_process=(between(0.01, 0.2), between(0.01, 0.04)),
        jitter=between(0.003, 0.06),
        jitter_correlation=rng.uniform(0, 0.8),
        mood=between(0.001, 0.02),
        trend=between(0.01, 0.08),
        walk=between(0.0003, 0.004),
        spike=(between(0.005, 0.1), between(0.1, 0.6)),
        burst=(between(0.0005, 0.005), between(5, 50), between(0.05, 0.3)),
        ramp=(between(0.03, 0.2), between(1, 10)),
    )


@dataclass(frozen=True)
class Design:
    """`processes` of each of two configs, one pair after the other, visited by turns `repetitions` times
    each."""

    processes: int
    repetitions: int
    iterations: int


@dataclass(frozen=True)
class Sessions:
    """Two equal configs measured by turns, A B, B A, A B. Axes: session, round, config, iteration."""

    log_seconds: Floats
    process_level: Floats
    """Log seconds of an undisturbed mean iteration of that process at that time; no axis of iterations."""
    session_level: Floats
    """The same for the mean process."""
    process_of_round: NDArray[np.int_]


def sessions(machine: Machine, design: Design, count: int, rng: np.random.Generator) -> Sessions:
    """Visits of resident workers follow each other at once and share a neighbour's burst; between processes
    that start anew there is time enough to forget all but the drift.
    """
    rounds, turns = design.processes * design.repetitions, 2 * design.repetitions
    shape = (count, rounds, 2, design.iterations)
    at_once = 1 if design.repetitions == 1 else turns
    noise = _noise(machine, (count * rounds * 2 // at_once, at_once * design.iterations), rng).reshape(shape)
    noise += _ramp(machine, (count * design.processes, turns, design.iterations), rng).reshape(shape)
    drift = _drift(machine, count, rounds * 2, rng).reshape(shape[:3])
    for by_time in (noise, drift):
        by_time[:, 1::2] = by_time[:, 1::2, ::-1].copy()
    process_of_round = np.repeat(np.arange(design.processes), design.repetitions)
    share, height = machine.slow_process
    # An iteration's mean on the scale of seconds lies half the variance above its mean logarithm.
    session_level = drift + (machine.jitter**2 + machine.mood**2) / 2 + share * height
    process = _processes(machine, (count, design.processes, 2), rng)[:, process_of_round]
    process_level = session_level - share * height + process
    return Sessions(noise + (drift + process)[..., None], process_level, session_level, process_of_round)


def fresh_repetitions(machine: Machine, turns: int, iterations: int, rng: np.random.Generator) -> Floats:
    """Log noise of visits one after the other, each in a process of its own. Axes: turn, iteration."""
    noise = _noise(machine, (turns, iterations), rng)
    noise += _ramp(machine, (turns, 1, iterations), rng)[:, 0]
    level = _drift(machine, 1, turns, rng)[0] + _processes(machine, (turns,), rng)
    return noise + level[:, None]


def _processes(machine: Machine, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    share, height = machine.slow_process
    return rng.normal(0, machine.process, shape) + height * (rng.random(shape) < share)


def _drift(machine: Machine, count: int, turns: int, rng: np.random.Generator) -> Floats:
    passed = 1 - np.exp(-3 * np.arange(turns) / turns)
    walk = np.cumsum(rng.normal(0, machine.walk, (count, turns)), axis=1)
    return rng.normal(0, machine.trend, (count, 1)) * passed + walk


def _noise(machine: Machine, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    share, height = machine.spike
    spikes = (rng.random(shape) < share) * height * np.exp(rng.normal(0, 0.8, shape))
    jitter = machine.jitter * _correlated(shape, machine.jitter_correlation, rng)
    return (
        jitter
        + machine.mood * _correlated(shape, MOOD_CORRELATION, rng)
        + spikes
        + _bursts(machine, shape, rng)
    )


def _correlated(shape: tuple[int, int], correlation: float, rng: np.random.Generator) -> Floats:
    """Of deviation 1, each the correlation times the one before plus something new."""
    values = rng.normal(0, 1, shape)
    new = np.sqrt(1 - correlation**2)
    for index in range(1, shape[1]):
        values[:, index] = correlation * values[:, index - 1] + new * values[:, index]
    return values


def _bursts(machine: Machine, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    chance, length, height = machine.burst
    begins = rng.random(shape) < chance
    begins[:, 0] |= rng.random(shape[0]) < chance * length
    ends = rng.random(shape) < 1 / length
    heights = height * np.exp(rng.normal(0, 0.5, shape))
    levels = np.zeros(shape)
    level = np.zeros(shape[0])
    for index in range(shape[1]):
        level = np.where(begins[:, index], heights[:, index], np.where(ends[:, index], 0.0, level))
        levels[:, index] = level
    return levels


def _ramp(machine: Machine, shape: tuple[int, int, int], rng: np.random.Generator) -> Floats:
    """[process pair, turn, iteration]: the first turn of each of the two is its process's first."""
    height, decay = machine.ramp
    heights = height * np.exp(rng.normal(0, 0.5, (*shape[:2], 1)))
    steps = np.arange(shape[2])
    ramp = 0.5 * heights * np.exp(-steps)
    ramp[:, :2] = heights[:, :2] * np.exp(-steps / decay)
    return ramp
