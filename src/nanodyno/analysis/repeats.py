"""Repeated measurements of several configs: intervals with the process as the unit, ratios paired by round.

A round visits every config once, the next round in the opposite order (A B, B A, ...), so that a machine that
slows down harms both alike. The iterations of a process share its fortune (memory layout, clocks, what was
autotuned), so a process counts once however long it ran. Everything is on the log scale: a ratio and its
inverse are equally far from 1.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import deviation, exponential, t_interval

ODD_FROM = 6
ODD_SPREADS = 10.0
ODD_FLOOR = 0.03
NORMAL_MAD = 1.4826
"""The standard deviation of a normal distribution over the median of its absolute deviations."""


@dataclass(frozen=True)
class RepetitionTime:
    """One config measured once: a few dozen iterations of one process."""

    config: str
    process: int
    """Which process of the config. A worker that stays resident for several rounds keeps its number."""
    round: int
    seconds: float
    """Of an iteration, as `steady.summarise` gives it."""


def config_interval(
    repetitions: Sequence[RepetitionTime], config: str, level: float = 0.95
) -> Interval | None:
    """Seconds of an iteration: geometric mean over processes, t interval; None when never measured.

    Holds for this machine in this session: what drifted meanwhile widens it, and for comparing two configs
    `ratio_interval` is the sharper tool. n counts processes; without a second one there are no bounds.
    """
    own = sorted(
        (repetition for repetition in repetitions if repetition.config == config),
        key=lambda repetition: repetition.round,
    )
    return _over_processes(
        [((repetition.process,), math.log(repetition.seconds)) for repetition in own], level
    )


def ratio_interval(
    repetitions: Sequence[RepetitionTime], config: str, reference: str, level: float = 0.95
) -> Interval | None:
    """Seconds of config over seconds of reference (below 1: config is faster), paired by round.

    Rounds that lack one of the two are left out. None without a common round. Rounds that share a process of
    either count as one value; let both restart between the same two rounds, or values are lost.
    """
    return _over_processes(_log_ratios(repetitions, config, reference), level)


def log_ratio_sd(repetitions: Sequence[RepetitionTime], config: str, reference: str) -> float | None:
    """The standard deviation between processes of the log ratio, for `budget`; None below two of them."""
    means = _process_means(_log_ratios(repetitions, config, reference))
    return deviation(means) if len(means) > 1 else None


def odd_repetition(repetitions: Sequence[RepetitionTime]) -> RepetitionTime | None:
    """The visit that is slower than its config's others by far more than they differ; None mostly.

    Something slowed all of it (a neighbour, a throttled card), so its own iterations could not tell. Its
    round is set aside, told, and replaced by another (`budget.readings`). Below ODD_FROM visits of a config
    nothing is called odd, and ODD_SPREADS is so large that ordinary luck hardly ever is: setting aside what
    is merely slow would make the intervals too narrow.
    """
    worst, excess = None, 1.0
    for config in dict.fromkeys(repetition.config for repetition in repetitions):
        own = [
            (math.log(repetition.seconds), repetition)
            for repetition in repetitions
            if repetition.config == config
        ]
        if len(own) < ODD_FROM:
            continue
        middle = statistics.median(log for log, _ in own)
        spread = NORMAL_MAD * statistics.median(abs(log - middle) for log, _ in own)
        log, slowest = max(own, key=lambda pair: pair[0])
        beyond = (log - middle) / max(ODD_SPREADS * spread, ODD_FLOOR)
        if beyond > excess:
            worst, excess = slowest, beyond
    return worst


_Logs = Sequence[tuple[tuple[int, ...], float]]
"""In order of rounds: the processes that took part, and a logarithm."""


def _log_ratios(repetitions: Sequence[RepetitionTime], config: str, reference: str) -> _Logs:
    ones = {repetition.round: repetition for repetition in repetitions if repetition.config == config}
    others = {repetition.round: repetition for repetition in repetitions if repetition.config == reference}
    pairs = [(ones[number], others[number]) for number in sorted(ones.keys() & others.keys())]
    return [
        ((one.process, other.process), math.log(one.seconds) - math.log(other.seconds))
        for one, other in pairs
    ]


def _process_means(logs: _Logs) -> list[float]:
    """A new value begins where no process of the round before goes on."""
    groups: list[list[float]] = []
    before: tuple[int, ...] = ()
    for processes, log in logs:
        if not groups or all(now != then for now, then in zip(processes, before, strict=True)):
            groups.append([])
        groups[-1].append(log)
        before = processes
    return [statistics.fmean(group) for group in groups]


def _over_processes(logs: _Logs, level: float) -> Interval | None:
    interval = t_interval(_process_means(logs), level)
    return None if interval is None else exponential(interval)
