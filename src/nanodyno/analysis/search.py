"""The search of `tune`: which candidates to measure next, decided from what was measured before.

`Search.asks` is a generator that is fed answers, so that the bench and a simulation drive the same code. It
goes from many candidates and few samples to few candidates and many:
  screening   each candidate in one process, briefly: micro-batches first, then other switches at good ones
  halving     those near the best once more, until few enough are left
  final       these few afresh, in rounds by turns: the figures that are shown come from here alone, so that
              the winner's luck in being picked is no part of them
Times are seconds of one token or of one iteration, as long as it is the same for all.
"""

import math
import statistics
from collections.abc import Generator, Iterable, Sequence

from nanodyno.analysis.asking import Answer, Ask, Entrant, Pick, Reason, Rules, Stage, final_estimates
from nanodyno.analysis.budget import Budget, Reading, read, read_cut_short
from nanodyno.analysis.repeats import Visit

SCREENING_SHARE, HALVING_SHARE = 0.55, 0.65
"""Of the time, at which these stages are over at the latest; what they leave is the final's."""
NEAR = 0.05
"""Slower by this much than the best so far, a candidate still takes part."""
UNSURE = 0.05
"""How far the mean of a process may be off that had too few iterations to tell."""
FALLEN = 0.15
"""Slower by this much, a micro-batch says that those beyond it are slow too."""
FINALISTS = 4
GOOD_SIZES, MOST_VARIANTS = 2, 8
"""At how many micro-batches other switches are tried, and how many of them."""
FEWEST_ROUNDS = 3
"""Of the final: for fewer there are fewer finalists."""
FINAL = Budget(looks=(4, 8))
SAME_MEMORY = 0.03
"""A difference that is no reason to prefer one."""
ANCHORS = 3
"""Measured candidates from which on predictions are held against them."""


