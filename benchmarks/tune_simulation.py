"""Does tune find the fastest? Searches over made-up cards and configs, with the truth known.

    python benchmarks/tune_simulation.py [--searches 500] [--machines NAME ...] [--budget 300] [--json]

A surface has up to ten micro-batches, whose speed rises and flattens, sometimes to fall again; switches that
make a difference of some percent or none (near-ties); a cliff, beyond which memory is out, and a stretch
before it that is too tight for a whole run. Predictions are off by some percent, as the cost model's are, or
there are none, as on a CPU. A visit costs its start, its iterations and, of some with a prediction, a look at
where the time goes; the time for all is limited. The noise is that of the stopwatch's simulation
(machines.py); everything else is the shipped code of nanodyno.analysis. Per machine:
  regret    of the chosen one, in seconds of an iteration over the fastest that fits; wanted: under 2% in 95%
            of the searches (of the tied the smallest is chosen, so up to 1% is intended)
  visits    processes started; time: share of the budget used
  promise   shown tokens/s over true tokens/s of the chosen one on that day's machine: what the winner's luck
            adds
"""

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass

import numpy as np

from machines import MACHINES, Machine, drawn, fresh_repetitions
from nanodyno.analysis.asking import Ask, AskResult, LossReason, SearchCandidate, SearchRules, final_estimates
from nanodyno.analysis.search import Search
from nanodyno.analysis.steady import ENOUGH_FROM, ProcessSummary, is_enough, summarise
from scores import Share

DRAWN = "any machine"
WANTED_REGRET, WANTED_SHARE = 0.02, 0.95
GPU_START, HOST_START = (6.0, 16.0), (2.0, 6.0)
"""Seconds for imports, building, preparing: as on an H200 (docs/log), and as on two CPU cores."""
BREAKDOWN_SECONDS = 4.5
"""On a card, as on an H200 (docs/log); on a CPU it is within the spread of the starts."""
ITERATION_SECONDS = 0.1
MOST_REPETITIONS = 120
PRECISION = 0.01


@dataclass(frozen=True)
class Surface:
    """What is true of each candidate."""

    search_candidates: tuple[SearchCandidate, ...]
    seconds: dict[str, float]
    bytes: dict[str, int]
    fitting: frozenset[str]
    tight: frozenset[str]

    @property
    def best(self) -> float:
        return min(self.seconds[name] for name in self.fitting)


def draw_surface(rng: np.random.Generator) -> Surface:
    sizes = [2**power for power in range(int(rng.integers(4, 11)))]
    half = float(np.exp(rng.uniform(np.log(0.2), np.log(16))))  # the micro-batch at half of the full speed
    fall = rng.choice([0.0, 0.0, float(rng.uniform(0.0, 0.03))])  # per doubling beyond where it is flat
    flat = float(rng.choice(sizes))
    variants = {f"switch {n}": float(rng.normal(0.0, 0.03)) for n in range(int(rng.integers(0, 4)))}
    memory = {"": 1.0} | {name: float(rng.choice([0.9, 1.0, 1.1])) for name in variants}
    cliff = sizes[int(rng.integers(1, len(sizes) + 1)) - 1] * float(rng.uniform(1.0, 2.0))
    off = float(rng.uniform(0.02, 0.07))
    predicts = rng.random() < 0.7
    search_candidates, seconds, fitting, tight, needs = [], {}, set(), set(), {}
    for size in sizes:
        for switch, gain in {"": 0.0, **variants}.items():
            name = f"{size} {switch}".strip()
            beyond = max(0.0, math.log2(size / flat))
            uneven = float(rng.normal(0, 0.005))
            seconds[name] = (1 + half / size) * math.exp(fall * beyond + gain + uneven)
            predicted = seconds[name] * math.exp(float(rng.normal(0, off))) if predicts else None
            needs[name] = round(1e9 * (1 + size * memory[switch]))
            expected = needs[name] if predicts else None
            search_candidates.append(SearchCandidate(name, size, switch, bool(switch), predicted, expected))
            if size <= cliff:
                (tight if size > 0.9 * cliff and size > 1 else fitting).add(name)
    order = sorted(search_candidates, key=lambda each: each.predicted_seconds or 0.0)
    return Surface(tuple(order), seconds, needs, frozenset(fitting), frozenset(tight))


