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
from collections.abc import Generator, Iterable, Mapping, Sequence

from nanodyno.analysis.asking import (
    Ask,
    AskResult,
    Pick,
    SearchCandidate,
    SearchRules,
    SearchStage,
    SkipReason,
    final_estimates,
)
from nanodyno.analysis.budget import Budget, Reading, read, read_cut_short
from nanodyno.analysis.repeats import RepetitionTime
from nanodyno.analysis.search_state import SearchState

SCREENING_SHARE, HALVING_SHARE = 0.65, 0.7
"""Of the time, at which these stages are over at the latest; what they leave is the final's."""
NEAR = 0.05
"""Slower by this much than the best so far, a micro-batch is still worth trying with other switches."""
FINALISTS = 4
GOOD_SIZES, MOST_VARIANTS = 2, 8
"""At how many micro-batches other switches are tried, and how many of them."""
FEWEST_ROUNDS = 4
"""Of the final: for fewer there are fewer finalists."""
FINAL = Budget(looks=(4, 8))


class Search:
    def __init__(self, candidates: Sequence[SearchCandidate], rules: SearchRules) -> None:
        self._state = SearchState(candidates, rules)
        self._rules = rules
        self._costs: list[float] = []
        self._spent = 0.0
        self.final: list[RepetitionTime] = []
        self.finalists: tuple[str, ...] = ()

    def asks(self) -> Generator[Ask, AskResult, None]:
        plain = [each for each in self._state.candidates.values() if not each.variant]
        yield from self._screen(self._outwards(plain))
        yield from self._screen(self._variants())
        yield from self._screen(self._followers())
        yield from self._halve()
        yield from self._measure_afresh()

    def pick(self) -> Pick | None:
        """By what is known now; None while nothing is that could be chosen."""
        reading = self._reading()
        state = self._state
        kept = [] if reading is None else [each for each in reading.kept if state.is_able(each.config)]
        estimates = final_estimates(kept)
        if not all(name in estimates for name in filter(state.is_able, self.finalists)):
            estimates = {}  # cut short in its first round, a final is fair to none
        if not estimates:
            reading, estimates = None, {name: state.estimate(name) for name in state.able()}
        if not estimates:
            return None
        fastest, *_ = order = sorted(estimates, key=lambda name: estimates[name])
        most = estimates[fastest] * (1 + self._rules.margin)
        near = tuple(name for name in order if estimates[name] <= most)
        return Pick(state.smallest(near), fastest, near, reading)

    @property
    def left_out(self) -> Mapping[str, SkipReason]:
        return self._state.left_out

    @property
    def measured(self) -> int:
        """Candidates that have a time."""
        return len(self._state.times)

    @property
    def repetition_cost(self) -> float | None:
        """Seconds that a visit which is measured takes with all that belongs to it; None before the first.
        Those that had to compile took longer, and will not again."""
        return statistics.median(self._costs) if self._costs else None

    def _outwards(self, candidates: Sequence[SearchCandidate]) -> list[SearchCandidate]:
        """From the one that would be picked by predictions, larger ones before smaller ones: where they gain
        nothing the rest of them need not be tried. Without predictions as they come."""
        times = {each.name: each.predicted_seconds or math.nan for each in candidates}
        needs = {each.name: each.predicted_bytes or math.nan for each in candidates}
        if not candidates or any(math.isnan(value) for value in (*times.values(), *needs.values())):
            return list(candidates)
        most = min(times.values()) * (1 + self._rules.margin)
        near = [each for each in candidates if times[each.name] <= most]
        start = min(near, key=lambda each: needs[each.name]).batch_size
        return sorted(
            candidates,
            key=lambda each: (abs(math.log2(each.batch_size / start)), -each.batch_size, times[each.name]),
        )

    def _screen(self, candidates: Iterable[SearchCandidate]) -> Generator[Ask, AskResult, None]:
        waiting = list(candidates)
        while waiting:
            worth = [each for each in waiting if self._is_worth_it(each)]
            now, waiting = worth[: self._rules.at_once], worth[self._rules.at_once :]
            end = self._rules.seconds * (SCREENING_SHARE if self.measured >= 2 else 1.0)
            if now and not self._has_time(1, end):
                self._state.left_out |= {each.name: "no-time" for each in worth}
                return
            if now:
                yield from self._ask("screening", 0, [each.name for each in now], end)

    def _is_worth_it(self, candidate: SearchCandidate) -> bool:
        reason = self._state.reason_against(candidate)
        if reason is not None:
            self._state.left_out[candidate.name] = reason
        return reason is None

    def _variants(self) -> list[SearchCandidate]:
        """Other switches at micro-batches that are good, by their predictions if there are any."""
        state = self._state
        variants = [each for each in state.candidates.values() if each.variant]
        best = state.best()
        limit = math.inf if best is None else state.estimate(best) * (1 + NEAR)
        able = sorted(state.able(), key=state.estimate)
        sizes = (state.candidates[name].batch_size for name in able if state.estimate(name) <= limit)
        good = list(dict.fromkeys(sizes))[:GOOD_SIZES]
        chosen = [each for size in good for each in variants if each.batch_size == size]
        if best is None:  # nothing fits as it is: smaller switches may
            chosen = variants
        chosen = sorted(chosen, key=lambda each: each.predicted_seconds or 0.0)[:MOST_VARIANTS]
        state.left_out |= {each.name: "not-needed" for each in variants if each not in chosen}
        return chosen

    def _followers(self) -> list[SearchCandidate]:
        """Where another switch is the best so far, it is tried at the other micro-batches too, near ones
        first: the best micro-batch with it may be another."""
        state = self._state
        name = state.best()
        if name is None or not state.gains(name, NEAR / 2):
            return []
        best = state.candidates[name]
        found = [
            each
            for each in state.candidates.values()
            if each.switches == best.switches and state.left_out.get(each.name) == "not-needed"
        ]
        for each in found:
            del state.left_out[each.name]
        return sorted(found, key=lambda each: abs(math.log(each.batch_size / best.batch_size)))

    def _halve(self) -> Generator[Ask, AskResult, None]:
        number = 1
        end = self._rules.seconds * HALVING_SHARE
        left = self._state.near()[: 4 * FINALISTS]
        while len(left) > FINALISTS and self._has_time(len(left), end):
            yield from self._ask("halving", number, left if number % 2 else left[::-1], end)
            left = sorted((name for name in left if self._state.is_able(name)), key=self._state.estimate)
            left = left[: max(FINALISTS, math.ceil(len(left) / 2))]
            number += 1
        self.finalists = tuple(self._state.spread(left)[:FINALISTS])

    def _measure_afresh(self) -> Generator[Ask, AskResult, None]:
        rules = self._rules
        while len(self.finalists) > 2 and not self._has_time(
            FEWEST_ROUNDS * len(self.finalists), rules.seconds, "final"
        ):
            self.finalists = self.finalists[:-1]
        for number in range(FINAL.most_rounds):
            names = [name for name in self.finalists if self._state.is_able(name)]
            if not names or not self._has_time(len(names), rules.seconds, "final"):
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
        self, stage: SearchStage, number: int, names: Sequence[str], until: float
    ) -> Generator[Ask, AskResult, None]:
        repetition = self._rules.final_repetition if stage == "final" else self._rules.screening_repetition
        breakdown = stage == "screening" and self._is_worth_a_look(names)
        answer = yield Ask(stage, number, tuple(names), repetition, until, breakdown)
        measured = sum(name in answer.seconds for name in names)
        if measured:  # what does not fit ends early, and says nothing about those that do
            turns = math.ceil(measured / self._at_once(stage))
            self._costs.append((answer.spent - self._spent) / turns)
        self._spent = answer.spent
        self._state.bytes |= answer.bytes
        self._state.precision |= answer.precision
        for name in names:
            self._take(stage, number, name, answer)

    def _is_worth_a_look(self, names: Sequence[str]) -> bool:
        """Where the time of these goes: of the first, which often wins, and of those that may idle."""
        return not self._state.times or any(map(self._state.may_idle, names))

    def _take(self, stage: SearchStage, number: int, name: str, answer: AskResult) -> None:
        if (seconds := answer.seconds.get(name)) is not None:
            if stage == "final":
                self.final.append(RepetitionTime(name, number, number, seconds))
            else:
                self._state.times.setdefault(name, []).append(seconds)
        if (loss := answer.lost.get(name)) is not None:
            self._state.left_out[name] = loss
        elif name not in self._state.times:
            self._state.left_out[name] = "no-time"

    def _has_time(self, repetitions: int, end: float, stage: SearchStage = "screening") -> bool:
        """By what visits took so far."""
        cost = self.repetition_cost or 0.0
        needed = cost * math.ceil(repetitions / self._at_once(stage))
        return self._spent < end and self._spent + needed <= end

    def _at_once(self, stage: SearchStage) -> int:
        """Visits side by side: a round of the final stays on one device."""
        return 1 if stage == "final" else self._rules.at_once
