"""Do the stopwatch's statistics keep their promises? Experiments on made-up machines, with the truth known.

    python benchmarks/simulation.py [--experiments 4000] [--machines NAME ...] [--designs] [--json]

An experiment is a whole session as `nanodyno probe A B` makes it: rounds by turns, disturbed and odd rounds
set aside and made again, a look at the planned counts, an early end when all is decided. Everything but the
noise (machines.py) is the shipped code of nanodyno.analysis. Beside it other ways to compare, on the same
measurements (alternatives.py). "any machine" is another one, drawn at random, for every 100 experiments: what
holds there does not rest on the five that constants were chosen with. Per machine and way:
  covers         the 95% interval of the ratio holds the truth: the worst of three, with a true 0, 1 and 2%
  A/A different  a config against itself is called different; wanted: at most 5 of 100
  2% found       a true 2% is called different; wanted: at least 80 of 100
  tied wrong     a true difference of exactly the margin (1%) is called tied; wanted: at most 5 of 100
  A/A tied       a config against itself is called tied
  rounds         made on average over the three truths, those made again included
Shares carry their exact 95% binomial interval; "!" says that it contradicts what is wanted (for 2% found:
that the share itself stays below 80). A second table is about what is said of a single config:
  config         the 95% interval of its seconds over 8 processes holds its mean in that session
  process        the interval of one process's own mean, after 64 iterations, holds that process's mean
  asked 1%       a process that stopped at 32 because it knew its mean to 1% was right
  stopped        did stop there
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property

import numpy as np

from alternatives import ALTERNATIVES, ROUNDS, Estimates
from machines import MACHINES, Design, Machine, Sessions, drawn, sessions
from nanodyno.analysis.budget import DEFAULT_BUDGET, Budget, readings
from nanodyno.analysis.repeats import RepetitionTime, config_interval
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.steady import ENOUGH_FROM, ProcessSummary, is_enough, summarise
from nanodyno.analysis.verdict import call_of
from scores import EFFECTS, Outcome, Score, Share, is_within

BATCH = 100
ITERATIONS = 2 * ENOUGH_FROM
REPETITION_PRECISION = 0.01
OURS = "ours"
DRAWN = "any machine"
DESIGNS = {
    "8 fresh processes": Budget(looks=(8,)),
    "4, 8 of them, each for 4 visits": Budget(looks=(4, 8), repetitions_per_process=4),
    "4 of them, each for 8 visits": Budget(looks=(4,), repetitions_per_process=8),
}
HEADS = ("covers", "A/A different", "2% found", "tied wrong", "A/A tied")


class Visited:
    """The iterations of a visit, and what it comes to: worked out only for the rounds that are made."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds

    @cached_property
    def stops(self) -> bool:
        """At the first look."""
        return is_enough(self.seconds[:ENOUGH_FROM], REPETITION_PRECISION)

    @cached_property
    def summary(self) -> ProcessSummary:
        """Of all iterations if it does not stop at the first look, as if its time was up then."""
        return _summary(self.seconds[:ENOUGH_FROM] if self.stops else self.seconds)


def rounds_of(
    session: Sequence[Sequence[Visited]], processes: Sequence[int], effect: float, spare: int
) -> Iterator[list[RepetitionTime]]:
    """Rounds of (reference, config) as the probe makes them, the config slower by the effect.

    A disturbed round is made again, as long as there are spare ones; then it is taken as it is.
    """
    for number, pair in enumerate(session):
        reference, config = (visited.summary for visited in pair)
        if spare and (reference.disturbed or config.disturbed):
            spare -= 1
            continue
        yield [
            RepetitionTime("reference", processes[number], number, reference.seconds),
            RepetitionTime("config", processes[number], number, config.seconds * (1 + effect)),
        ]


def experiment(
    session: Sequence[Sequence[Visited]], processes: Sequence[int], budget: Budget, effect: float
) -> Outcome:
    rounds = rounds_of(session, processes, effect, len(session) - budget.most_rounds)
    *_, reading = readings(rounds, budget, reference="reference")
    (found,) = reading.comparisons
    return Outcome(effect, found.ratio, found.call, reading.kept[-1].round + 1)


def ours(made: Sessions, budget: Budget) -> list[Outcome]:
    outcomes: list[Outcome] = []
    processes = made.process_of_round.tolist()
    for session in np.exp(made.log_seconds).tolist():
        repetitions = [[Visited(seconds) for seconds in pair] for pair in session]
        outcomes += [experiment(repetitions, processes, budget, effect) for effect in EFFECTS]
    return outcomes


