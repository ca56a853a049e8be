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
    Attribution,
    Untold,
    Visited,
    Visiting,
    WatchAttribute,
    lost_corners,
    observed_of,
)
from nanodyno.analysis.attribution_reading import read_attribution, rules_for
from nanodyno.analysis.effects import Observed, looks
from nanodyno.analysis.factors import Design, Metric, design_of
from nanodyno.analysis.shapley import Corner, corners_of, last_corner
from nanodyno.config import RunConfig
from nanodyno.data.resolve import vocabulary_of
from nanodyno.errors import NanodynoError
from nanodyno.experiments.fitting import fitting_switches
from nanodyno.experiments.ground import Place
from nanodyno.experiments.short_training import (
    ShortTrainings,
    refuse_without_data,
    shortened,
    tokens_of_each,
)
from nanodyno.experiments.stopwatch import Stopwatch
from nanodyno.experiments.tune import REDO, Bench, allocator_limit
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.attribution import (
    AttributionJournal,
    AttributionLine,
    AttributionQuestion,
    TrainedRecord,
    VisitedRecord,
)
from nanodyno.records.probe import Failed, Measured, ProbeResult

PACES = -1
"""The round in which trainings of equal time have their pace taken."""
LONGEST_VISIT, SHORTEST_VISIT, VISITS = 6.0, 1.5, 60
USUAL_VISIT = 10.0  # with its process


@dataclass(frozen=True)
class Inquiry:
    before: RunConfig
    after: RunConfig
    names: tuple[str, str] = ("before", "after")
    metric: Metric = "tokens_per_second"
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
    untold: tuple[Untold, ...] = ()
    logs_only: bool = False

    @property
    def seconds(self) -> float:
        usual = LOSS_BUDGET_SECONDS if self.metric == "val_loss" else SPEED_BUDGET_SECONDS
        return self.budget_seconds or usual


def attribute(
    inquiry: Inquiry, watch: WatchAttribute = lambda _: None, bench: Bench | None = None
) -> Attribution:
    """Until every part is as precise as asked, or the time is up. Ctrl-C ends it with what is known."""
    bench = bench or Bench()
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
    configs = {corner: design.config(corner) for corner in corners_of(len(design.factors))}
    sound = {corner: config for corner, config in configs.items() if isinstance(config, RunConfig)}
    names = {corner: design.name(corner) for corner in sound}
    limit = allocator_limit(inquiry.memory_limit_bytes, place)
    jobs = {
        names[corner]: ProbeJob(config=config, memory_limit_bytes=limit) for corner, config in sound.items()
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
        untold=inquiry.untold,
        logs_only=inquiry.logs_only,
        notes=(*notes, *place.notes, *journal.notes),
    )


