"""What a search and who measures for it say to each other."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nanodyno.analysis.budget import Reading
from nanodyno.analysis.repeats import RepetitionTime
from nanodyno.analysis.verdict import MARGIN

SearchStage = Literal["screening", "halving", "final"]
LossReason = Literal["too-large", "tight", "failed", "disturbed", "no-time"]
"""tight: measured, and without the room that a whole run needs."""
SkipReason = Literal[LossReason, "larger", "beyond", "flat", "predicted-slow", "not-needed"]
"""larger: a smaller micro-batch was too large; beyond: a nearer one has fallen off; flat: smaller ones have
shown that more gains nothing; not-needed: another switch at a micro-batch that is not good."""


@dataclass(frozen=True)
class SearchCandidate:
    """A candidate as the search sees it."""

    name: str
    batch_size: int
    switches: str = ""
    """The same for candidates that differ in their micro-batch only."""
    variant: bool = False
    """Tried only if its micro-batch proves good."""
    predicted_seconds: float | None = None
    predicted_bytes: int | None = None
    asked: bool = False
    """As the user has it: others are held against it, so it is tried in any case."""


@dataclass(frozen=True)
class SearchRules:
    seconds: float
    """For everything."""
    at_once: int = 1
    """Devices that measure side by side."""
    margin: float = MARGIN
    trust: float = 0.15
    """How far a prediction may be off: what is predicted to be slower by more is not tried."""

    @property
    def screening_repetition(self) -> float:
        """Seconds that a process iterates for at most."""
        return min(4.0, max(1.0, self.seconds / 60))

    @property
    def final_repetition(self) -> float:
        return min(6.0, max(1.5, self.seconds / 50))


@dataclass(frozen=True)
class Ask:
    """Measure each of these in a process of its own, in this order."""

    stage: SearchStage
    round: int
    names: tuple[str, ...]
    repetition_seconds: float
    until: float
    """In seconds since the search began: what is not measured by then is left."""
    breakdown: bool = False
    """Where its time goes, too."""


@dataclass(frozen=True)
class AskResult:
    """What came of an ask; a name that is missing everywhere had no time."""

    spent: float
    """Seconds since the search began."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    precision: Mapping[str, float] = field(default_factory=dict[str, float])
    """To which each process knew its own mean, as a share of it."""
    bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    lost: Mapping[str, LossReason] = field(default_factory=dict[str, LossReason])


@dataclass(frozen=True)
class Pick:
    """Who won, by the final's figures; or, where there was no time for one, by those before."""

    chosen: str
    """Of those within the margin of the fastest the one that needs least memory."""
    fastest: str
    near: tuple[str, ...]
    """Within the margin of the fastest as measured, the fastest among them, fastest first."""
    reading: Reading | None
    """Of the final; None without one."""


def final_estimates(repetitions: Sequence[RepetitionTime]) -> dict[str, float]:
    """Over the rounds that all have in common, so that a slow moment of the machine favours none."""
    rounds: dict[int, dict[str, float]] = {}
    for repetition in repetitions:
        rounds.setdefault(repetition.round, {})[repetition.config] = repetition.seconds
    names = dict.fromkeys(repetition.config for repetition in repetitions)
    common = [each for each in rounds.values() if each.keys() == names.keys()]
    if not common:
        return {}
    return {name: statistics.geometric_mean(each[name] for each in common) for name in names}
