"""What a search came to, read: a row for each candidate, who won, and why each other one did not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nanodyno.analysis.asking import Ask, Pick, SearchCandidate, SearchStage, SkipReason
from nanodyno.analysis.candidates import Candidate, Ground
from nanodyno.analysis.metrics import Speed
from nanodyno.analysis.probes import ProbeSummary, summarise_probe
from nanodyno.analysis.repeats import config_interval
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.verdict import SpeedComparison, compare
from nanodyno.config import RunConfig
from nanodyno.costs.memory_autograd import evaluation_bytes
from nanodyno.records.probe import Measured, MemoryRecord, ProbeProgress, ProbeResult
from nanodyno.records.types import MachineRecord


@dataclass(frozen=True)
class Tuning:
    """Everything that is known when a search ends, however it ends."""

    asked: RunConfig
    machine: MachineRecord
    ground: Ground
    candidates: tuple[Candidate, ...]
    results: Mapping[str, ProbeResult]
    """Of the stages before the final."""
    final: Mapping[str, Measured]
    lost: Mapping[str, ProbeResult]
    """What ended those that had been measured before."""
    left_out: Mapping[str, SkipReason]
    pick: Pick | None
    spent_seconds: float
    budget_seconds: float
    reused: int = 0
    """Probes that were not made again."""
    memory_limit_bytes: int | None = None
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate | None:
        return None if self.pick is None else self.candidate(self.pick.chosen)

    def candidate(self, name: str) -> Candidate:
        return next(each for each in self.candidates if each.name == name)


@dataclass(frozen=True)
class AskStarted:
    """For a display: what is measured next."""

    ask: Ask
    spent_seconds: float
    search_candidates: int


@dataclass(frozen=True)
class Heard:
    """For a display: what came of it."""

    candidate: Candidate
    stage: SearchStage
    result: ProbeResult
    reused: bool


TuneEvent = AskStarted | Heard | ProbeProgress
WatchTune = Callable[[TuneEvent], None]


@dataclass(frozen=True)
class TuneRow:
    """One candidate. Without a summary it was not measured, and `reason` says why."""

    candidate: Candidate
    summary: ProbeSummary | None
    speed: Speed | None
    """Of the final; of a candidate that did not come so far, without bounds."""
    is_final: bool
    peak_bytes: int | None
    """Allocated on a card, of the host on a CPU."""
    needs_bytes: int | None
    """Of a whole run on a card: measured and predicted in parts; see `run_bytes`."""
    reason: SkipReason | None
    result: ProbeResult | None

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def tokens_per_second(self) -> Interval | None:
        return None if self.speed is None else self.speed.tokens_per_second

    @property
    def iteration_seconds(self) -> float | None:
        seconds = None if self.speed is None else self.speed.iteration_seconds
        return None if seconds is None else seconds.value


def search_candidates_of(candidates: Sequence[Candidate], asked: int) -> tuple[SearchCandidate, ...]:
    """As the search sees them; those that cannot fit do not take part. `asked` is the user's micro-batch."""
    return tuple(
        SearchCandidate(
            name=each.name,
            batch_size=each.batch_size,
            switches=" ".join(f"{key}={value}" for key, value in each.switches),
            variant=each.variant,
            predicted_seconds=each.predicted_seconds,
            predicted_bytes=None if each.memory is None else each.memory.total,
            asked=each.batch_size == asked and not each.switches,
        )
        for each in candidates
        if not each.hopeless
    )


def run_bytes(memory: MemoryRecord, candidate: Candidate, ground: Ground) -> int | None:
    """What a whole run takes of a card: the measured peak of the allocator, beside a CUDA graph also what an
    evaluation needs (predicted: a probe makes none), and the context. None where nothing is reserved."""
    if memory.peak_reserved_bytes is None:
        return None
    setup = candidate.setup
    evaluation = evaluation_bytes(setup) if setup is not None and setup.cuda_graph else 0
    return memory.peak_reserved_bytes + evaluation + ground.context_bytes


def is_tight(needs_bytes: int | None, ground: Ground) -> bool:
    if needs_bytes is None or ground.usable_bytes is None:
        return False
    return needs_bytes + ground.margin_bytes > ground.usable_bytes


