"""Does judge err as often as it says? Judgements of made-up losses whose truth is known.

    python benchmarks/judge_simulation.py [--judgements 4000] [--seed 1]

Losses of the base scatter by seed, so that the noise floor is 1. Six kinds of noise: how alike the base and
a candidate of one seed are, and how much noisier the candidate is than the base. Each kind has as many
judgements of one candidate and of four. What decides is the command's: `CandidateState`, `still_trained` and
`floor_of`.

  noise        standard deviation of a pair, in noise floors
  false keep   any candidate is kept where none is better; wanted: at most 5%
  1, 2, 3      the one that is better by so many noise floors is kept; wanted: 80% at 2
  discarded    the one that is better by 2 is; wanted: at most 20% where the noise is at most 1
  wrong        a candidate that is no better is kept beside one that is better by 2
  trainings    in the mean, as a share of five pairs of each candidate, without and with an improvement of 2;
               wanted: at most 60% in the mean of both
"""

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np

from nanodyno.analysis.judging import FEWEST_FOR_FLOOR, CandidateState, JudgeRules, floor_of, still_trained
from scores import Share

EFFECTS = 0.0, 1.0, 2.0, 3.0
LEVEL = 5.0
"""Of the losses, which does not matter."""


@dataclass(frozen=True)
class Noise:
    alike: float
    """Correlation of the losses of base and candidate of one seed."""
    louder: float = 1.0
    """Standard deviation of the candidate's losses over that of the base's."""

    @property
    def of_pair(self) -> float:
        return math.sqrt((1 + self.louder**2 - 2 * self.alike * self.louder) / 2)


NOISES = (
    Noise(0.0),
    Noise(0.6),
    Noise(0.9),
    Noise(0.0, louder=0.5),
    Noise(0.0, louder=1.5),
    Noise(0.6, louder=1.5),
)


@dataclass
class Scored:
    kept: int = 0
    """Judgements in which the best candidate was kept, or any where none is better."""
    discarded: int = 0
    kept_other: int = 0
    """Judgements in which one that is no better was."""
    trainings: int = 0

    def add(self, candidates: list[CandidateState], trainings: int, effect: float) -> None:
        calls = [each.judged().call for each in candidates]
        self.kept += calls[0] == "keep" if effect else "keep" in calls
        self.discarded += calls[0] == "discard"
        self.kept_other += "keep" in calls[1:]
        self.trainings += trainings


def judge_one(
    rng: np.random.Generator, noise: Noise, effect: float, rules: JudgeRules
) -> tuple[list[CandidateState], int]:
    """Return the candidates of one judgement, of which the first is better by `effect`, and the trainings."""
    base = rng.normal(0, math.sqrt(0.5), rules.pairs)
    own = rng.normal(0, math.sqrt(0.5), (rules.candidates, rules.pairs))
    losses = LEVEL + noise.louder * (noise.alike * base + math.sqrt(1 - noise.alike**2) * own)
    losses[0] -= effect
    candidates = [CandidateState(str(number), rules) for number in range(rules.candidates)]
    bases = trainings = 0
    for pair in range(rules.pairs):
        waiting = still_trained(candidates, pair)
        if not waiting:
            break
        bases = max(pair + 1, min(FEWEST_FOR_FLOOR, rules.pairs))
        floor = floor_of([LEVEL + float(each) for each in base[:bases]], "val_loss")
        assert floor is not None
        for candidate in waiting:
            trainings += 1
            candidate.improvements.append(LEVEL + float(base[pair] - losses[int(candidate.name), pair]))
            candidate.look(floor)
    return candidates, trainings + bases


def simulate(noise: Noise, rules: JudgeRules, judgements: int, seed: int) -> dict[float, Scored]:
    found = {effect: Scored() for effect in EFFECTS}
    rng = np.random.default_rng(seed)
    for effect, scored in found.items():
        for _ in range(judgements):
            scored.add(*judge_one(rng, noise, effect, rules), effect)
    return found


def row(noise: Noise, rules: JudgeRules, found: dict[float, Scored], judgements: int) -> str:
    false = Share(found[0.0].kept, judgements)
    power = (f"{found[effect].kept / judgements:.1%}" for effect in EFFECTS[1:])
    fixed = judgements * rules.pairs * (1 + rules.candidates)
    cost = (f"{found[effect].trainings / fixed:.0%}" for effect in (0.0, 2.0))
    wrong = f"{found[2.0].kept_other / judgements:.1%}" if rules.candidates > 1 else "-"
    low, high = false.bounds()
    return " | ".join(
        [
            f"| {noise.of_pair:.2f} ({noise.alike:g}, {noise.louder:g})",
            str(rules.candidates),
            f"{false.value:.1%} [{low:.1%}, {high:.1%}]",
            *power,
            f"{found[2.0].discarded / judgements:.1%}",
            wrong,
            *cost,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--judgements", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    print(
        "| noise (alike, louder) | candidates | false keep | 1 | 2 | 3 | discarded | wrong "
        "| trainings at 0 | at 2 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for candidates in (1, 4):
        rules = JudgeRules(candidates=candidates)
        for number, noise in enumerate(NOISES):
            found = simulate(noise, rules, options.judgements, options.seed + number)
            print(row(noise, rules, found, options.judgements), "|", flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
