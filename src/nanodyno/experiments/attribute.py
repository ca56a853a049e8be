"""Which change did what: every corner between two configs measured in turn, on this machine."""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from nanodyno import __version__
from nanodyno.analysis.asking import Ask
from nanodyno.analysis.attributing import LOSS_BUDGET_SECONDS, SPEED_BUDGET_SECONDS
from nanodyno.analysis.attribution import (
    AssumedSetting,
    Attribution,
    CombinationMeasured,
    RoundStarted,
    WatchAttribute,
    lost_combinations,
    observed_of,
)
from nanodyno.analysis.attribution_reading import read_attribution, rules_for
from nanodyno.analysis.effects import Observed, looks
from nanodyno.analysis.factors import AttributionMetric, Design, design_of
from nanodyno.analysis.shapley import Combination, combinations_of, last_combination
from nanodyno.config import RunConfig
from nanodyno.data.resolve import vocabulary_of
from nanodyno.errors import NanodynoError
from nanodyno.experiments.fitting import fitting_switches
from nanodyno.experiments.ground import DeviceState
from nanodyno.experiments.short_training import (
    ShortTrainings,
    refuse_without_data,
    shortened,
    tokens_of_each,
)
from nanodyno.experiments.stopwatch import Stopwatch
from nanodyno.experiments.tune import REDO, TuneBench, allocator_limit
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.attribution import (
    AttributionJournal,
    AttributionLine,
    AttributionQuestion,
    MeasuredRecord,
    TrainedRecord,
)
from nanodyno.records.probe import Failed, Measured, ProbeResult

PACES = -1
"""The round in which trainings of equal time have their pace taken."""
LONGEST_REPETITION, SHORTEST_REPETITION, REPETITIONS = 6.0, 1.5, 60
USUAL_REPETITION = 10.0  # with its process


@dataclass(frozen=True)
class Inquiry:
    before: RunConfig
    after: RunConfig
    names: tuple[str, str] = ("before", "after")
    metric: AttributionMetric = "tokens_per_second"
    precision: float | None = None
    """None, as for the budget, is what is usual for the metric."""
    budget_seconds: float | None = None
    memory_limit_bytes: int | None = None
    """Of the card that is emulated, context included."""
    groups: tuple[tuple[str, ...], ...] = ()
    ignored: tuple[str, ...] = ()
    make_fit: bool = False
    again: bool = False
    equal: Literal["tokens", "time"] = "tokens"
    steps: int = 500
    """Of a training, at least."""
    elsewhere: tuple[tuple[str, str | None], ...] = ()
    unreported: tuple[AssumedSetting, ...] = ()
    logs_only: bool = False

    @property
    def seconds(self) -> float:
        usual = LOSS_BUDGET_SECONDS if self.metric == "val_loss" else SPEED_BUDGET_SECONDS
        return self.budget_seconds or usual


def attribute(
    inquiry: Inquiry, watch: WatchAttribute = lambda _: None, bench: TuneBench | None = None
) -> Attribution:
    """Until every part is as precise as asked, or the time is up. Ctrl-C ends it with what is known."""
    bench = bench or TuneBench()
    vocabulary = vocabulary_of(inquiry.before)
    vocab_size, notes = vocabulary.model, vocabulary.notes
    alike = vocab_size == vocabulary_of(inquiry.after).model
    design = design_of(
        inquiry.before, inquiry.after, inquiry.metric, inquiry.groups, inquiry.ignored, alike, inquiry.equal
    )
    if inquiry.metric == "val_loss":
        refuse_without_data(inquiry.before)
    place = bench.look(inquiry.before, inquiry.memory_limit_bytes)
    if inquiry.make_fit:
        design = replace(design, held=fitting_switches(design, place, vocab_size))
    question = _question(inquiry, design, place, vocab_size)
    journal = AttributionJournal(question, inquiry.again, bench.cache)
    configs = {
        combination: design.config(combination) for combination in combinations_of(len(design.factors))
    }
    sound = {combination: config for combination, config in configs.items() if isinstance(config, RunConfig)}
    names = {combination: design.name(combination) for combination in sound}
    limit = allocator_limit(inquiry.memory_limit_bytes, place)
    jobs = {
        names[combination]: ProbeJob(config=config, memory_limit_bytes=limit)
        for combination, config in sound.items()
    }
    try:
        with bench.make(jobs, watch, REDO[place.ground.device_type]) as stopwatch:
            course = _Course(inquiry, design, journal, stopwatch, watch, bench, names)
            if inquiry.metric == "val_loss":
                course.train(sound, limit)
            course.run()
    finally:
        journal.close()
    found = read_attribution(question, course.lines, inquiry.names, inquiry.metric, inquiry.precision)
    course.refuse_too_short(found)
    return replace(
        found,
        spent_seconds=course.spent,
        budget_seconds=inquiry.seconds,
        reused=course.reused,
        interrupted=course.interrupted,
        elsewhere=inquiry.elsewhere,
        unreported=inquiry.unreported,
        logs_only=inquiry.logs_only,
        notes=(*notes, *place.notes, *journal.notes),
    )


