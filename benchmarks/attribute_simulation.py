"""Does attribute tell the truth? Factorials on made-up machines, with every effect known.

    python benchmarks/attribute_simulation.py [--experiments 4000] [--machines NAME ...] [--json]

An experiment has two or three changes: one of 3%, one that does nothing, one that is large and interacts
with the first; or, in every fourth, changes that all do nothing. Rounds visit every corner in random order,
each in a process of its own that costs its start and its iterations, until every part is known to 2% or the
time of the default budget is up; some corners are noisier than others, as those bound by launching are. The
noise is that of the stopwatch's simulation (machines.py); everything else is the shipped code of
nanodyno.analysis.
Per machine, with exact binomial intervals:
  covers       a part's interval holds the true part; wanted: consistent with 95%
  steps        the same for one change more, from any corner
  all          the intervals of all parts of an experiment hold together
  inert        a change that does nothing is called active; wanted: consistent with at most 5%
  A/A          any of an experiment's changes is, where none does anything; wanted: the same
  3% found     wanted: at least 80%
  pooled       parts together and steps, had one variance been pooled over all corners at the same look
  rounds, time of an experiment
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

from machines import MACHINES, Machine, drawn, fresh_repetitions
from nanodyno.analysis.attributing import PRECISION, SPEED_BUDGET_SECONDS, speed_rules
from nanodyno.analysis.effects import EffectEstimates, EffectRules, Observed, estimate, look_cut_short, looks
from nanodyno.analysis.shapley import Contrast, combinations_of, shapley, step, value
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.steady import ENOUGH_FROM, is_enough, summarise
from nanodyno.analysis.student import t_quantile
from scores import Share, is_within

DRAWN = "any machine"
ONE_NOISY = "one noisy corner"
"""A quiet card on which one corner is bound by launching."""
NOISY = 0.02
SMALL = math.log(1.03)
GPU_START, HOST_START = (6.0, 16.0), (2.0, 6.0)
ITERATION_SECONDS = 0.1
REPETITION_PRECISION = 0.01
MOST_ITERATIONS = 2 * ENOUGH_FROM
UNEVEN = (0.0, 0.0, 0.003, 0.01)
"""By how much processes of a corner differ besides: one of these each."""


@dataclass(frozen=True)
class Truth:
    parts: tuple[float, ...]
    small: int | None
    inert: tuple[int, ...]
    values: dict[int, float]


def draw_truth(rng: np.random.Generator, nothing: bool) -> Truth:
    """An interaction of two changes, as a product of signs, leaves their parts as they are."""
    if nothing:
        count = int(rng.integers(2, 4))
        return Truth((0.0,) * count, None, tuple(range(count)), dict.fromkeys(combinations_of(count), 0.0))
    kinds = [["small", "inert"], ["small", "large"], ["small", "inert", "large"]][int(rng.integers(3))]
    rng.shuffle(kinds)
    sizes = {"small": SMALL * rng.choice((-1, 1)), "inert": 0.0, "large": float(rng.uniform(-0.8, 0.8))}
    parts = tuple(float(sizes[kind]) for kind in kinds)
    together = float(rng.uniform(-0.2, 0.2)) if "large" in kinds else 0.0
    acting = [number for number, kind in enumerate(kinds) if kind != "inert"]

    def at(combination: int) -> float:
        signs = [1 if combination >> each & 1 else -1 for each in acting]
        own = sum(part for number, part in enumerate(parts) if combination >> number & 1)
        return own + (together * signs[0] * signs[1] if len(acting) == 2 else 0.0)

    return Truth(
        parts,
        kinds.index("small"),
        tuple(number for number, kind in enumerate(kinds) if kind == "inert"),
        {combination: at(combination) for combination in combinations_of(len(kinds))},
    )


class Clockwork:
    """A bench made up: rounds in the order of time, each visit at its cost."""

    def __init__(
        self, truth: Truth, machine: Machine, rules: EffectRules, rng: np.random.Generator, one_noisy: bool
    ) -> None:
        self._truth, self._rng = truth, rng
        combinations = len(truth.values)
        self._most = rules.budget.most_rounds
        self._noise = fresh_repetitions(machine, self._most * combinations, MOST_ITERATIONS, rng)
        self._uneven = (
            np.array([NOISY] + [0.0] * (combinations - 1)) if one_noisy else rng.choice(UNEVEN, combinations)
        )
        on_host = machine in (MACHINES["CPU"], MACHINES["crowded CPU"])
        self._start = float(rng.uniform(*(HOST_START if on_host else GPU_START)))
        self.spent = 0.0
        self.observed: list[Observed] = []

    def rounds(self) -> Iterator[list[Observed]]:
        for number in range(self._most):
            began = self.spent
            found = [
                self._repetition(combination, number)
                for combination in self._rng.permutation(len(self._uneven))
            ]
            self.observed += found
            yield found
            if self.spent + (self.spent - began) > SPEED_BUDGET_SECONDS:
                return

    def _repetition(self, combination: int, number: int) -> Observed:
        noise = self._noise[len(self._uneven) * number + combination] + self._rng.normal(
            0, self._uneven[combination]
        )
        times = np.exp(noise).tolist()
        first = times[:ENOUGH_FROM]
        kept = first if is_enough(first, REPETITION_PRECISION) else times
        self.spent += self._start + len(kept) * ITERATION_SECONDS
        summary = summarise(kept)
        assert summary is not None
        return Observed(
            int(combination), number, self._truth.values[int(combination)] - math.log(summary.seconds)
        )


@dataclass
class Tally:
    covers: list[bool] = field(default_factory=list)
    steps: list[bool] = field(default_factory=list)
    together: list[bool] = field(default_factory=list)
    inert: list[bool] = field(default_factory=list)
    nothing: list[bool] = field(default_factory=list)
    found: list[bool] = field(default_factory=list)
    pooled_parts: list[bool] = field(default_factory=list)
    pooled_steps: list[bool] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def experiment(
    truth: Truth, machine: Machine, rng: np.random.Generator, tally: Tally, one_noisy: bool = False
) -> None:
    rules = speed_rules(len(truth.parts), PRECISION)
    bench = Clockwork(truth, machine, rules, rng, one_noisy)
    found = list(looks(bench.rounds(), rules))
    look = found[-1] if found and found[-1].finished else look_cut_short(bench.observed, rules)
    hits = [is_within(e.interval, true) for e, true in zip(look.effects.parts, truth.parts, strict=True)]
    tally.covers += hits
    tally.together.append(all(hits))
    for (combination, factor), effect in look.effects.steps.items():
        true = value(step(combination, factor), truth.values)
        tally.steps.append(is_within(effect.interval, true))
        tally.pooled_steps.append(is_within(pooled(step(combination, factor), bench, look, look.level), true))
    count = len(truth.parts)
    each = 1 - (1 - look.level) / count
    pooled_parts = [pooled(shapley(count, factor), bench, look, each) for factor in range(count)]
    tally.pooled_parts.append(all(map(is_within, pooled_parts, truth.parts)))
    active = [effect.call == "different" for effect in look.effects.parts]
    tally.inert += [active[factor] for factor in truth.inert]
    if truth.small is None:
        tally.nothing.append(any(active))
    else:
        same_sign = look.effects.parts[truth.small].interval.value * truth.parts[truth.small] > 0
        tally.found.append(active[truth.small] and same_sign)
    tally.rounds.append(look.made)
    tally.seconds.append(bench.spent)


def pooled(contrast: Contrast, bench: Clockwork, look: EffectEstimates, level: float) -> Interval:
    """One variance for all corners, of what rounds and corners leave: more degrees of freedom."""
    rows: dict[int, dict[int, float]] = {number: {} for number in look.kept}
    for each in bench.observed:
        if each.round in rows:
            rows[each.round][each.combination] = each.value
    values = np.array([[row[combination] for combination in sorted(row)] for row in rows.values()])
    rest = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    degrees = (values.shape[0] - 1) * (values.shape[1] - 1)
    variance = float((rest**2).sum()) / degrees * sum(float(w) ** 2 for w in contrast.values())
    middle = estimate(contrast, list(rows.values()), level).value
    half = t_quantile(degrees, level) * math.sqrt(variance / values.shape[0])
    return Interval(middle, middle - half, middle + half, level, values.shape[0])


def simulate(name: str, experiments: int, seed: int) -> Tally:
    """For "any machine", one is drawn for every experiment."""
    rng, tally = np.random.default_rng(seed), Tally()
    for number in range(experiments):
        quiet = MACHINES["card of one's own"] if name == ONE_NOISY else None
        machine = quiet or MACHINES.get(name) or drawn(rng)
        experiment(draw_truth(rng, number % 4 == 3), machine, rng, tally, name == ONE_NOISY)
    return tally


@dataclass(frozen=True)
class Reported:
    covers: Share
    steps: Share
    together: Share
    inert: Share
    nothing: Share
    found: Share
    pooled_parts: Share
    pooled_steps: Share
    rounds: float
    seconds: float

    @classmethod
    def of(cls, tally: Tally) -> "Reported":
        shares = {name: hits for name, hits in vars(tally).items() if name not in ("rounds", "seconds")}
        return cls(
            **{name: Share.among(hits) for name, hits in shares.items()},
            rounds=float(np.mean(tally.rounds)),
            seconds=float(np.mean(tally.seconds)),
        )

    def kept(self) -> dict[str, bool]:
        """What the binomial interval does not contradict; of the power, what the share reaches."""
        return {
            "covers": self.covers.bounds()[1] >= 0.95,
            "steps": self.steps.bounds()[1] >= 0.95,
            "together": self.together.bounds()[1] >= 0.95,
            "inert": self.inert.bounds()[0] <= 0.05,
            "nothing": self.nothing.bounds()[0] <= 0.05,
            "found": self.found.value >= 0.8,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*MACHINES, DRAWN, ONE_NOISY]
    parser.add_argument("--experiments", type=int, default=4000)
    parser.add_argument("--machines", nargs="+", default=names, choices=names)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    document: dict[str, object] = {}
    if not given.json:
        heads = ("machine", "covers", "steps", "all", "inert", "A/A", "3% found", "pooled: parts, steps")
        print(f"| {' | '.join(heads)} | rounds | time |")
        print("|---|---|---|---|---|---|---|---|---|---|")
    for name in given.machines:
        began = time.perf_counter()
        reported = Reported.of(simulate(name, given.experiments, given.seed))
        document[name] = asdict(reported) | {"kept": reported.kept(), "took": time.perf_counter() - began}
        if not given.json:
            marks = {what: "" if kept else " !" for what, kept in reported.kept().items()}
            cells = [f"{getattr(reported, what)}{mark}" for what, mark in marks.items()]
            print(
                f"| {name} | {' | '.join(cells)} | {reported.pooled_parts}, {reported.pooled_steps} "
                f"| {reported.rounds:.1f} | {reported.seconds:.0f} s |",
                flush=True,
            )
    if given.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
