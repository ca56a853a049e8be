"""How much to measure: the default budget, when one may stop early, and rounds for a wanted precision."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from nanodyno.analysis.repeats import RepetitionTime, config_interval, odd_repetition
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import t_power, t_quantile
from nanodyno.analysis.verdict import MARGIN, SpeedComparison, compare

LAST_SHARE = 0.7
"""Of the error, what is kept for the last look; the earlier ones share the rest."""


@dataclass(frozen=True)
class Budget:
    """How many processes of each config, and when one may look. Iterations of a visit: `steady.is_enough`.

    The default by benchmarks/simulation.py: up to 16 processes find a true 2% in at least 80 of 100 on every
    machine but the crowded one, up to 8 do not; a quiet card ends at the first look or the second. With fewer
    than 4 Student's t is too wide to use. More iterations in few processes do not help: what differs between
    processes stays.
    """

    looks: tuple[int, ...] = (4, 8, 16)
    """After how many processes of each config the results may be read; the last look ends the measurement."""
    repetitions_per_process: int = 1
    """Rounds that a worker stays resident for."""

    @property
    def rounds(self) -> int:
        """That count, at most."""
        return self.looks[-1] * self.repetitions_per_process

    @property
    def most_rounds(self) -> int:
        """With those made again for an odd visit, of which there are half as many at most."""
        return self.rounds + self.rounds // 2

    def level_at(self, rounds_kept: int, level: float = 0.95) -> float | None:
        """The level of the intervals read after that many rounds; None where there is no look.

        Reading repeatedly and stopping when the answer pleases inflates the error. Here the error is spent in
        portions that sum to 1 - level, most of it at the last look. So whatever makes one stop, the interval
        that is shown misses in at most 1 - level of all experiments: the union bound, which needs nothing
        about how the looks depend on each other.
        """
        looks = [look * self.repetitions_per_process for look in self.looks]
        if rounds_kept not in looks:
            return None
        if len(looks) == 1:
            return level
        share = LAST_SHARE if rounds_kept == looks[-1] else (1 - LAST_SHARE) / (len(looks) - 1)
        return 1 - (1 - level) * share


DEFAULT_BUDGET = Budget()


@dataclass(frozen=True)
class Reading:
    """What is known at a look."""

    level: float
    """Of all comparisons together, and of each config's own interval."""
    comparisons: list[SpeedComparison]
    finished: bool
    """Everything decided or precise enough, or the budget spent."""
    rounds: int
    """Made so far, those set aside included."""
    kept: list[RepetitionTime]
    """What the comparisons rest on."""
    odd: list[RepetitionTime]
    """For which their rounds were set aside and made again: to be told."""


