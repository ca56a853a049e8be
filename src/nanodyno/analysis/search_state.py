"""The candidates of a search: what was measured of each, and what that says of those that were not."""

import math
import statistics
from collections.abc import Sequence

from nanodyno.analysis.asking import SearchCandidate, SearchRules, SkipReason

UNSURE = 0.05
"""How far the mean of a process may be off that had too few iterations to tell."""
FALLEN = 0.15
"""Slower by this much, a micro-batch says that those beyond it are slow too."""
FLAT = 0.005
"""Where a doubling gains no more, larger micro-batches are not tried."""
IDLING = 0.25
"""Predicted to be slower by this much than the fastest, a candidate may wait for launches: worth a look at
where its time goes."""
SAME_MEMORY = 0.03
"""A difference that is no reason to prefer one."""
ANCHORS = 3
"""Measured candidates from which on predictions are held against them."""


class SearchState:
    """`left_out` are those that were given up or not tried, each with its reason."""

    def __init__(self, candidates: Sequence[SearchCandidate], rules: SearchRules) -> None:
        self.candidates = {each.name: each for each in candidates}
        self._rules = rules
        self.times: dict[str, list[float]] = {}
        self.bytes: dict[str, int] = {}
        self.precision: dict[str, float] = {}
        self.left_out: dict[str, SkipReason] = {}

    def reason_against(self, candidate: SearchCandidate) -> SkipReason | None:
        alike = [
            each
            for each in self.candidates.values()
            if each.switches == candidate.switches and each.name != candidate.name
        ]
        if any(
            self.left_out.get(each.name) == "too-large" and each.batch_size <= candidate.batch_size
            for each in alike
        ):
            return "larger"
        best = self.best()
        if best is None or candidate.asked:
            return None
        if self._is_flat(alike, candidate) or self._pays_too_much(candidate):
            return "flat"
        size, limit = self.candidates[best].batch_size, self.estimate(best)
        between = [each for each in alike if each.name in self.times and _lies_between(size, each, candidate)]
        if any(self.estimate(each.name) > limit * (1 + FALLEN) for each in between):
            return "beyond"
        expected = self._expected(candidate)
        return (
            "predicted-slow" if expected is not None and expected > limit * (1 + self._rules.trust) else None
        )

    def _is_flat(self, alike: Sequence[SearchCandidate], candidate: SearchCandidate) -> bool:
        """Whether the two nearest smaller ones have shown that a doubling gains nothing, and predictions say
        the same of this one."""
        known = [each for each in alike if each.name in self.times and each.batch_size < candidate.batch_size]
        below = sorted(known, key=lambda each: each.batch_size)[-2:]
        if len(below) < 2:
            return False
        small, large = below
        gain = math.log(self.estimate(small.name) / self.estimate(large.name))
        flat = gain < FLAT * math.log2(large.batch_size / small.batch_size)
        return flat and _gain(large, candidate) < FLAT * math.log2(candidate.batch_size / large.batch_size)

    def _pays_too_much(self, candidate: SearchCandidate) -> bool:
        """Whether it fits by switches that are predicted to cost more than its size gains over one that was
        measured without them."""
        able = [self.candidates[name] for name in self.able()]
        smaller = [each for each in able if not each.switches and each.batch_size < candidate.batch_size]
        dear = bool(candidate.switches) and not candidate.variant
        return dear and any(_gain(each, candidate) < -self._rules.trust / 10 for each in smaller)

    def _expected(self, candidate: SearchCandidate) -> float | None:
        """By its prediction, scaled to what the others took."""
        ratios = [
            self.estimate(name) / predicted
            for name in self.times
            if (predicted := self.candidates[name].predicted_seconds) is not None
        ]
        if candidate.predicted_seconds is None or len(ratios) < ANCHORS:
            return None
        return candidate.predicted_seconds * statistics.median(ratios)

    def may_idle(self, name: str) -> bool:
        """Unknown without a prediction."""
        times = [each.predicted_seconds for each in self.candidates.values() if each.predicted_seconds]
        predicted = self.candidates[name].predicted_seconds
        return predicted is None or predicted > min(times) * (1 + IDLING)

    def _plain(self, name: str) -> list[str]:
        """The candidates of its micro-batch as it was before the switch was turned."""
        size = self.candidates[name].batch_size
        able = (self.candidates[other] for other in self.able())
        return [each.name for each in able if each.batch_size == size and not each.variant]

    def gains(self, name: str, least: float) -> bool:
        """Whether it is a switch turned, and faster for it by so much."""
        plain = min((self.estimate(other) for other in self._plain(name)), default=math.inf)
        return self.candidates[name].variant and self.estimate(name) * (1 + least) < plain

    def _is_of_use(self, name: str) -> bool:
        saved = self.bytes.get(name, 0) * (1 + SAME_MEMORY)
        smaller = all(saved < self.bytes.get(other, 0) for other in self._plain(name))
        return smaller or self.gains(name, -self.precision.get(name, UNSURE))

    def _is_near(self, name: str, best: str) -> bool:
        unsure = self.precision.get(name, UNSURE) + self.precision.get(best, UNSURE)
        return self.estimate(name) <= self.estimate(best) * (1 + self._rules.margin + unsure)

    def near(self) -> list[str]:
        """Those that may be the best, for all that is known: a restless machine leaves more of them open. Two
        at least, so that there is something to hold the winner against. A switch that neither gained anything
        nor saved memory is not turned."""
        able = sorted(self.able(), key=self.estimate)
        useful = [name for name in able if not self.candidates[name].variant or self._is_of_use(name)]
        return [name for place, name in enumerate(useful) if place < 2 or self._is_near(name, able[0])]

    def spread(self, names: Sequence[str]) -> list[str]:
        """The best of each micro-batch before the second of any, each in their order."""
        sizes = [self.candidates[name].batch_size for name in names]
        places = [sizes[:place].count(size) for place, size in enumerate(sizes)]
        return [name for _, name in sorted(zip(places, names, strict=True), key=lambda pair: pair[0])]

    def smallest(self, near: Sequence[str]) -> str:
        """Of those that need no more than the one that needs least, give or take a little: the fastest whose
        switches were not turned for nothing, else the fastest."""
        least = min(self.bytes.get(name, 0) for name in near)
        small = [name for name in near if self.bytes.get(name, 0) <= least * (1 + SAME_MEMORY)]
        return next((name for name in small if not self.candidates[name].variant), small[0])

    def able(self) -> list[str]:
        return [name for name in self.times if self.is_able(name)]

    def is_able(self, name: str) -> bool:
        return name not in self.left_out

    def best(self) -> str | None:
        return min(self.able(), key=self.estimate, default=None)

    def estimate(self, name: str) -> float:
        return statistics.geometric_mean(self.times[name])


def _lies_between(best: int, middle: SearchCandidate, far: SearchCandidate) -> bool:
    low, high = sorted((best, far.batch_size))
    return low < middle.batch_size < high


def _gain(small: SearchCandidate, large: SearchCandidate) -> float:
    """Predicted, on a log scale; without predictions anything may be gained."""
    if small.predicted_seconds is None or large.predicted_seconds is None:
        return math.inf
    return math.log(small.predicted_seconds / large.predicted_seconds)