def alternative(estimates: Estimates) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for estimate, half in zip(*(values.tolist() for values in estimates), strict=True):
        for effect in EFFECTS:
            log = estimate + math.log1p(effect)
            ratio = Interval(math.exp(log), math.exp(log - half), math.exp(log + half), 0.95, ROUNDS)
            outcomes.append(Outcome(effect, ratio, call_of(ratio)))
    return outcomes


def simulate(machine: Machine | None, budget: Budget, experiments: int, seed: int) -> dict[str, Score]:
    """Ours and, at the default budget, the alternatives on the same sessions."""
    design = Design(budget.looks[-1] * 2, budget.repetitions_per_process, ITERATIONS)
    outcomes: dict[str, list[Outcome]] = {OURS: []}
    for made in _batches(machine, design, experiments, seed):
        outcomes[OURS] += ours(made, budget)
        if budget == DEFAULT_BUDGET:
            for name, way in ALTERNATIVES.items():
                outcomes.setdefault(name, []).extend(alternative(way(made.log_seconds)))
    return {name: Score.of(each) for name, each in outcomes.items()}


def simulate_single(machine: Machine | None, experiments: int, seed: int) -> dict[str, Share]:
    config: list[bool] = []
    process: list[bool] = []
    asked: list[bool] = []
    stopped: list[bool] = []
    for made in _batches(machine, Design(ROUNDS, 1, ITERATIONS), experiments, seed):
        truths = np.exp(made.session_level[:, :, 0].mean(axis=1)), np.exp(made.process_level[:, 0, 0])
        for seconds, whole, one in zip(np.exp(made.log_seconds[:, :, 0]).tolist(), *truths, strict=True):
            repetitions = [Visited(each) for each in seconds]
            config.append(_covers_config(repetitions, whole))
            own = _summary(seconds[0])
            if own.precision is not None and own.disturbed is None:
                process.append(abs(own.seconds / one - 1) <= own.precision)
            stopped.append(repetitions[0].stops)
            if repetitions[0].stops:
                asked.append(abs(repetitions[0].summary.seconds / one - 1) <= REPETITION_PRECISION)
    shares = {"config": config, "process": process, "asked 1%": asked, "stopped": stopped}
    return {name: Share.among(hits) for name, hits in shares.items() if hits}


def _batches(machine: Machine | None, design: Design, experiments: int, seed: int) -> Iterator[Sessions]:
    """Without a machine, one is drawn for every batch."""
    rng = np.random.default_rng(seed)
    for begun in range(0, experiments, BATCH):
        yield sessions(machine or drawn(rng), design, min(BATCH, experiments - begun), rng)


def _summary(seconds: Sequence[float]) -> ProcessSummary:
    summary = summarise(seconds)
    assert summary is not None
    return summary


def _covers_config(repetitions: Sequence[Visited], truth: float) -> bool:
    numbered = [
        RepetitionTime("", number, number, each.summary.seconds) for number, each in enumerate(repetitions)
    ]
    interval = config_interval(numbered, "")
    assert interval is not None
    return is_within(interval, truth)


def reported(name: str, score: Score) -> str:
    shares = [score.covers, score.called_different, score.found, score.tied_wrong, score.tied]
    marks = ["" if kept else " !" for kept in (*score.kept().values(), True)]
    cells = [f"{share}{mark}" for share, mark in zip(shares, marks, strict=True)]
    rounds = "" if score.rounds is None else f" {score.rounds:6.1f}"
    return f"{name:38s} " + " ".join(f"{cell:>24s}" for cell in cells) + rounds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=4000)
    parser.add_argument("--machines", nargs="+", default=[*MACHINES, DRAWN], choices=[*MACHINES, DRAWN])
    parser.add_argument("--designs", action="store_true", help="other budgets too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    document: dict[str, object] = {}
    for name in given.machines:
        machine, began = MACHINES.get(name), time.perf_counter()
        scores = simulate(machine, DEFAULT_BUDGET, given.experiments, given.seed)
        for words, budget in DESIGNS.items() if given.designs else ():
            scores[f"ours, {words}"] = simulate(machine, budget, given.experiments, given.seed)[OURS]
        single = simulate_single(machine, given.experiments, given.seed)
        document[name] = {
            "ways": {way: asdict(score) for way, score in scores.items()},
            "single": {what: asdict(share) for what, share in single.items()},
        }
        if not given.json:
            print(f"\n{name}: {given.experiments} sessions in {time.perf_counter() - began:.0f} s")
            print(" " * 39 + " ".join(f"{head:>24s}" for head in HEADS) + " rounds")
            print("\n".join(reported(way, score) for way, score in scores.items()))
            print("a single config: " + ", ".join(f"{what} {share}" for what, share in single.items()))
    if given.json:
        print(json.dumps(document))


if __name__ == "__main__":
    main()