class Search:
    def __init__(self, entrants: Sequence[Entrant], rules: Rules) -> None:
        self._entrants = {each.name: each for each in entrants}
        self._rules = rules
        self._times: dict[str, list[float]] = {}
        self._bytes: dict[str, int] = {}
        self._precision: dict[str, float] = {}
        self._visits = 0
        self._spent = 0.0
        self.left_out: dict[str, Reason] = {}
        self.final: list[Visit] = []
        self.finalists: tuple[str, ...] = ()

    def asks(self) -> Generator[Ask, Answer, None]:
        plain = [each for each in self._entrants.values() if not each.variant]
        yield from self._screen(plain)
        yield from self._screen(self._variants())
        yield from self._screen(self._followers())
        yield from self._halve()
        yield from self._measure_afresh()

    def pick(self) -> Pick | None:
        """By what is known now; None while nothing is that could be chosen."""
        reading = self._reading()
        kept = [] if reading is None else [visit for visit in reading.kept if self._is_able(visit.config)]
        estimates = final_estimates(kept)
        estimates = estimates or {name: self._estimate(name) for name in self._able()}
        if not estimates:
            return None
        fastest, *_ = order = sorted(estimates, key=lambda name: estimates[name])
        most = estimates[fastest] * (1 + self._rules.margin)
        near = tuple(name for name in order if estimates[name] <= most)
        return Pick(self._smallest(near), fastest, near, reading)

    def _smallest(self, near: Sequence[str]) -> str:
        """Of those that need no more than the one that needs least, give or take a little: the fastest whose
        switches were not turned for nothing, else the fastest."""
        least = min(self._bytes.get(name, 0) for name in near)
        small = [name for name in near if self._bytes.get(name, 0) <= least * (1 + SAME_MEMORY)]
        return next((name for name in small if not self._entrants[name].variant), small[0])

    @property
    def measured(self) -> int:
        """Candidates that have a time."""
        return len(self._times)

    @property
    def visit_cost(self) -> float | None:
        """Seconds that a visit took so far with all that belongs to it; None before the first."""
        return self._spent / self._visits if self._visits else None

    def _screen(self, entrants: Iterable[Entrant]) -> Generator[Ask, Answer, None]:
        waiting = list(entrants)
        while waiting:
            worth = [each for each in waiting if self._is_worth_it(each)]
            now, waiting = worth[: self._rules.at_once], worth[self._rules.at_once :]
            end = self._rules.seconds * (SCREENING_SHARE if self.measured >= 2 else 1.0)
            if now and not self._has_time(1, end):
                self.left_out |= {each.name: "no-time" for each in worth}
                return
            if now:
                yield from self._ask("screening", 0, [each.name for each in now], end)

    def _is_worth_it(self, entrant: Entrant) -> bool:
        reason = self._reason_against(entrant)
        if reason is not None:
            self.left_out[entrant.name] = reason
        return reason is None

    def _reason_against(self, entrant: Entrant) -> Reason | None:
        alike = [
            each
            for each in self._entrants.values()
            if each.switches == entrant.switches and each.name != entrant.name
        ]
        if any(
            self.left_out.get(each.name) == "too-large" and each.batch_size <= entrant.batch_size
            for each in alike
        ):
            return "larger"
        best = self._best()
        if best is None:
            return None
        size, limit = self._entrants[best].batch_size, self._estimate(best)
        between = [each for each in alike if each.name in self._times and _lies_between(size, each, entrant)]
        if any(self._estimate(each.name) > limit * (1 + FALLEN) for each in between):
            return "beyond"
        expected = self._expected(entrant)
        return (
            "predicted-slow" if expected is not None and expected > limit * (1 + self._rules.trust) else None
        )

    def _expected(self, entrant: Entrant) -> float | None:
        """By its prediction, scaled to what the others took."""
        ratios = [
            self._estimate(name) / predicted
            for name in self._times
            if (predicted := self._entrants[name].predicted_seconds) is not None
        ]
        if entrant.predicted_seconds is None or len(ratios) < ANCHORS:
            return None
        return entrant.predicted_seconds * statistics.median(ratios)

    def _variants(self) -> list[Entrant]:
        """Other switches at micro-batches that are good, the best micro-batch first."""
        variants = [each for each in self._entrants.values() if each.variant]
        best = self._best()
        limit = math.inf if best is None else self._estimate(best) * (1 + NEAR)
        able = sorted(self._able(), key=self._estimate)
        good = list(dict.fromkeys(self._entrants[n].batch_size for n in able if self._estimate(n) <= limit))
        chosen = [each for size in good[:GOOD_SIZES] for each in variants if each.batch_size == size]
        if best is None:  # nothing fits as it is: smaller switches may
            chosen = variants
        chosen = chosen[:MOST_VARIANTS]
        self.left_out |= {each.name: "not-needed" for each in variants if each not in chosen}
        return chosen

    def _followers(self) -> list[Entrant]:
        """Where another switch is the best so far, it is tried at the other micro-batches too, near ones
        first: the best micro-batch with it may be another."""
        name = self._best()
        if name is None or not self._gains(name, NEAR / 2):
            return []
        best = self._entrants[name]
        found = [
            each
            for each in self._entrants.values()
            if each.switches == best.switches and self.left_out.get(each.name) == "not-needed"
        ]
        for each in found:
            del self.left_out[each.name]
        return sorted(found, key=lambda each: abs(math.log(each.batch_size / best.batch_size)))

    def _halve(self) -> Generator[Ask, Answer, None]:
        number = 1
        end = self._rules.seconds * HALVING_SHARE
        left = self._near()[: 4 * FINALISTS]
        while len(left) > FINALISTS and self._has_time(len(left), end):
            yield from self._ask("halving", number, left if number % 2 else left[::-1], end)
            left = sorted((name for name in left if self._is_able(name)), key=self._estimate)
            left = left[: max(FINALISTS, math.ceil(len(left) / 2))]
            number += 1
        self.finalists = tuple(self._spread(left)[:FINALISTS])

    def _spread(self, names: Sequence[str]) -> list[str]:
        """The best of each micro-batch before the second of any, each in their order."""
        sizes = [self._entrants[name].batch_size for name in names]
        places = [sizes[:place].count(size) for place, size in enumerate(sizes)]
        return [name for _, name in sorted(zip(places, names, strict=True), key=lambda pair: pair[0])]

    def _measure_afresh(self) -> Generator[Ask, Answer, None]:
        rules = self._rules
        while len(self.finalists) > 2 and not self._has_time(
            FEWEST_ROUNDS * len(self.finalists), rules.seconds
        ):
            self.finalists = self.finalists[:-1]
        for number in range(FINAL.most_rounds):
            names = [name for name in self.finalists if self._is_able(name)]
            if not names or not self._has_time(len(names), rules.seconds):
                return
            if len(names) == 1 and number >= FINAL.looks[0]:  # nothing to tell it apart from
                return
            yield from self._ask("final", number, names if number % 2 == 0 else names[::-1], rules.seconds)
            reading = read(self.final, FINAL, reference=names[0], margin=rules.margin)
            if reading is not None and reading.finished and len(names) > 1:
                return

    def _reading(self) -> Reading | None:
        if not self.final:
            return None
        leader, margin = self.finalists[0], self._rules.margin
        reading = read(self.final, FINAL, reference=leader, margin=margin)
        return reading or read_cut_short(self.final, FINAL, reference=leader, margin=margin)

    def _ask(
        self, stage: Stage, number: int, names: Sequence[str], until: float
    ) -> Generator[Ask, Answer, None]:
        visit = self._rules.final_visit if stage == "final" else self._rules.screening_visit
        answer = yield Ask(stage, number, tuple(names), visit, until)
        self._spent = answer.spent
        self._visits += len(names)
        self._bytes |= answer.bytes
        self._precision |= answer.precision
        for name in names:
            self._take(stage, number, name, answer)

    def _take(self, stage: Stage, number: int, name: str, answer: Answer) -> None:
        if (seconds := answer.seconds.get(name)) is not None:
            if stage == "final":
                self.final.append(Visit(name, number, number, seconds))
            else:
                self._times.setdefault(name, []).append(seconds)
        if (loss := answer.lost.get(name)) is not None:
            self.left_out[name] = loss
        elif name not in self._times:
            self.left_out[name] = "no-time"

    def _has_time(self, visits: int, end: float) -> bool:
        """By what visits took so far, side by side where there are several devices."""
        cost = self.visit_cost
        if cost is None:
            return True
        return self._spent + cost * math.ceil(visits / self._rules.at_once) * self._rules.at_once <= end

    def _near(self) -> list[str]:
        """Those that may be the best, for all that is known: a restless machine leaves more of them open. A
        switch that neither gained anything nor saved memory is not turned."""
        able = sorted(self._able(), key=self._estimate)
        near = [name for name in able if self._is_near(name, able[0])]
        return [name for name in near if not self._entrants[name].variant or self._is_of_use(name)]

    def _plain(self, name: str) -> list[str]:
        """The candidates of its micro-batch as it was before the switch was turned."""
        size = self._entrants[name].batch_size
        able = (self._entrants[other] for other in self._able())
        return [each.name for each in able if each.batch_size == size and not each.variant]

    def _gains(self, name: str, least: float) -> bool:
        """Whether it is a switch turned, and faster for it by so much."""
        plain = min((self._estimate(other) for other in self._plain(name)), default=math.inf)
        return self._entrants[name].variant and self._estimate(name) * (1 + least) < plain

    def _is_of_use(self, name: str) -> bool:
        saved = self._bytes.get(name, 0) * (1 + SAME_MEMORY)
        smaller = all(saved < self._bytes.get(other, 0) for other in self._plain(name))
        return smaller or self._gains(name, -self._precision.get(name, UNSURE))

    def _is_near(self, name: str, best: str) -> bool:
        unsure = self._precision.get(name, UNSURE) + self._precision.get(best, UNSURE)
        return self._estimate(name) <= self._estimate(best) * (1 + max(NEAR, unsure))

    def _able(self) -> list[str]:
        return [name for name in self._times if self._is_able(name)]

    def _is_able(self, name: str) -> bool:
        return name not in self.left_out

    def _best(self) -> str | None:
        return min(self._able(), key=self._estimate, default=None)

    def _estimate(self, name: str) -> float:
        return statistics.geometric_mean(self._times[name])


def _lies_between(best: int, middle: Entrant, far: Entrant) -> bool:
    low, high = sorted((best, far.batch_size))
    return low < middle.batch_size < high