def _question(inquiry: Inquiry, design: Design, place: Place, vocab_size: int) -> AttributionQuestion:
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
    bench: Bench
    names: dict[Corner, str]
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

    def train(self, configs: dict[Corner, RunConfig], limit: int | None) -> None:
        paces = self._paces() if self.inquiry.equal == "time" else None
        tokens = tokens_of_each(configs, self.inquiry.steps, paces)
        short = {corner: shortened(config, tokens[corner]) for corner, config in configs.items()}
        self.trainings = ShortTrainings(short, self.names, limit, self.watch, self.bench.clock)

    def refuse_too_short(self, found: Attribution) -> None:
        """Without a whole round nothing can be said, unless it is that nothing fits."""
        waiting = [
            each for each in found.corners.values() if each.missing and each.missing.reason == "no-time"
        ]
        if self.interrupted or found.look.made or not waiting:
            return
        known = len(found.corners) - len(waiting)
        each = self.spent / known if known else max(self.spent, USUAL_VISIT)
        enough = math.ceil(2.5 * each * len(found.corners) / 60)
        measured = f"{known} of {len(found.corners)} corners measured in {self.spent:.0f} s"
        raise NanodynoError(
            f"--budget of {self.inquiry.seconds:g} s is too short here: {measured}",
            f"give --budget {enough}m or more: what was measured is kept",
        )

    def _rounds(self, most: int) -> Iterator[list[Observed]]:
        for number in range(most):
            corners = self._feasible()
            if not self._is_worthwhile(corners) or not self._has_time():
                return
            self.watch(Visiting(number, len(corners), self.spent))
            began = self.spent
            self._round(number, corners)
            self.costs.append(self.spent - began)
            observed = observed_of(self.lines, self.inquiry.metric, self.names)
            yield [each for each in observed if each.round == number]
            if not set(corners) <= {line.corner for line in self.lines if line.round == number}:
                return  # the time was up

    def _feasible(self) -> list[Corner]:
        lost = lost_corners(self.lines)
        return [corner for corner in self.names if corner not in lost]

    def _is_worthwhile(self, corners: list[Corner]) -> bool:
        """Whether any two of them make a step, or the whole difference."""
        ends = {0, last_corner(len(self.design.factors))} <= set(corners)
        return ends or any((one ^ other).bit_count() == 1 for one in corners for other in corners)

    def _has_time(self) -> bool:
        """For another round like the mean one; the first is begun in any case."""
        whole = [cost for cost in self.costs if cost]
        mean = sum(whole) / len(whole) if whole else 0.0
        return not whole or self.spent + mean <= self.inquiry.seconds

    def _round(self, number: int, corners: list[Corner]) -> None:
        kept = self.journal.at(number)
        if all(corner in kept and _is_whole(kept[corner]) for corner in corners):
            for corner in corners:
                self._take(kept[corner], reused=True)
                self.spent += kept[corner].cost_seconds
            return
        order = list(corners)
        random.Random(f"{self.journal.path.stem} {number}").shuffle(order)
        for line in self._trained(number, order) if self.trainings else self._measured(number, order):
            self.journal.append(line)
            self._take(line, reused=False)

    def _trained(self, number: int, corners: list[Corner]) -> Iterable[TrainedRecord]:
        """Those that an interrupted round has trained already are not trained again."""
        assert self.trainings is not None
        kept = self.journal.at(number)
        for corner in corners:
            line = kept.get(corner)
            if isinstance(line, TrainedRecord) and line.val_loss is not None:
                self._take(line, reused=True)
                self.spent += line.cost_seconds
                continue
            for made in self.trainings.round(number, [corner]):
                self.spent += made.cost_seconds
                yield made

    def _measured(self, number: int, corners: list[Corner]) -> Iterable[VisitedRecord]:
        """A round is of one piece: its corners were neighbours in time."""
        names = [self.names[corner] for corner in corners]
        left = self.inquiry.seconds - self.spent
        visit = min(LONGEST_VISIT, max(SHORTEST_VISIT, self.inquiry.seconds / VISITS))
        began = self.bench.clock()
        try:
            ask = Ask("screening", number, tuple(names), visit, self.inquiry.seconds, breakdown=True)
            self.stopwatch.measure(ask, names, left)
        except KeyboardInterrupt:
            self.interrupted = True
        cost = self.bench.clock() - began
        self.spent += cost
        results = self.stopwatch.measured()
        for corner, name in zip(corners, names, strict=True):
            if name in results:
                result = _slim(results[name], number)
                yield VisitedRecord(
                    round=number, corner=corner, cost_seconds=cost / len(results), result=result
                )
        if self.interrupted:
            raise KeyboardInterrupt

    def _paces(self) -> dict[Corner, ProbeResult]:
        """One look at each, also when it was made for an earlier command."""
        kept = self.journal.at(PACES)
        if any(corner not in kept for corner in self.names):
            for line in self._measured(PACES, list(self.names)):
                self.journal.append(line)
        kept = self.journal.at(PACES)
        return {corner: line.result for corner, line in kept.items() if isinstance(line, VisitedRecord)}

    def _take(self, line: AttributionLine, reused: bool) -> None:
        self.lines.append(line)
        self.reused += reused
        self.watch(Visited(self.design.settings(line.corner), line.round, line, reused))


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
