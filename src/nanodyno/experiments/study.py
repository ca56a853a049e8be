"""One search on its way: asks are answered by the journal or by the stopwatch, and kept."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from nanodyno.analysis.asking import Ask, AskResult, LossReason, SearchRules
from nanodyno.analysis.candidates import Candidate, TuneRequest
from nanodyno.analysis.probes import repetition_summary
from nanodyno.analysis.search import Search
from nanodyno.analysis.tuning import (
    AskStarted,
    Heard,
    Tuning,
    WatchTune,
    is_tight,
    rows_of,
    run_bytes,
    search_candidates_of,
)
from nanodyno.costs.calibration import calibration_for
from nanodyno.errors import NanodynoError
from nanodyno.experiments.ground import DeviceState
from nanodyno.experiments.stopwatch import Stopwatch
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeResult, Throttled
from nanodyno.records.tuning import ConcludedRecord, Journal, ProbedRecord, is_same_probe

VERIFIED_TRUST, SCALED_TRUST = 0.15, 0.3
"""How far predictions may be off: on a card that was measured, and on others."""
REPETITIONS_OF_TWO = 8
"""Processes that two candidates take: each once, and then each in three rounds."""


@dataclass
class Study:
    """One search on its way."""

    request: TuneRequest
    place: DeviceState
    candidates: tuple[Candidate, ...]
    journal: Journal
    stopwatch: Stopwatch
    watch: WatchTune
    clock: Callable[[], float]
    spent: float = 0.0
    reused: int = 0
    under_way: list[str] = field(default_factory=list[str])
    """Measured now, and not kept yet."""
    heard: dict[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    """Of the ask that is being answered."""
    results: dict[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    final: dict[str, Measured] = field(default_factory=dict[str, Measured])
    lost: dict[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    """What ended those that had been measured before."""

    def run(self, notes: tuple[str, ...]) -> Tuning:
        verified = calibration_for(self.place.ground.gpu).verified and self.place.ground.gpu is not None
        search_candidates = search_candidates_of(self.candidates, self.request.config.batch_size)
        search = Search(
            search_candidates,
            SearchRules(
                seconds=self.request.budget_seconds,
                at_once=self.stopwatch.at_once,
                trust=VERIFIED_TRUST if verified else SCALED_TRUST,
            ),
        )
        interrupted = self._search(search, len(search_candidates))
        if not interrupted:
            self._refuse_too_short(search, len(search_candidates))
        tuning = Tuning(
            asked=self.request.config,
            machine=self.place.device.machine,
            ground=self.place.ground,
            candidates=self.candidates,
            results=self.results,
            final=self.final,
            lost=self.lost,
            left_out=search.left_out,
            pick=search.pick(),
            spent_seconds=self.spent,
            budget_seconds=self.request.budget_seconds,
            reused=self.reused,
            memory_limit_bytes=self.request.memory_limit_bytes,
            interrupted=interrupted,
            notes=notes,
        )
        if not interrupted:
            self._conclude(tuning)
        return tuning

    def _search(self, search: Search, search_candidates: int) -> bool:
        """Whether Ctrl-C ended it."""
        asks = search.asks()
        ask: Ask | None = None
        try:
            ask = next(asks)
            while True:
                self.heard = {}
                self.watch(AskStarted(ask, self.spent, search_candidates))
                ask = asks.send(self._answer(ask))
        except StopIteration:
            return False
        except KeyboardInterrupt:
            if ask is not None and ask.stage != "final":
                for name, result in self.stopwatch.measured().items():
                    if name in self.under_way:
                        self._keep(ask, name, result, 0.0)
                with suppress(StopIteration):  # also what was just heard, and not yet told to the search
                    asks.send(answer_of(self.spent, self.heard, self.place, self.candidates))
            return True

    def _answer(self, ask: Ask) -> AskResult:
        found = self._remembered(ask)
        missing = [name for name in ask.names if name not in found]
        if missing:
            began, self.under_way = self.clock(), missing
            measured = self.stopwatch.measure(ask, missing, ask.until - self.spent)
            cost = self.clock() - began
            self.spent += cost
            for name in missing:
                result = measured.get(name) or self._cut_short(name)
                self._keep(ask, name, result, cost / len(missing))
                found[name] = result
        return answer_of(self.spent, {name: found[name] for name in ask.names}, self.place, self.candidates)

    def _remembered(self, ask: Ask) -> dict[str, ProbeResult]:
        """A round of the final is of one piece: its candidates were neighbours in time."""
        known = {name: self.journal.probed(ask.stage, ask.round, name) for name in ask.names}
        kept = {
            name: line
            for name, line in known.items()
            if line is not None and is_same_probe(line.result.config, self._candidate(name).config)
            if not (_is_cut_short(line.result) and ask.until > line.until_seconds)
            if not _may_pass(line.result, self.place)
        }
        if ask.stage == "final" and len(kept) < len(ask.names):
            return {}
        for name, line in kept.items():
            self.spent += line.cost_seconds
            self.reused += 1
            self._take(ask, name, line.result, reused=True)
        return {name: line.result for name, line in kept.items()}

    def _keep(self, ask: Ask, name: str, result: ProbeResult, cost: float) -> None:
        self.under_way = [other for other in self.under_way if other != name]
        line = ProbedRecord(
            stage=ask.stage,
            round=ask.round,
            name=name,
            cost_seconds=cost,
            until_seconds=ask.until,
            result=result,
        )
        self.journal.append(line)
        self._take(ask, name, result, reused=False)

    def _take(self, ask: Ask, name: str, result: ProbeResult, reused: bool) -> None:
        if isinstance(result, Measured):
            before = (self.final if ask.stage == "final" else self.results).get(name)
            joined = _joined(before, result, ask.round)
            if ask.stage == "final":
                self.final[name] = joined
            else:
                self.results[name] = joined
        elif not isinstance(self.results.get(name), Measured):
            self.results[name] = result
        elif not _is_cut_short(result):
            self.lost[name] = result
        self.heard[name] = result
        self.watch(Heard(self._candidate(name), ask.stage, result, reused))

    def _candidate(self, name: str) -> Candidate:
        return next(each for each in self.candidates if each.name == name)

    def _cut_short(self, name: str) -> Failed:
        config = self._candidate(name).config
        return Failed(config=config, reason="interrupted", stage="measuring", words="its time was up")

    def _refuse_too_short(self, search: Search, search_candidates: int) -> None:
        cut = any(reason == "no-time" for reason in search.left_out.values())
        if search.measured >= min(2, search_candidates) or not cut:
            return
        each = search.repetition_cost or self.request.budget_seconds
        enough = math.ceil(REPETITIONS_OF_TWO * each / 60)
        reported = f"--budget of {self.request.budget_seconds:g} s is too short for two candidates here: "
        reported += f"{search.measured} measured in {self.spent:.0f} s"
        raise NanodynoError(reported, f"give --budget {enough}m or more: what was measured is kept")

    def _conclude(self, tuning: Tuning) -> None:
        if tuning.pick is None:
            return
        row = next(each for each in rows_of(tuning) if each.name == tuning.pick.chosen)
        assert row.tokens_per_second is not None
        concluded = ConcludedRecord(
            budget_seconds=self.request.budget_seconds,
            chosen=row.name,
            config=row.candidate.config,
            tokens_per_second=row.tokens_per_second.value,
            confirmed=row.is_final,
        )
        self.journal.conclude(concluded)


def answer_of(
    spent: float, results: Mapping[str, ProbeResult], place: DeviceState, candidates: tuple[Candidate, ...]
) -> AskResult:
    seconds: dict[str, float] = {}
    precision: dict[str, float] = {}
    needs: dict[str, int] = {}
    lost: dict[str, LossReason] = {}
    for name, result in results.items():
        if not isinstance(result, Measured):
            if not _is_cut_short(result):
                lost[name] = _loss_of(result)
            continue
        summary = repetition_summary(result.repetitions[-1], result.config)
        seconds[name] = summary.seconds / result.config.tokens_per_iter
        if summary.precision is not None:
            precision[name] = summary.precision
        candidate = next(each for each in candidates if each.name == name)
        whole = run_bytes(result.memory, candidate, place.ground)
        if is_tight(whole, place.ground):
            lost[name] = "tight"
        if (peak := result.memory.peak_reserved_bytes or result.memory.peak_host_bytes) is not None:
            needs[name] = peak
    return AskResult(spent, seconds, precision, needs, lost)


def _loss_of(result: ProbeResult) -> LossReason:
    if isinstance(result, OutOfMemory):
        return "too-large"
    return "disturbed" if isinstance(result, Throttled) else "failed"


def _is_cut_short(result: ProbeResult) -> bool:
    return isinstance(result, Failed) and result.reason == "interrupted"


def _may_pass(result: ProbeResult, place: DeviceState) -> bool:
    """Whether an earlier search met something that need not be there now: it is measured again."""
    if isinstance(result, OutOfMemory):
        held = sum(each.bytes or 0 for each in result.holders)
        return held > place.held_bytes
    return isinstance(result, Throttled) or (isinstance(result, Failed) and result.reason in ("died", "hung"))


def _joined(before: ProbeResult | None, result: Measured, number: int) -> Measured:
    """All visits of a candidate; each was in a process of its own, by the number of its round."""
    repetitions = tuple(
        repetition.model_copy(update={"process": number, "round": number})
        for repetition in result.repetitions[-1:]
    )
    if not isinstance(before, Measured):
        return result.model_copy(update={"repetitions": repetitions})
    return before.model_copy(
        update={"repetitions": (*before.repetitions, *repetitions), "memory": result.memory}
    )
