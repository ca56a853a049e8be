"""What was measured between two configs, read: corners, effects, and what could not be measured."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nanodyno.analysis.effects import Look, Observed, Rules
from nanodyno.analysis.factors import Design, Infeasible, Metric
from nanodyno.analysis.probes import ProbeSummary, summarise_probe, visit_speed
from nanodyno.analysis.shapley import Corner, corners_of
from nanodyno.config import RunConfig
from nanodyno.records.attribution import AttributionLine, TrainedRecord, VisitedRecord
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeProgress, ProbeResult
from nanodyno.records.types import MachineRecord

MOST_DEATHS = 2
"""Processes of a corner that was measured may die so often before it counts as one that cannot be had."""
Reason = Literal["indivisible", "too-large", "failed", "disturbed", "no-time"]


@dataclass(frozen=True)
class Missing:
    """Why a corner has no value."""

    reason: Reason
    words: str = ""
    needs_bytes: int | None = None
    """On the card, by prediction."""


@dataclass(frozen=True)
class Known:
    """One corner: measured, trained, or missing."""

    config: RunConfig | None
    measured: Measured | None = None
    losses: tuple[float, ...] = ()
    missing: Missing | None = None
    deaths: tuple[tuple[int, str], ...] = ()
    """Of processes, where others lived: the round, and how."""

    @property
    def summary(self) -> ProbeSummary | None:
        return None if self.measured is None else summarise_probe(self.measured)


@dataclass(frozen=True)
class Untold:
    """What a log does not tell of its run, and was taken to be as in the other."""

    run: str
    keys: tuple[str, ...]
    other: str


@dataclass(frozen=True)
class Attribution:
    """Everything that is known when the measuring ends, however it ends."""

    names: tuple[str, str]
    metric: Metric
    design: Design
    rules: Rules
    look: Look
    corners: Mapping[Corner, Known]
    machine: MachineRecord
    spent_seconds: float = 0.0
    budget_seconds: float | None = None
    """None where it was read from what is kept."""
    reused: int = 0
    """Corners of rounds that were not measured again."""
    memory_limit_bytes: int | None = None
    interrupted: bool = False
    equal: Literal["tokens", "time"] | None = None
    steps: int | None = None
    elsewhere: tuple[tuple[str, str | None], ...] = ()
    """Runs that were made on another device, and which, where that is known."""
    untold: tuple[Untold, ...] = ()
    logs_only: bool = False
    """Whether neither of the two tells all of its settings."""
    notes: tuple[str, ...] = ()

    @property
    def on_logs(self) -> bool:
        """Whether effects are of logarithms, and multiply."""
        return self.metric != "val_loss"

    def value(self, corner: Corner) -> float | None:
        """Of the metric itself."""
        mean = self.look.effects.means.get(corner)
        return None if mean is None else self.natural(mean)

    def natural(self, mean: float) -> float:
        return math.exp(mean) if self.on_logs else mean

    def change(self, effect: float) -> float:
        """An effect as it is told: a share of a rate (0.39 is +39%), or nats."""
        return math.expm1(effect) if self.on_logs else effect


@dataclass(frozen=True)
class Visiting:
    """For a display: a round begins."""

    round: int
    corners: int
    spent_seconds: float


@dataclass(frozen=True)
class Visited:
    """For a display: what came of a corner."""

    settings: Mapping[str, object]
    round: int
    line: AttributionLine
    reused: bool


AttributeEvent = Visiting | Visited | ProbeProgress
WatchAttribute = Callable[[AttributeEvent], None]


def observed_of(
    lines: Sequence[AttributionLine], metric: Metric, corners: Collection[Corner]
) -> list[Observed]:
    """One value for each of these corners and round, the latest; rounds that lack one are left out.

    But for those that cannot be had: they are missing in all rounds.
    """
    latest = {(line.round, line.corner): line for line in lines}
    values = [
        Observed(corner, number, value)
        for (number, corner), line in sorted(latest.items())
        if (value := _value(line, metric)) is not None
    ]
    disturbed = {line.corner for line in latest.values()} - {each.corner for each in values}
    wanted = set(corners) - lost_corners([*latest.values()]).keys() - disturbed
    whole = [
        number
        for number in dict.fromkeys(each.round for each in values)
        if wanted <= {each.corner for each in values if each.round == number}
    ]
    return [each for each in values if each.corner in wanted and each.round in whole]


def _value(line: AttributionLine, metric: Metric) -> float | None:
    if isinstance(line, TrainedRecord):
        return line.val_loss
    result = line.result
    if not isinstance(result, Measured) or not result.visits:
        return None
    speed = visit_speed(result.visits[-1], result.config, result.setup)
    found = speed.tokens_per_second if metric == "tokens_per_second" else speed.achieved_flops_per_second
    return None if found is None else math.log(found.value)


def _is_final(line: AttributionLine) -> bool:
    """That this corner cannot be had, in any round."""
    if isinstance(line, TrainedRecord):
        return line.val_loss is None
    result = line.result
    return isinstance(result, OutOfMemory) or (isinstance(result, Failed) and result.reason != "interrupted")


def _death(line: AttributionLine) -> tuple[int, str] | None:
    """Of a process, which says little about its config."""
    if isinstance(line, VisitedRecord) and isinstance(line.result, Failed):
        return (line.round, line.result.words) if line.result.reason in ("died", "hung") else None
    return None


def lost_corners(lines: Sequence[AttributionLine]) -> dict[Corner, AttributionLine]:
    """Those that cannot be had, and by what; one that was measured outlives some of its processes.

    `lines` has one for each corner and round.
    """
    lost: dict[Corner, AttributionLine] = {}
    for corner in dict.fromkeys(line.corner for line in lines):
        own = [line for line in lines if line.corner == corner]
        lived = any(isinstance(line, VisitedRecord) and isinstance(line.result, Measured) for line in own)
        forgiven = lived and sum(_death(line) is not None for line in own) <= MOST_DEATHS
        ends = (line for line in own if _is_final(line) and not (forgiven and _death(line)))
        if (end := next(ends, None)) is not None:
            lost[corner] = end
    return lost


def corners_from(
    design: Design, lines: Sequence[AttributionLine], needs: Callable[[RunConfig], int | None]
) -> dict[Corner, Known]:
    """needs: what a config takes of the card by prediction."""
    known: dict[Corner, Known] = {}
    for corner in corners_of(len(design.factors)):
        config = design.config(corner)
        own = [line for line in lines if line.corner == corner]
        if isinstance(config, Infeasible):
            known[corner] = Known(None, missing=Missing("indivisible", config.words))
        else:
            known[corner] = _known(config, own, needs)
    return known


def _known(
    config: RunConfig, lines: Sequence[AttributionLine], needs: Callable[[RunConfig], int | None]
) -> Known:
    for lost in lost_corners(lines).values():
        return Known(config, missing=_missing(config, lost, needs))
    losses = [line.val_loss for line in lines if isinstance(line, TrainedRecord)]
    visits = [line for line in lines if isinstance(line, VisitedRecord)]
    measured = [(line.round, line.result) for line in visits if isinstance(line.result, Measured)]
    if measured:
        deaths = tuple(death for line in lines if (death := _death(line)) is not None)
        return Known(config, measured=joined(measured), deaths=deaths)
    if losses:
        return Known(config, losses=tuple(loss for loss in losses if loss is not None))
    disturbed = any(line.result.kind == "throttled" for line in visits)
    return Known(config, missing=Missing("disturbed" if disturbed else "no-time"))


def _missing(config: RunConfig, line: AttributionLine, needs: Callable[[RunConfig], int | None]) -> Missing:
    if isinstance(line, TrainedRecord):
        return Missing("failed", line.words or "")
    result: ProbeResult = line.result
    if isinstance(result, OutOfMemory):
        return Missing("too-large", result.words, needs(config))
    assert isinstance(result, Failed)
    return Missing("failed", result.words)


def joined(results: Sequence[tuple[int, Measured]]) -> Measured:
    """All visits of a corner, each in a process of its own; the breakdown is of the first that has one."""
    visits = tuple(
        visit.model_copy(update={"process": number, "round": number})
        for number, result in results
        for visit in result.visits[-1:]
    )
    first = next((result for _, result in results if result.breakdown is not None), results[0][1])
    return first.model_copy(update={"visits": visits})
