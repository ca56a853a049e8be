"""How a loss falls under a learning-rate schedule: the shape alone, without level or size.

After the multi-power law (Luo et al. 2025, arXiv:2503.12811), in units that no optimiser owns: rates as
shares of the peak, time as the sum of those shares. The loss after so many updates is

    level + slope * (s / s_now)^-alpha / alpha - drop * annealed

with s the updates so far, each counted by its rate's share of the peak, and `annealed` what lowering the rate
has brought. A lowering from share a to b is worth a^bend - b^bend, which grows over the s after it as
1 - (1 + pace * s)^-reach, and is the less the later it comes (s^-fading). The published law has neither bend
nor fading; it lets lowerings take effect sooner at low rates, which a bend leaves nothing to explain for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SEGMENTS = 150
"""Into how many lowerings of the rate a schedule is cut."""
REFERENCE_UPDATES = 10_000.0
"""Where `drop` is measured: a lowering at this s brings all of it."""
FEWEST_UPDATES = 100.0
"""Below which a lowering's worth no longer grows."""


@dataclass(frozen=True)
class Shape:
    """What curves of one kind of model have in common with those of another."""

    pace: float
    reach: float
    fading: float
    bend: float
    """Below 1, the last of a decay brings the most."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each update, from the first to the last one asked about."""

    rates: Array

    @property
    def updates(self) -> int:
        return len(self.rates)

    @cached_property
    def shares(self) -> Array:
        """Of the peak; place n is that of update n, and place 0 is before any."""
        peak = float(np.max(self.rates, initial=0.0))
        shares = self.rates / peak if peak > 0 else np.ones_like(self.rates)
        return np.concatenate([shares[:1], shares])

    @cached_property
    def clock(self) -> Array:
        """s after n updates."""
        return np.concatenate([[0.0], np.cumsum(self.shares[1:])])

    @cached_property
    def peak_at(self) -> int:
        """The update up to which the rate climbs: warm-up ends there; a later rise is none."""
        climbs = np.concatenate([np.diff(self.shares[1:]) > 1e-12, [False]])
        return int(np.argmin(climbs)) + 1

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Between which the rate moves by about equal parts; a flat stretch is one piece of its own."""
        moves = np.abs(np.diff(self.shares[self.peak_at :]))
        total = np.cumsum(moves)
        if not len(total) or total[-1] < 1e-9:
            return np.zeros(0, np.int64)
        wanted: Array = total[-1] * np.arange(1, SEGMENTS) / SEGMENTS
        parts = np.searchsorted(total, wanted) + 1
        moving = np.concatenate([[False], moves > 1e-12, [False]])
        turns = np.nonzero(np.diff(moving))[0]
        places = np.concatenate([parts, turns]) + self.peak_at
        return np.unique(np.minimum(places, len(self.shares) - 1))


def elapsed(schedule: Schedule, updates: Array) -> Array:
    """s after each of these numbers of updates; 1 at least, since its logarithm is taken."""
    return np.maximum(schedule.clock[_places(schedule, updates)], 1.0)


def annealed(schedule: Schedule, updates: Array, shape: Shape) -> Array:
    """The share of `drop` that lowering the rate has brought after each of these numbers of updates."""
    edges = schedule.edges
    if len(edges) < 2:
        return np.zeros(len(updates))
    places = _places(schedule, updates)
    shares, clock = schedule.shares, schedule.clock
    before, after = edges[:-1], edges[1:]
    lowered = shares[before] ** shape.bend - shares[after] ** shape.bend
    middle = (clock[before] + clock[after]) / 2
    since = np.maximum(clock[places][:, None] - middle, 0.0)
    effect = 1 - (1 + shape.pace * since) ** -shape.reach
    begun = np.clip((places[:, None] - before) / (after - before), 0.0, 1.0)
    worth = (np.maximum(clock[after], FEWEST_UPDATES) / REFERENCE_UPDATES) ** -shape.fading
    return (effect * begun * lowered * worth).sum(axis=1)


def _places(schedule: Schedule, updates: Array) -> NDArray[np.int64]:
    return np.clip(np.round(updates), 0, schedule.updates).astype(np.int64)
