"""What was measured between two configs, read: corners, effects, and what could not be measured."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nanodyno.analysis.effects import EffectEstimates, EffectRules, Observed
from nanodyno.analysis.factors import AttributionMetric, Design, Infeasible
from nanodyno.analysis.probes import ProbeSummary, repetition_speed, summarise_probe
from nanodyno.analysis.shapley import Combination, combinations_of
from nanodyno.config import RunConfig
from nanodyno.records.attribution import AttributionLine, MeasuredRecord, TrainedRecord
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeProgress, ProbeResult
from nanodyno.records.types import MachineRecord

MOST_DEATHS = 2
"""Processes of a corner that was measured may die so often before it counts as one that cannot be had."""
MissingReason = Literal["indivisible", "too-large", "failed", "disturbed", "no-time"]


@dataclass(frozen=True)
class Missing:
    """Why a corner has no value."""

    reason: MissingReason
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
class AssumedSetting:
    """What a log does not tell of its run, and was taken to be as in the other."""

    run: str
    keys: tuple[str, ...]
    other: str


@dataclass(frozen=True)
class Attribution:
    """Everything that is known when the measuring ends, however it ends."""

    names: tuple[str, str]
    metric: AttributionMetric
    design: Design
    rules: EffectRules
    look: EffectEstimates
    combinations: Mapping[Combination, Known]
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
    unreported: tuple[AssumedSetting, ...] = ()
    logs_only: bool = False
    """Whether neither of the two tells all of its settings."""
    notes: tuple[str, ...] = ()

    @property
    def on_logs(self) -> bool:
        """Whether effects are of logarithms, and multiply."""
        return self.metric != "val_loss"

    def value(self, combination: Combination) -> float | None:
        """Of the metric itself."""
        mean = self.look.effects.means.get(combination)
        return None if mean is None else self.natural(mean)

    def natural(self, mean: float) -> float:
        return math.exp(mean) if self.on_logs else mean

    def change(self, effect: float) -> float:
        """An effect as it is told: a share of a rate (0.39 is +39%), or nats."""
        return math.expm1(effect) if self.on_logs else effect


@dataclass(frozen=True)
class RoundStarted:
    """For a display: a round begins."""

    round: int
    combinations: int
    spent_seconds: float


@dataclass(frozen=True)
class CombinationMeasured:
    """For a display: what came of a corner."""

    settings: Mapping[str, object]
    round: int
    line: AttributionLine
    reused: bool


AttributeEvent = RoundStarted | CombinationMeasured | ProbeProgress
WatchAttribute = Callable[[AttributeEvent], None]


def observed_of(
    lines: Sequence[AttributionLine], metric: AttributionMetric, combinations: Collection[Combination]
) -> list[Observed]:
    """One value for each of these corners and round, the latest; rounds that lack one are left out.

    But for those that cannot be had: they are missing in all rounds.
    """
    latest = {(line.round, line.combination): line for line in lines}
    values = [
        Observed(combination, number, value)
        for (number, combination), line in sorted(latest.items())
        if (value := _value(line, metric)) is not None
    ]
    disturbed = {line.combination for line in latest.values()} - {each.combination for each in values}
    wanted = set(combinations) - lost_combinations([*latest.values()]).keys() - disturbed
    whole = [
        number
        for number in dict.fromkeys(each.round for each in values)
        if wanted <= {each.combination for each in values if each.round == number}
    ]
    return [each for each in values if each.combination in wanted and each.round in whole]


def _value(line: AttributionLine, metric: AttributionMetric) -> float | None:
    if isinstance(line, TrainedRecord):
        return line.val_loss
    result = line.result
    if not isinstance(result, Measured) or not result.repetitions:
        return None
    speed = repetition_speed(result.repetitions[-1], result.config, result.setup)
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
    if isinstance(line, MeasuredRecord) and isinstance(line.result, Failed):
        return (line.round, line.result.words) if line.result.reason in ("died", "hung") else None
    return None


def lost_combinations(lines: Sequence[AttributionLine]) -> dict[Combination, AttributionLine]:
    """Those that cannot be had, and by what; one that was measured outlives some of its processes.

    `lines` has one for each corner and round.
    """
    lost: dict[Combination, AttributionLine] = {}
    for combination in dict.fromkeys(line.combination for line in lines):
        own = [line for line in lines if line.combination == combination]
        lived = any(isinstance(line, MeasuredRecord) and isinstance(line.result, Measured) for line in own)
        forgiven = lived and sum(_death(line) is not None for line in own) <= MOST_DEATHS
        ends = (line for line in own if _is_final(line) and not (forgiven and _death(line)))
        if (end := next(ends, None)) is not None:
            lost[combination] = end
    return lost


def combinations_from(
    design: Design, lines: Sequence[AttributionLine], needs: Callable[[RunConfig], int | None]
) -> dict[Combination, Known]:
    """needs: what a config takes of the card by prediction."""
    known: dict[Combination, Known] = {}
    for combination in combinations_of(len(design.factors)):
        config = design.config(combination)
        own = [line for line in lines if line.combination == combination]
        if isinstance(config, Infeasible):
            known[combination] = Known(None, missing=Missing("indivisible", config.words))
        else:
            known[combination] = _known(config, own, needs)
    return known


def _known(
    config: RunConfig, lines: Sequence[AttributionLine], needs: Callable[[RunConfig], int | None]
) -> Known:
    for lost in lost_combinations(lines).values():
        return Known(config, missing=_missing(config, lost, needs))
    losses = [line.val_loss for line in lines if isinstance(line, TrainedRecord)]
    repetitions = [line for line in lines if isinstance(line, MeasuredRecord)]
    measured = [(line.round, line.result) for line in repetitions if isinstance(line.result, Measured)]
    if measured:
        deaths = tuple(death for line in lines if (death := _death(line)) is not None)
        return Known(config, measured=joined(measured), deaths=deaths)
    if losses:
        return Known(config, losses=tuple(loss for loss in losses if loss is not None))
    disturbed = any(line.result.kind == "throttled" for line in repetitions)
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
    repetitions = tuple(
        repetition.model_copy(update={"process": number, "round": number})
        for number, result in results
        for repetition in result.repetitions[-1:]
    )
    first = next((result for _, result in results if result.breakdown is not None), results[0][1])
    return first.model_copy(update={"repetitions": repetitions})
