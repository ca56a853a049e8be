"""The fastest micro-batch and switches for one machine: the search of analysis/search.py, on a real bench."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nanodyno import __version__
from nanodyno.analysis.candidates import Candidate, Wanted, candidates_for, changed
from nanodyno.analysis.probes import visit_summary
from nanodyno.analysis.search import Answer, Ask, Loss, Rules, Search
from nanodyno.analysis.tuning import (
    Asked,
    Heard,
    Tuning,
    WatchTune,
    entrants_of,
    is_tight,
    rows_of,
    run_bytes,
)
from nanodyno.config import RunConfig
from nanodyno.costs.advice import advise
from nanodyno.costs.calibration import calibration_for
from nanodyno.errors import NanodynoError
from nanodyno.experiments.ground import Place, look_around, vocabulary_of
from nanodyno.experiments.stopwatch import BenchStopwatch, Stopwatch
from nanodyno.probe.messages import ProbeJob
from nanodyno.records.probe import Failed, Measured, OutOfMemory, ProbeResult, Throttled, WatchProbe
from nanodyno.records.tuning import ConcludedRecord, Journal, ProbedRecord, Question, settings_of

GIB = 2**30
TUNED = (
    "batch_size", "recompute", "loss_rows", "cuda_graph", "offload_moments", "kernels", "compile", "threads",
    "residual_dtype", "moments_dtype", "fp8",
)  # fmt: skip
"""Settings that a search may change."""
VERIFIED_TRUST, SCALED_TRUST = 0.15, 0.3
"""How far predictions may be off: on a card that was measured, and on others."""
REDO = {"cuda": 1, "mps": 1, "cpu": 0}
"""How often a disturbed round is made again: on a CPU, where most are, another round tells more."""
VISITS_OF_TWO = 8
"""Processes that two candidates take: each once, and then each in three rounds."""

MakeStopwatch = Callable[[Mapping[str, ProbeJob], WatchProbe, int], Stopwatch]
Look = Callable[[RunConfig, int | None], Place]


@dataclass(frozen=True)
class Wish:
    config: RunConfig
    budget_seconds: float
    memory_limit_bytes: int | None = None
    """Of the card that is emulated, context included."""
    allow_different: bool = False
    held: frozenset[str] = frozenset()
    """Settings that the user gave, which stay as they are."""
    again: bool = False


@dataclass(frozen=True)
class Bench:
    """With what to measure; tests and clusters have their own."""

    make: MakeStopwatch = BenchStopwatch
    look: Look = look_around
    cache: Path | None = None
    clock: Callable[[], float] = time.monotonic


def tune(wish: Wish, watch: WatchTune = lambda _: None, bench: Bench | None = None) -> Tuning:
    """Searches until it knows or the time is up. Ctrl-C ends it with what is known by then."""
    bench = bench or Bench()
    began = bench.clock()
    place = bench.look(wish.config, wish.memory_limit_bytes)
    vocab_size, notes = vocabulary_of(wish.config)
    wanted = Wanted(wish.config, vocab_size, wish.allow_different, wish.held)
    candidates = candidates_for(wanted, place.ground)
    limit = allocator_limit(wish, place)
    _refuse_unless_one_fits(candidates, place)
    journal = Journal(question_of(wish, place), wish.again, bench.cache)
    jobs = {each.name: ProbeJob(config=each.config, memory_limit_bytes=limit) for each in candidates}
    try:
        with bench.make(jobs, watch, REDO[place.ground.device_type]) as stopwatch:
            course = _Course(wish, place, candidates, journal, stopwatch, watch, bench.clock)
            course.spent = bench.clock() - began
            tuning = course.run((*notes, *place.notes, *journal.notes))
    finally:
        journal.close()
    return tuning


def recall(wish: Wish, bench: Bench | None = None) -> RunConfig | None:
    """The config as an earlier search on this machine has tuned it; None where there was none."""
    bench = bench or Bench()
    place = bench.look(wish.config, wish.memory_limit_bytes)
    journal = Journal(question_of(wish, place), folder=bench.cache)
    journal.close()
    concluded = journal.concluded()
    return None if concluded is None else applied(wish.config, concluded.config)


def applied(config: RunConfig, tuned: RunConfig) -> RunConfig:
    """The run as it is, with the tuned settings."""
    return changed(config, tuned_settings(config, tuned))


def tuned_settings(config: RunConfig, tuned: RunConfig) -> dict[str, object]:
    """What the search changed."""
    return {key: getattr(tuned, key) for key in TUNED if getattr(tuned, key) != getattr(config, key)}


def question_of(wish: Wish, place: Place) -> Question:
    machine = place.device.machine
    return Question(
        device_name=machine.device_name,
        device_memory_bytes=machine.device_memory_bytes,
        driver=machine.driver,
        threads=machine.cpu_threads if machine.device_type == "cpu" else None,
        torch=place.device.torch,
        nanodyno=__version__,
        memory_limit_bytes=wish.memory_limit_bytes,
        allow_different=wish.allow_different,
        held=tuple(sorted(wish.held & set(TUNED))),
        settings=settings_of(wish.config),
    )


def allocator_limit(wish: Wish, place: Place) -> int | None:
    """Of an emulated card what is left beside the context."""
    if wish.memory_limit_bytes is None or place.ground.device_type != "cuda":
        return wish.memory_limit_bytes
    left = wish.memory_limit_bytes - place.ground.context_bytes
    if left <= 0:
        context = place.ground.context_bytes / GIB
        raise NanodynoError(
            f"--memory-limit leaves nothing: CUDA's context alone takes {context:.2f} GiB here", "give more"
        )
    return left


def _refuse_unless_one_fits(candidates: tuple[Candidate, ...], place: Place) -> None:
    if any(not each.hopeless for each in candidates):
        return
    smallest = min(candidates, key=lambda each: each.memory.total if each.memory else math.inf)
    usable = place.ground.usable_bytes
    assert smallest.memory is not None, "only what is predicted is hopeless"
    assert smallest.setup is not None
    assert usable is not None
    needs = smallest.memory.total
    words = (
        f"nothing fits: the smallest, {smallest.name}, needs about {needs / GIB:.1f} GiB by prediction, and "
    )
    words += f"{usable / GIB:.1f} GiB are usable"
    if needs <= usable + place.held_bytes:
        words += f"; other programs hold {place.held_bytes / GIB:.1f} GiB"
        words += f": {', '.join(place.holders)}" if place.holders else ""
        raise NanodynoError(words, "end them, or tune when they are done")
    from nanodyno.train.fitting import advice_words

    calibration = calibration_for(place.ground.card, place.ground.dtype)
    raise NanodynoError(words, advice_words(advise(smallest.setup, usable, calibration)))


@dataclass
class _Course:
    """One search on its way."""

    wish: Wish
    place: Place
    candidates: tuple[Candidate, ...]
    journal: Journal
    stopwatch: Stopwatch
    watch: WatchTune
    clock: Callable[[], float]
    spent: float = 0.0
    reused: int = 0
    under_way: list[str] = field(default_factory=list[str])
    """Measured now, and not kept yet."""
    results: dict[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    final: dict[str, Measured] = field(default_factory=dict[str, Measured])

    def run(self, notes: tuple[str, ...]) -> Tuning:
        verified = calibration_for(self.place.ground.card).verified and self.place.ground.card is not None
        entrants = entrants_of(self.candidates)
        search = Search(
            entrants,
            Rules(
                seconds=self.wish.budget_seconds,
                at_once=self.stopwatch.at_once,
                trust=VERIFIED_TRUST if verified else SCALED_TRUST,
            ),
        )
        interrupted = self._search(search, len(entrants))
        if not interrupted:
            self._refuse_too_short(search, len(entrants))
        tuning = Tuning(
            asked=self.wish.config,
            machine=self.place.device.machine,
            ground=self.place.ground,
            candidates=self.candidates,
            results=self.results,
            final=self.final,
            left_out=search.left_out,
            pick=search.pick(),
            spent_seconds=self.spent,
            budget_seconds=self.wish.budget_seconds,
            reused=self.reused,
            memory_limit_bytes=self.wish.memory_limit_bytes,
            interrupted=interrupted,
            notes=notes,
        )
        if not interrupted:
            self._conclude(tuning)
        return tuning

    def _search(self, search: Search, entrants: int) -> bool:
        """Whether Ctrl-C ended it."""
        asks = search.asks()
        ask: Ask | None = None
        try:
            ask = next(asks)
            while True:
                self.watch(Asked(ask, self.spent, entrants))
                ask = asks.send(self._answer(ask))
        except StopIteration:
            return False
        except KeyboardInterrupt:
            if ask is not None and ask.stage != "final":
                for name, result in self.stopwatch.measured().items():
                    if name in self.under_way:
                        self._keep(ask, name, result, 0.0)
            return True

    def _answer(self, ask: Ask) -> Answer:
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
            self.under_way = []
        return answer_of(self.spent, {name: found[name] for name in ask.names}, self.place, self.candidates)

    def _remembered(self, ask: Ask) -> dict[str, ProbeResult]:
        """A round of the final is of one piece: its candidates were neighbours in time."""
        known = {name: self.journal.probed(ask.stage, ask.round, name) for name in ask.names}
        kept = {
            name: line
            for name, line in known.items()
            if line is not None and line.result.config == self._candidate(name).config
            if not (_is_cut_short(line.result) and ask.until > line.until_seconds)
        }
        if ask.stage == "final" and len(kept) < len(ask.names):
            return {}
        for name, line in kept.items():
            self.spent += line.cost_seconds
            self.reused += 1
            self._take(ask, name, line.result, reused=True)
        return {name: line.result for name, line in kept.items()}

    def _keep(self, ask: Ask, name: str, result: ProbeResult, cost: float) -> None:
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
        elif ask.stage != "final" and not isinstance(self.results.get(name), Measured):
            self.results[name] = result
        self.watch(Heard(self._candidate(name), ask.stage, result, reused))

    def _candidate(self, name: str) -> Candidate:
        return next(each for each in self.candidates if each.name == name)

    def _cut_short(self, name: str) -> Failed:
        config = self._candidate(name).config
        return Failed(config=config, reason="interrupted", stage="measuring", words="its time was up")

    def _refuse_too_short(self, search: Search, entrants: int) -> None:
        cut = any(reason == "no-time" for reason in search.left_out.values())
        if search.measured >= min(2, entrants) or not cut:
            return
        each = search.visit_cost or self.wish.budget_seconds
        enough = math.ceil(VISITS_OF_TWO * each / 60)
        told = f"--budget of {self.wish.budget_seconds:g} s is too short for two candidates here: "
        told += f"{search.measured} measured in {self.spent:.0f} s"
        raise NanodynoError(told, f"give --budget {enough}m or more: what was measured is kept")

    def _conclude(self, tuning: Tuning) -> None:
        if tuning.pick is None or self.journal.concluded_with(self.wish.budget_seconds, tuning.pick.chosen):
            return
        row = next(each for each in rows_of(tuning) if each.name == tuning.pick.chosen)
        assert row.tokens_per_second is not None
        concluded = ConcludedRecord(
            budget_seconds=self.wish.budget_seconds,
            chosen=row.name,
            config=row.candidate.config,
            tokens_per_second=row.tokens_per_second.estimate,
        )
        self.journal.append(concluded)


def answer_of(
    spent: float, results: Mapping[str, ProbeResult], place: Place, candidates: tuple[Candidate, ...]
) -> Answer:
    seconds: dict[str, float] = {}
    precision: dict[str, float] = {}
    needs: dict[str, int] = {}
    lost: dict[str, Loss] = {}
    for name, result in results.items():
        if not isinstance(result, Measured):
            if not _is_cut_short(result):
                lost[name] = _loss_of(result)
            continue
        summary = visit_summary(result.visits[-1], result.config)
        seconds[name] = summary.seconds / result.config.tokens_per_iter
        if summary.precision is not None:
            precision[name] = summary.precision
        candidate = next(each for each in candidates if each.name == name)
        whole = run_bytes(result.memory, candidate, place.ground)
        if is_tight(whole, place.ground):
            lost[name] = "tight"
        if (needed := whole or result.memory.peak_host_bytes) is not None:
            needs[name] = needed
    return Answer(spent, seconds, precision, needs, lost)


def _loss_of(result: ProbeResult) -> Loss:
    if isinstance(result, OutOfMemory):
        return "too-large"
    return "disturbed" if isinstance(result, Throttled) else "failed"


def _is_cut_short(result: ProbeResult) -> bool:
    return isinstance(result, Failed) and result.reason == "interrupted"


def _joined(before: ProbeResult | None, result: Measured, number: int) -> Measured:
    """All visits of a candidate; each was in a process of its own, by the number of its round."""
    visits = tuple(
        visit.model_copy(update={"process": number, "round": number}) for visit in result.visits[-1:]
    )
    if not isinstance(before, Measured):
        return result.model_copy(update={"visits": visits})
    return before.model_copy(update={"visits": (*before.visits, *visits), "memory": result.memory})