def readings(
    rounds: Iterable[Sequence[RepetitionTime]],
    budget: Budget = DEFAULT_BUDGET,
    *,
    reference: str | None = None,
    margin: float = MARGIN,
    precision: float | None = None,
) -> Iterator[Reading]:
    """Takes round after round, yields what is known at each look, and ends when it is finished.

    `rounds` may measure as it goes: no more than needed is taken of it, budget.most_rounds at most. Finished
    is when every comparison is "different" or "tied" (without any: at once); with a precision instead when
    every ratio (of a lone config its seconds) is known to +-precision; and at the last look. A round in which
    nothing could be measured does not count. reference and margin as in `verdict.compare`.
    """
    for standing in standings(rounds, budget.rounds // 2):
        # After a round was set aside there is no look: at the same count it would be a second one.
        level = budget.level_at(standing.counted) if standing.grew else None
        if level is None:
            continue
        comparisons = compare(standing.kept, reference, margin=margin, level=level)
        spent = standing.counted == budget.rounds
        finished = spent or _is_settled(standing.kept, comparisons, level, precision)
        yield Reading(level, comparisons, finished, standing.rounds, standing.kept, standing.odd)
        if finished:
            return


def read(
    repetitions: Sequence[RepetitionTime],
    budget: Budget = DEFAULT_BUDGET,
    *,
    reference: str | None = None,
    margin: float = MARGIN,
    precision: float | None = None,
) -> Reading | None:
    """What the look after the last of these rounds says, for who holds all visits; None between looks."""
    rounds = _by_round(repetitions)
    found = list(readings(rounds, budget, reference=reference, margin=margin, precision=precision))
    return found[-1] if found and (found[-1].finished or found[-1].rounds == len(rounds)) else None


def read_cut_short(
    repetitions: Sequence[RepetitionTime],
    budget: Budget = DEFAULT_BUDGET,
    *,
    reference: str | None = None,
    margin: float = MARGIN,
) -> Reading:
    """What can be said when something from outside (Ctrl-C, a time limit) ended the measurement.

    The portion of the last look is still unspent: its level is used.
    """
    level = budget.level_at(budget.rounds)
    assert level is not None
    standing = [RoundStanding(), *standings(_by_round(repetitions), budget.rounds // 2)][-1]
    comparisons = compare(standing.kept, reference, margin=margin, level=level)
    return Reading(level, comparisons, False, standing.rounds, standing.kept, standing.odd)


def rounds_needed(log_sd: float, precision: float, level: float = 0.95) -> int:
    """The fewest processes whose interval is +-precision or narrower, when they differ by log_sd.

    log_sd: of the log ratio (`repeats.log_ratio_sd`), or of a config's log seconds.
    """
    wanted = math.log1p(precision)
    normal = statistics.NormalDist().inv_cdf((1 + level) / 2)
    rounds = max(2, math.floor((normal * log_sd / wanted) ** 2))
    while t_quantile(rounds - 1, level) * log_sd / math.sqrt(rounds) > wanted:
        rounds += 1
    return rounds


def power(log_sd: float, rounds: int, effect: float, level: float = 0.95) -> float:
    """The chance that `rounds` processes of each show a true effect (0.02: 2%) as different from none."""
    return t_power(rounds - 1, math.log1p(effect) / log_sd * math.sqrt(rounds), level)


@dataclass(frozen=True)
class RoundStanding:
    """The visits after a round."""

    rounds: int = 0
    kept: list[RepetitionTime] = field(default_factory=list[RepetitionTime])
    odd: list[RepetitionTime] = field(default_factory=list[RepetitionTime])
    grew: bool = False
    """False when a round was set aside in its stead."""

    @property
    def counted(self) -> int:
        return self.rounds - len(self.odd)


def standings(rounds: Iterable[Sequence[RepetitionTime]], most_odd: int) -> Iterator[RoundStanding]:
    now = RoundStanding()
    for repetitions in filter(None, rounds):
        kept = [*now.kept, *repetitions]
        found = odd_repetition(kept) if len(now.odd) < most_odd else None
        if found is None:
            now = RoundStanding(now.rounds + 1, kept, now.odd, True)
        else:
            rest = [repetition for repetition in kept if repetition.round != found.round]
            now = RoundStanding(now.rounds + 1, rest, [*now.odd, found], False)
        yield now


def _by_round(repetitions: Sequence[RepetitionTime]) -> list[list[RepetitionTime]]:
    ordered = sorted(repetitions, key=lambda repetition: repetition.round)
    return [list(group) for _, group in groupby(ordered, key=lambda repetition: repetition.round)]


def _is_settled(
    repetitions: Sequence[RepetitionTime],
    comparisons: Sequence[SpeedComparison],
    level: float,
    precision: float | None,
) -> bool:
    if precision is None:
        return all(comparison.call != "no difference shown" for comparison in comparisons)
    ratios = [comparison.ratio for comparison in comparisons]
    if not ratios:
        own = [
            config_interval(repetitions, config, level)
            for config in {repetition.config for repetition in repetitions}
        ]
        ratios = [interval for interval in own if interval is not None]
    return all(_is_precise(ratio, precision) for ratio in ratios)


def _is_precise(interval: Interval, precision: float) -> bool:
    if interval.low is None or interval.high is None:
        return False
    return math.sqrt(interval.high / interval.low) <= 1 + precision
