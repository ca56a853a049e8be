"""What simulated experiments came to: shares with their binomial intervals, held against the promises."""

import importlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.verdict import MARGIN, VerdictCall

EFFECTS = (0.0, MARGIN, 0.02)
"""The truths: equal, apart by the margin, apart by what must be found."""
ERROR = 0.05
POWER = 0.8


def is_within(interval: Interval, value: float) -> bool:
    assert interval.low is not None, "too few processes for an interval"
    assert interval.high is not None
    return interval.low <= value <= interval.high


@dataclass(frozen=True)
class Outcome:
    """One experiment read: the ratio's interval and what was said of it."""

    truth: float
    ratio: Interval
    call: VerdictCall
    rounds: int | None = None
    """Those made again included; None where it is fixed."""


@dataclass(frozen=True)
class Share:
    hits: int
    of: int

    @classmethod
    def among(cls, hits: Sequence[bool]) -> Self:
        return cls(sum(hits), len(hits))

    @property
    def value(self) -> float:
        return self.hits / self.of

    def bounds(self) -> tuple[float, float]:
        """Clopper and Pearson's 95% interval."""
        quantile = importlib.import_module("scipy.special").betaincinv
        low = float(quantile(self.hits, self.of - self.hits + 1, 0.025)) if self.hits else 0.0
        high = float(quantile(self.hits + 1, self.of - self.hits, 0.975)) if self.hits < self.of else 1.0
        return low, high

    def __str__(self) -> str:
        low, high = self.bounds()
        return f"{self.value:.1%} [{low:.1%}, {high:.1%}]"


@dataclass(frozen=True)
class Score:
    """What a way of comparing is worth on a machine."""

    covers: Share
    """The worst of the three truths, which share their noise."""
    called_different: Share
    found: Share
    tied_wrong: Share
    tied: Share
    rounds: float | None

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Self:
        by_truth = [[each for each in outcomes if each.truth == effect] for effect in EFFECTS]
        equal, margin, apart = by_truth
        covers = [Share.among([is_within(each.ratio, 1 + each.truth) for each in same]) for same in by_truth]
        rounds = [each.rounds for each in outcomes if each.rounds is not None]
        return cls(
            covers=min(covers, key=lambda share: share.hits),
            called_different=Share.among([each.call == "different" for each in equal]),
            found=Share.among([each.call == "different" and each.ratio.value > 1 for each in apart]),
            tied_wrong=Share.among([each.call == "tied" for each in margin]),
            tied=Share.among([each.call == "tied" for each in equal]),
            rounds=statistics.fmean(rounds) if rounds else None,
        )

    def kept(self) -> dict[str, bool]:
        """Which promises the binomial interval does not contradict; of the power, which the share reaches."""
        return {
            "covers": self.covers.bounds()[1] >= 1 - ERROR,
            "called_different": self.called_different.bounds()[0] <= ERROR,
            "found": self.found.value >= POWER,
            "tied_wrong": self.tied_wrong.bounds()[0] <= ERROR,
        }