def _question(inquiry: Inquiry, design: Design, place: DeviceState, vocab_size: int) -> AttributionQuestion:
    trains = inquiry.metric == "val_loss"
    return AttributionQuestion(
        machine=place.device.machine,
        torch=place.device.torch,
        nanodyno=__version__,
        metric="val_loss" if trains else "speed",
        before=inquiry.before,
        after=inquiry.after,
        factors=tuple(factor.keys for factor in design.factors),
        ignored=tuple(change.key for change in design.ignored),
        held=dict(design.held),
        vocab_size=vocab_size,
        memory_limit_bytes=inquiry.memory_limit_bytes,
        equal=inquiry.equal if trains else None,
        steps=inquiry.steps if trains else None,
    )


@dataclass
class _Course:
    """One experiment on its way: rounds from the journal, and then by the stopwatch or by training."""

    inquiry: Inquiry
    design: Design
    journal: AttributionJournal
    stopwatch: Stopwatch
    watch: WatchAttribute
    bench: TuneBench
    names: dict[Combination, str]
    spent: float = 0.0
    reused: int = 0
    interrupted: bool = False
    trainings: ShortTrainings | None = None
    costs: list[float] = field(default_factory=list[float])
    """Of each round."""
    lines: list[AttributionLine] = field(default_factory=list[AttributionLine])
    """Of this course: what an earlier one measured beyond it is left alone."""

    def run(self) -> None:
        rules = rules_for(self.inquiry.metric, len(self.design.factors), self.inquiry.precision)
        try:
            for _ in looks(self._rounds(rules.budget.most_rounds), rules):
                pass
        except KeyboardInterrupt:
            self.interrupted = True

    def train(self, configs: dict[Combination, RunConfig], limit: int | None) -> None:
        paces = self._paces() if self.inquiry.equal == "time" else None
        tokens = tokens_of_each(configs, self.inquiry.steps, paces)
        short = {
            combination: shortened(config, tokens[combination]) for combination, config in configs.items()
        }
        self.trainings = ShortTrainings(short, self.names, limit, self.watch, self.bench.clock)

    def refuse_too_short(self, found: Attribution) -> None:
        """Without a whole round nothing can be said, unless it is that nothing fits."""
        waiting = [
            each for each in found.combinations.values() if each.missing and each.missing.reason == "no-time"
        ]
        if self.interrupted or found.look.made or not waiting:
            return
        known = len(found.combinations) - len(waiting)
        each = self.spent / known if known else max(self.spent, USUAL_REPETITION)
        enough = math.ceil(2.5 * each * len(found.combinations) / 60)
        measured = f"{known} of {len(found.combinations)} corners measured in {self.spent:.0f} s"
        raise NanodynoError(
            f"--budget of {self.inquiry.seconds:g} s is too short here: {measured}",
            f"give --budget {enough}m or more: what was measured is kept",
        )

    def _rounds(self, most: int) -> Iterator[list[Observed]]:
        for number in range(most):
            combinations = self._feasible()
            if not self._is_worthwhile(combinations) or not self._has_time():
                return
            self.watch(RoundStarted(number, len(combinations), self.spent))
            began = self.spent
            self._round(number, combinations)
            self.costs.append(self.spent - began)
            observed = observed_of(self.lines, self.inquiry.metric, self.names)
            yield [each for each in observed if each.round == number]
            if not set(combinations) <= {line.combination for line in self.lines if line.round == number}:
                return  # the time was up

    def _feasible(self) -> list[Combination]:
        lost = lost_combinations(self.lines)
        return [combination for combination in self.names if combination not in lost]

    def _is_worthwhile(self, combinations: list[Combination]) -> bool:
        """Whether any two of them make a step, or the whole difference."""
        ends = {0, last_combination(len(self.design.factors))} <= set(combinations)
        return ends or any((one ^ other).bit_count() == 1 for one in combinations for other in combinations)

    def _has_time(self) -> bool:
        """For another round like the mean one; the first is begun in any case."""
        whole = [cost for cost in self.costs if cost]
        mean = sum(whole) / len(whole) if whole else 0.0
        return not whole or self.spent + mean <= self.inquiry.seconds

    def _round(self, number: int, combinations: list[Combination]) -> None:
        kept = self.journal.at(number)
        if all(combination in kept and _is_whole(kept[combination]) for combination in combinations):
            for combination in combinations:
                self._take(kept[combination], reused=True)
                self.spent += kept[combination].cost_seconds
            return
        order = list(combinations)
        random.Random(f"{self.journal.path.stem} {number}").shuffle(order)
        for line in self._trained(number, order) if self.trainings else self._measured(number, order):
            self.journal.append(line)
            self._take(line, reused=False)

    def _trained(self, number: int, combinations: list[Combination]) -> Iterable[TrainedRecord]:
        """Those that an interrupted round has trained already are not trained again."""
        assert self.trainings is not None
        kept = self.journal.at(number)
        for combination in combinations:
            line = kept.get(combination)
            if isinstance(line, TrainedRecord) and line.val_loss is not None:
                self._take(line, reused=True)
                self.spent += line.cost_seconds
                continue
            for made in self.trainings.round(number, [combination]):
                self.spent += made.cost_seconds
                yield made

    def _measured(self, number: int, combinations: list[Combination]) -> Iterable[MeasuredRecord]:
        """A round is of one piece: its corners were neighbours in time."""
        names = [self.names[combination] for combination in combinations]
        left = self.inquiry.seconds - self.spent
        repetition = min(LONGEST_REPETITION, max(SHORTEST_REPETITION, self.inquiry.seconds / REPETITIONS))
        began = self.bench.clock()
        try:
            ask = Ask("screening", number, tuple(names), repetition, self.inquiry.seconds, breakdown=True)
            self.stopwatch.measure(ask, names, left)
        except KeyboardInterrupt:
            self.interrupted = True
        cost = self.bench.clock() - began
        self.spent += cost
        results = self.stopwatch.measured()
        for combination, name in zip(combinations, names, strict=True):
            if name in results:
                result = _slim(results[name], number)
                yield MeasuredRecord(
                    round=number, combination=combination, cost_seconds=cost / len(results), result=result
                )
        if self.interrupted:
            raise KeyboardInterrupt

    def _paces(self) -> dict[Combination, ProbeResult]:
        """One look at each, also when it was made for an earlier command."""
        kept = self.journal.at(PACES)
        if any(combination not in kept for combination in self.names):
            for line in self._measured(PACES, list(self.names)):
                self.journal.append(line)
        kept = self.journal.at(PACES)
        return {
            combination: line.result for combination, line in kept.items() if isinstance(line, MeasuredRecord)
        }

    def _take(self, line: AttributionLine, reused: bool) -> None:
        self.lines.append(line)
        self.reused += reused
        self.watch(CombinationMeasured(self.design.settings(line.combination), line.round, line, reused))


def _is_whole(line: AttributionLine) -> bool:
    """A process that died or hung says little about its config: another command tries it again."""
    if isinstance(line, TrainedRecord) or not isinstance(line.result, Failed):
        return True
    return line.result.reason in ("error", "refused")


def _slim(result: ProbeResult, number: int) -> ProbeResult:
    """The breakdown, which is made once, is kept once."""
    if isinstance(result, Measured) and number > 0:
        return result.model_copy(update={"breakdown": None})
    return result