def rows_of(tuning: Tuning) -> list[TuneRow]:
    """By micro-batch, the fastest first. Their ceiling is one and the same: the fastest large matmul that any
    of the processes saw."""
    rows = [_row(tuning, each) for each in tuning.candidates if _is_reported(tuning, each)]
    seen = [row.speed.reference.ceiling_flops_per_second for row in rows if row.speed is not None]
    ceiling = max((each for each in seen if each is not None), default=None)
    rows = [row if row.speed is None else replace(row, speed=row.speed.with_ceiling(ceiling)) for row in rows]
    return sorted(rows, key=lambda row: (row.candidate.batch_size, _seconds(row)))


def _is_reported(tuning: Tuning, candidate: Candidate) -> bool:
    """Switches that were not tried are no row: there are many."""
    return not candidate.variant or candidate.name in tuning.results


def _seconds(row: TuneRow) -> float:
    return row.iteration_seconds or float("inf")


def _row(tuning: Tuning, candidate: Candidate) -> TuneRow:
    name = candidate.name
    is_final = name in tuning.final and tuning.pick is not None and tuning.pick.reading is not None
    first = tuning.results.get(name)
    result = _with_breakdown(tuning.final[name], first) if is_final else first
    reason = "too-large" if candidate.hopeless else tuning.left_out.get(name)
    if not isinstance(result, Measured):
        return TuneRow(candidate, None, None, False, None, None, reason, result)
    left_out = _odd_rounds(tuning) if is_final else set[int]()
    summary = summarise_probe(result, left_out)
    alone = replace(summary.iteration_seconds, low=None, high=None)
    seconds = (final_seconds(tuning, candidate) if is_final else None) or alone
    memory = result.memory
    return TuneRow(
        candidate=candidate,
        summary=summary,
        speed=replace(summary.speed, iteration_seconds=seconds),
        is_final=is_final,
        peak_bytes=memory.peak_allocated_bytes or memory.peak_host_bytes,
        needs_bytes=run_bytes(memory, candidate, tuning.ground),
        reason=reason,
        result=result,
    )


def _with_breakdown(final: Measured, first: ProbeResult | None) -> Measured:
    """Where the time goes is looked at in the search; the final is for rates alone."""
    if not isinstance(first, Measured):
        return final
    return final.model_copy(update={"breakdown": first.breakdown, "breakdown_fault": first.breakdown_fault})


def final_seconds(tuning: Tuning, candidate: Candidate) -> Interval | None:
    """Of an iteration; the intervals of all finalists together cover in 95 of 100, so that whichever was
    picked may be read."""
    if tuning.pick is None or tuning.pick.reading is None:
        return None
    level = 1 - 0.05 / max(1, len(tuning.final))
    per_token = config_interval(tuning.pick.reading.kept, candidate.name, level)
    return None if per_token is None else per_token.times(candidate.config.tokens_per_iter)


def against_chosen(tuning: Tuning) -> list[SpeedComparison]:
    """The other finalists held against the chosen one, on the final's rounds; of all pairs, since which one
    was chosen hangs on the same rounds."""
    if tuning.pick is None or tuning.pick.reading is None:
        return []
    reading, chosen = tuning.pick.reading, tuning.pick.chosen
    names = list(dict.fromkeys(repetition.config for repetition in reading.kept))
    pairs = len(names) * (len(names) - 1) / 2
    if not pairs:
        return []
    level = 1 - (1 - reading.level) * (len(names) - 1) / pairs
    return compare(reading.kept, chosen, level=level)


def _odd_rounds(tuning: Tuning) -> set[int]:
    reading = tuning.pick.reading if tuning.pick is not None else None
    return set() if reading is None else {repetition.round for repetition in reading.odd}


def curve_of(rows: Sequence[TuneRow], chosen: str | None) -> list[TuneRow]:
    """The fastest candidate of each micro-batch, by micro-batch; the chosen one stands for its own, though
    another switch may be as fast."""
    best: dict[int, TuneRow] = {}
    for row in rows:
        size = row.candidate.batch_size
        if row.summary is None or row.reason not in (None, "tight"):
            continue
        if size not in best or _rank(row, chosen) > _rank(best[size], chosen):
            best[size] = row
    return [best[size] for size in sorted(best)]


def _rank(row: TuneRow, chosen: str | None) -> tuple[bool, bool, bool, float]:
    return row.name == chosen, row.reason is None, row.is_final, -_seconds(row)