class Clockwork:
    """A bench made up: visits in the order of time, each at its cost."""

    def __init__(self, surface: Surface, machine: Machine, rng: np.random.Generator) -> None:
        self._surface = surface
        self._noise = fresh_repetitions(machine, MOST_REPETITIONS, 2 * ENOUGH_FROM, rng)
        on_host = machine in (MACHINES["CPU"], MACHINES["crowded CPU"])
        self._start = float(rng.uniform(*(HOST_START if on_host else GPU_START)))
        self._is_gpu = not on_host and surface.search_candidates[0].predicted_seconds is not None
        self.repetitions = 0
        self.spent = 0.0

    def answer(self, ask: Ask) -> AskResult:
        seconds: dict[str, float] = {}
        precision: dict[str, float] = {}
        lost: dict[str, LossReason] = {}
        for name in ask.names:
            self.spent += self._start
            if name not in self._surface.fitting | self._surface.tight:
                lost[name] = "too-large"
                continue
            summary = self._repetition(name, ask)
            if ask.breakdown and self._is_gpu:
                self.spent += BREAKDOWN_SECONDS
            seconds[name] = summary.seconds
            precision[name] = summary.precision or 0.0
            if name in self._surface.tight:
                lost[name] = "tight"
        needs = {name: self._surface.bytes[name] for name in seconds}
        return AskResult(self.spent, seconds, precision, needs, lost)

    def _repetition(self, name: str, ask: Ask) -> ProcessSummary:
        most = min(2 * ENOUGH_FROM, int(ask.repetition_seconds / ITERATION_SECONDS))
        times = np.exp(self._noise[self.repetitions % MOST_REPETITIONS]) * self._surface.seconds[name]
        self.repetitions += 1
        first = times[:ENOUGH_FROM].tolist()
        kept = first if most <= ENOUGH_FROM or is_enough(first, PRECISION) else times[:most].tolist()
        self.spent += len(kept) * ITERATION_SECONDS
        summary = summarise(kept[:most])
        assert summary is not None
        return summary


@dataclass(frozen=True)
class Trial:
    regret: float
    repetitions: int
    time_share: float
    promise: float | None


def search_once(surface: Surface, machine: Machine, budget: float, rng: np.random.Generator) -> Trial:
    rules = SearchRules(seconds=budget)
    search, bench = Search(surface.search_candidates, rules), Clockwork(surface, machine, rng)
    asks = search.asks()
    try:
        ask = next(asks)
        while True:
            ask = asks.send(bench.answer(ask))
    except StopIteration:
        pass
    pick = search.pick()
    assert pick is not None, "one fits in every surface"
    regret = surface.seconds[pick.chosen] / surface.best - 1
    shown = final_estimates(pick.reading.kept).get(pick.chosen) if pick.reading else None
    promise = None if shown is None else surface.seconds[pick.chosen] / shown
    return Trial(regret, bench.repetitions, bench.spent / budget, promise)


def simulate(machine: Machine | None, searches: int, budget: float, seed: int) -> list[Trial]:
    """Without a machine, one is drawn for every search."""
    rng = np.random.default_rng(seed)
    surfaces = (draw_surface(rng) for _ in range(10**9))
    fair = (surface for surface in surfaces if surface.fitting)
    return [
        search_once(surface, machine or drawn(rng), budget, rng)
        for _, surface in zip(range(searches), fair, strict=False)
    ]


@dataclass(frozen=True)
class Reported:
    found: Share
    median: float
    worst: float
    """Of 95 in 100 the largest regret."""
    repetitions: float
    time_share: float
    promise: tuple[float, float, float]

    @classmethod
    def of(cls, trials: list[Trial]) -> "Reported":
        regrets = np.array([trial.regret for trial in trials])
        promises = np.array([trial.promise for trial in trials if trial.promise is not None])
        low, middle, high = (float(value) for value in np.quantile(promises, (0.025, 0.5, 0.975)))
        return cls(
            Share.among([bool(regret < WANTED_REGRET) for regret in regrets]),
            float(np.median(regrets)),
            float(np.quantile(regrets, WANTED_SHARE)),
            float(np.mean([trial.repetitions for trial in trials])),
            float(np.mean([trial.time_share for trial in trials])),
            (low, middle, high),
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--searches", type=int, default=500)
    parser.add_argument("--machines", nargs="+", default=[*MACHINES, DRAWN], choices=[*MACHINES, DRAWN])
    parser.add_argument("--budget", type=float, default=300.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    document: dict[str, object] = {}
    if not given.json:
        print("| machine | regret under 2% | median | 95 of 100 below | visits | time | promise |")
        print("|---|---|---|---|---|---|---|")
    for name in given.machines:
        began = time.perf_counter()
        reported = Reported.of(simulate(MACHINES.get(name), given.searches, given.budget, given.seed))
        document[name] = asdict(reported) | {"seconds": time.perf_counter() - began}
        if not given.json:
            low, middle, high = reported.promise
            print(
                f"| {name} | {reported.found} | {reported.median:.2%} | {reported.worst:.2%} | "
                f"{reported.repetitions:.1f} "
                f"| {reported.time_share:.0%} | {middle:.3f} [{low:.3f}, {high:.3f}] |",
                flush=True,
            )
    if given.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
